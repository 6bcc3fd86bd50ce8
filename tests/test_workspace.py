"""House rules that a machine can check, over the sources of all five packages."""

import ast
import importlib
import inspect
import io
import statistics
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PACKAGES = sorted(path.parent for path in ROOT.glob("packages/*/pyproject.toml"))
MODULES = [path.name.replace("-", "_") for path in PACKAGES]
MAX_LINES = 600
MAX_MEDIAN = 150
MAX_ADAPTER = 400
MAX_NAMES = {"saga_core": 40, "saga_langgraph": 12, "saga_crewai": 12, "saga_openai": 12}
EMPTY_WORDS = {"utils", "util", "helpers", "helper", "manager", "common", "misc"}


def sources(package: Path) -> list[Path]:
    return sorted(package.glob("src/**/*.py"))


def lengths(paths: list[Path]) -> dict[str, int]:
    return {str(path): len(path.read_text(encoding="utf-8").splitlines()) for path in paths}


def code_lines(path: Path) -> int:
    """Return how many lines of a source hold code: no blank line, no comment, no docstring."""
    text = path.read_text(encoding="utf-8")
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in skipped
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def too_long(paths: list[Path]) -> dict[str, int]:
    return {path: count for path, count in lengths(paths).items() if count > MAX_LINES}


def settings(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))


def requirements(folder: Path) -> Iterator[Requirement]:
    """Yield what the folder's pyproject.toml asks for: its dependencies, its extras, its groups, its build."""
    found = settings(folder)
    project = found["project"]
    lists: list[list[object]] = [
        project.get("dependencies", []),
        *project.get("optional-dependencies", {}).values(),
        *found.get("dependency-groups", {}).values(),
        found.get("build-system", {}).get("requires", []),
    ]
    for entries in lists:
        yield from (Requirement(entry) for entry in entries if isinstance(entry, str))


def without_floor(asked: Iterator[Requirement]) -> list[str]:
    """Return the requirements that a lowest resolution would take at any age; those on each other are met here."""
    members = {path.name for path in PACKAGES}
    floors = {">=", "~=", "==", ">"}
    foreign = (one for one in asked if one.name not in members)
    return [str(one) for one in foreign if not any(part.operator in floors for part in one.specifier)]


def undocumented(module: ModuleType) -> list[str]:
    """Return the public names of the module, and their public methods, that neither they nor a base documents."""
    missing: list[str] = []
    for name in getattr(module, "__all__", []):
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isroutine(value):
            missing += [label for label, part in [(name, value), *public_methods(value)] if not inspect.getdoc(part)]
    return missing


def public_methods(owner: object) -> Iterator[tuple[str, object]]:
    """Yield the methods and properties that the owner, if it is a class, defines or inherits from our own code."""
    if not inspect.isclass(owner):
        return
    for name, part in inspect.getmembers_static(owner):
        function = part.fget if isinstance(part, property) else inspect.unwrap(getattr(part, "__func__", part))
        if inspect.isfunction(function) and not name.startswith("_") and function.__module__.startswith("saga_"):
            yield f"{owner.__name__}.{name}", getattr(owner, name)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_no_module_is_longer_than_six_hundred_lines(package: Path) -> None:
    assert too_long(sources(package)) == {}


def test_half_of_the_core_is_in_modules_of_at_most_150_lines() -> None:
    counts = [count for count in lengths(sources(ROOT / "packages" / "saga-core")).values() if count]
    assert statistics.median(counts) <= MAX_MEDIAN


@pytest.mark.parametrize("name", ["saga-langgraph", "saga-crewai", "saga-openai"])
def test_an_adapter_is_thin(name: str) -> None:
    assert sum(map(code_lines, sources(ROOT / "packages" / name))) < MAX_ADAPTER


def test_a_line_of_code_is_counted_and_a_line_of_words_is_not(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""Words,\nof two lines."""\n\n# more\nx = (\n    1,  # one\n)\ntext = "a\\\nb"\n', encoding="utf-8"
    )
    assert code_lines(module) == 5


def test_a_module_of_601_lines_is_found(tmp_path: Path) -> None:
    at_the_limit, over_it = tmp_path / "at.py", tmp_path / "over.py"
    at_the_limit.write_text("x = 1\n" * 600, encoding="utf-8")
    over_it.write_text("x = 1\n" * 601, encoding="utf-8")
    assert too_long([at_the_limit, over_it]) == {str(over_it): 601}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_no_module_is_named_by_an_empty_word(package: Path) -> None:
    assert [path for path in sources(package) if EMPTY_WORDS & set(path.stem.strip("_").split("_"))] == []


@pytest.mark.parametrize("folder", [ROOT, *PACKAGES], ids=lambda path: path.name)
def test_every_dependency_has_a_floor(folder: Path) -> None:
    assert without_floor(requirements(folder)) == []


def test_a_dependency_without_a_floor_is_found() -> None:
    asked = map(Requirement, ["msgspec", "httpx<1", "stripe>=15,<17", "anyio[trio]~=4.9", "saga-core"])
    assert without_floor(iter(asked)) == ["msgspec", "httpx<1"]


@pytest.mark.parametrize("module", MAX_NAMES)
def test_a_public_surface_is_small_and_every_name_of_it_is_there(module: str) -> None:
    found = importlib.import_module(module)
    names: list[str] = getattr(found, "__all__", [])
    assert len(names) <= MAX_NAMES[module]
    assert len(set(names)) == len(names)
    assert [name for name in names if not hasattr(found, name)] == []


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_and_method_is_documented(module: str) -> None:
    assert undocumented(importlib.import_module(module)) == []


def test_a_public_method_without_a_docstring_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
class Told:
    "Told."
    def spoken(self): "Spoken."
    @property
    def known(self): "Known."
class Heard(Told):
    "Heard."
    def spoken(self): ...
    def silent(self): ...
    @property
    def dark(self): ...
    @staticmethod
    def mute(): ...
    def _private(self): ...
def bare(): ...
__all__ = ["Told", "Heard", "bare"]
"""
    planted = ModuleType("saga_planted")
    monkeypatch.setitem(sys.modules, planted.__name__, planted)
    exec(program, planted.__dict__)  # noqa: S102 - a module with known faults, as the check would import it
    assert undocumented(planted) == ["Heard.dark", "Heard.mute", "Heard.silent", "bare"]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_a_package_carries_the_licence_of_the_repository(package: Path) -> None:
    assert (package / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert settings(package)["project"]["license"] == "AGPL-3.0-or-later"


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_a_package_is_typed(package: Path) -> None:
    assert (package / "src" / package.name.replace("-", "_") / "py.typed").is_file()
