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

LOADED = "import sys; *sys.path[:], module = sys.argv[1:]; __import__(module); print(*sys.modules)"


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
    foreign, threads = loaded_and_threads("from saga_core import *")
    assert foreign - with_msgspec == {"saga_core"}
    assert threads == ["MainThread"]


def test_an_import_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    subprocess.run([sys.executable, "-I", "-W", "error", "-c", "from saga_core import *"], check=True)
    assert capfd.readouterr() == ("", "")


def test_an_import_alone_leaves_out_what_costs_most() -> None:
    with_msgspec, loaded = (
        set(subprocess.check_output([sys.executable, "-I", "-S", "-c", LOADED, *sys.path, module], text=True).split())
        for module in ("msgspec", "saga_core")
    )
    brought = loaded - with_msgspec
    assert brought.isdisjoint({"asyncio", "sqlite3", "logging", "socket", "inspect", "threading", "hashlib"})
    assert {"saga_core.inverse", "saga_core.errors"} <= brought


@pytest.mark.parametrize("first", ["saga_core", "saga_core.inverse", "saga_core.engine.scope", "saga_core.recovery"])
def test_every_public_name_is_there_whichever_module_came_first(first: str) -> None:
    names = """
import saga_core
assert set(saga_core.__all__) <= set(dir(saga_core))
for name in saga_core.__all__:
    assert not isinstance(getattr(saga_core, name), type(saga_core)), name
    assert vars(saga_core)[name] is getattr(saga_core, name)
try:
    saga_core.inverses
except AttributeError as error:
    assert str(error) == "module 'saga_core' has no attribute 'inverses'"
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-I", "-c", f"import {first}\n{names}"], check=True)


def test_the_footprint_check_sees_a_foreign_module_and_a_thread() -> None:
    """The negative control of the import check."""
    stray = "threading.Thread(target=threading.Event().wait, name='stray', daemon=True).start()"
    foreign, threads = loaded_and_threads(f"import saga_core, pytest, threading; {stray}")
    assert "pytest" in foreign
    assert threads == ["MainThread", "stray"]
