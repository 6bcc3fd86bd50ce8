"""Users' programs, type-checked against the public surface.

One switch, `SURFACE`, says what they are checked against: the stubs beside them, or the installed packages.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple, TypedDict

SURFACE: Literal["stubs", "installed"] = "installed"

HERE = Path(__file__).parent
STUBS = HERE / "stubs"
PROGRAMS = HERE / "programs"
NEGATIVE = PROGRAMS / "negative.py"

# Each program here waits for a module that the installed packages do not have yet. The stubs have them all.
NOT_INSTALLED_YET: Mapping[str, str] = {
    "p12_pytest_proof.py": "saga_core.testing",
}

FRAMEWORKS = HERE / "programs_frameworks"
# LangGraph's own types are partly unknown, so its programs are checked at the standard level.
FRAMEWORK_PROGRAMS = ("p05_create_agent.py", "p06_node.py")
# These wait for names that the adapters do not export yet.
FRAMEWORK_NAMES_AWAITED: Mapping[str, str] = {
    "p07_crew.py": "saga_crewai.saga_guardrail",
    "p08_flow.py": "saga_crewai.SagaFlow",
    "p09_openai.py": "saga_openai.saga_guardrail",
}

PLANTED = re.compile(r"\s*# pyright: ignore\[[\w, ]+\]")


class Finding(NamedTuple):
    file: str
    line: int
    rule: str
    message: str


class Position(TypedDict):
    line: int


class Range(TypedDict):
    start: Position


class Diagnostic(TypedDict, total=False):
    file: str
    severity: str
    message: str
    range: Range
    rule: str


class Output(TypedDict):
    generalDiagnostics: list[Diagnostic]
    summary: dict[str, int]


def programs() -> list[Path]:
    everything = sorted(PROGRAMS.glob("*.py"))
    return everything if SURFACE == "stubs" else [path for path in everything if path.name not in NOT_INSTALLED_YET]


def check(files: Iterable[Path], folder: Path, level: str = "strict") -> list[Finding]:
    """Return what basedpyright finds in the files; the folder holds the run's configuration."""
    listed = [str(path) for path in files]
    settings: dict[str, object] = {
        "typeCheckingMode": level,
        "pythonVersion": "3.11",
        "include": listed,
        "extraPaths": [str(PROGRAMS)],
        "reportMissingModuleSource": False,
    }
    if SURFACE == "stubs":
        settings["stubPath"] = str(STUBS)
    config = folder / "pyrightconfig.json"
    config.write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--outputjson", "-p", str(config)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    output: Output = json.loads(run.stdout)
    assert output["summary"]["filesAnalyzed"] >= len(listed), run.stdout
    return [
        Finding(
            Path(found.get("file", "")).name,
            found["range"]["start"]["line"] + 1 if "range" in found else 0,
            found.get("rule", ""),
            found.get("message", ""),
        )
        for found in output["generalDiagnostics"]
    ]


def differences(stubs: Path, folder: Path) -> list[str]:
    """Return where the installed saga_core is not what the stubs say, but for the allowlist and the modules awaited."""
    config = folder / "mypy.ini"
    config.write_text("[mypy]\ndisable_error_code = overload-overlap\n", encoding="utf-8")
    options = ["--concise", "--ignore-missing-stub", "--ignore-unused-allowlist", "--mypy-config-file", str(config)]
    command = [sys.executable, "-m", "mypy.stubtest", "saga_core", *options, "--allowlist", str(HERE / "allowlist.txt")]
    environment = os.environ | {"MYPYPATH": str(stubs)}
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=folder)
    assert run.stderr == ""
    awaited = tuple(f"{module} failed to import." for module in NOT_INSTALLED_YET.values())
    return [line for line in run.stdout.splitlines() if not line.startswith(awaited)]


def planted_lines(text: str) -> set[int]:
    return {number for number, line in enumerate(text.splitlines(), 1) if PLANTED.search(line)}


def test_every_program_type_checks_strictly(tmp_path: Path) -> None:
    """Over negative.py this also means that none of its ignores is unnecessary."""
    assert check(programs(), tmp_path) == []


def test_every_program_of_a_framework_type_checks(tmp_path: Path) -> None:
    assert check([FRAMEWORKS / name for name in FRAMEWORK_PROGRAMS], tmp_path, "standard") == []


def test_every_excluded_program_of_a_framework_waits_for_a_name_that_is_not_there() -> None:
    assert {*FRAMEWORK_PROGRAMS, *FRAMEWORK_NAMES_AWAITED} == {path.name for path in FRAMEWORKS.glob("p*.py")}
    for name, awaited in FRAMEWORK_NAMES_AWAITED.items():
        module, _, word = awaited.rpartition(".")
        assert word in (FRAMEWORKS / name).read_text(encoding="utf-8")
        assert word not in import_module(module).__all__, f"{awaited} is there: check {name}"


def test_each_planted_mistake_is_reported_on_its_line(tmp_path: Path) -> None:
    text = NEGATIVE.read_text(encoding="utf-8")
    bare = tmp_path / "negative_bare.py"
    bare.write_text(PLANTED.sub("", text), encoding="utf-8")
    planted = planted_lines(text)
    assert len(planted) == 8
    assert {finding.line for finding in check([bare], tmp_path)} == planted


def test_an_ignore_over_a_line_without_a_mistake_is_reported(tmp_path: Path) -> None:
    """The negative control of the first test: were the mistakes no longer mistakes, it would say so."""
    right = 'await charge(customer_id="c", amount=1, currency="usd")'
    text = NEGATIVE.read_text(encoding="utf-8").replace('await charge(customer="c", amount=1, currency="usd")', right)
    mended = tmp_path / "negative_mended.py"
    mended.write_text(text, encoding="utf-8")
    assert [finding.rule for finding in check([mended], tmp_path)] == ["reportUnnecessaryTypeIgnoreComment"]


def test_every_excluded_program_waits_for_a_module_that_is_not_there() -> None:
    for name, module in NOT_INSTALLED_YET.items():
        assert module.rpartition(".")[2] in (PROGRAMS / name).read_text(encoding="utf-8")
        assert find_spec(module) is None, f"{module} is there: take {name} out of NOT_INSTALLED_YET"


def test_the_installed_core_differs_from_its_stub_only_where_the_allowlist_says_why(tmp_path: Path) -> None:
    assert differences(STUBS, tmp_path) == []


def test_an_option_that_the_installed_core_lacks_is_a_difference(tmp_path: Path) -> None:
    """The negative control of the comparison."""
    stubs = tmp_path / "stubs"
    shutil.copytree(STUBS / "saga_core", stubs / "saga_core")
    stub = stubs / "saga_core" / "__init__.pyi"
    stub.write_text(stub.read_text(encoding="utf-8").replace("if_settled:", "if_done:"), encoding="utf-8")
    assert {line.split()[0] for line in differences(stubs, tmp_path)} == {"saga_core.saga_scope"}


def test_mypy_finds_nothing_but_the_overlaps_marked_in_the_stub(tmp_path: Path) -> None:
    files = [path for path in programs() if path != NEGATIVE]
    search = [PROGRAMS, STUBS] if SURFACE == "stubs" else [PROGRAMS]
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), *map(str, files)]
    environment = os.environ | {"MYPYPATH": os.pathsep.join(map(str, search))}
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    errors = [line for line in run.stdout.splitlines() if ": error: " in line]
    overlaps = 2 if SURFACE == "stubs" else 0
    assert [line.rsplit("  ", 1)[-1] for line in errors] == ["[overload-overlap]"] * overlaps, run.stdout
    assert f"{len(files)} source files" in run.stdout, run.stderr
