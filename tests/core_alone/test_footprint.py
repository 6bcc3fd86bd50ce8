"""What saga-core asks of a machine, checked where nothing but msgspec and pytest may be installed."""

import re
import subprocess
import sys
from importlib.metadata import requires

import pytest

# What an import brings in beyond what the interpreter had loaded, and the threads that then run.
PROBE = """
import sys
before = set(sys.modules)
exec(sys.argv[1])
import threading
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
print(*(thread.name for thread in threading.enumerate()))
"""


def loaded_and_threads(statement: str) -> tuple[set[str], list[str]]:
    """Return what a bare interpreter then holds from outside the standard library, and the threads that run."""
    command = [sys.executable, "-I", "-c", PROBE, statement]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    modules, threads = run.stdout.splitlines()
    return set(modules.split()) - sys.stdlib_module_names, threads.split()


def test_the_one_requirement_is_msgspec() -> None:
    required = [requirement for requirement in requires("saga-core") or () if "extra ==" not in requirement]
    assert [re.split(r"[^a-z]", requirement)[0] for requirement in required] == ["msgspec"]


def test_an_import_loads_the_standard_library_and_msgspec_and_starts_no_thread() -> None:
    with_msgspec, _ = loaded_and_threads("import msgspec")
    foreign, threads = loaded_and_threads("import saga_core")
    assert foreign - with_msgspec == {"saga_core"}
    assert threads == ["MainThread"]


def test_an_import_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    subprocess.run([sys.executable, "-I", "-W", "error", "-c", "import saga_core"], check=True)
    assert capfd.readouterr() == ("", "")


def test_the_footprint_check_sees_a_foreign_module_and_a_thread() -> None:
    """The negative control of the import check."""
    stray = "threading.Thread(target=threading.Event().wait, name='stray', daemon=True).start()"
    foreign, threads = loaded_and_threads(f"import saga_core, pytest, threading; {stray}")
    assert "pytest" in foreign
    assert threads == ["MainThread", "stray"]
