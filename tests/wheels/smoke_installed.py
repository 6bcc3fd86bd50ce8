"""What stands after installing the wheels of SAGA_EXPECTED as a user does; run by the session `wheels`."""

import json
import os
import subprocess
import sys
import sysconfig
from importlib.metadata import distribution, distributions
from pathlib import Path

import pytest

EXPECTED = sorted(os.environ["SAGA_EXPECTED"].split(","))
SITE = Path(sysconfig.get_path("purelib")).resolve()
SCRIPTS = Path(sysconfig.get_path("scripts"))


def run(*command: str, cwd: Path) -> str:
    """Return what the command prints; no variable of ours, no path of the source tree."""
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env={"HOME": str(cwd)}, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_these_distributions_of_ours_are_installed_and_no_other() -> None:
    assert sorted(found.name for found in distributions() if found.name.startswith("saga-")) == EXPECTED


@pytest.mark.parametrize("name", EXPECTED)
def test_a_package_imports_from_where_it_was_installed(name: str, tmp_path: Path) -> None:
    module = name.replace("-", "_")
    printed = run(sys.executable, "-I", "-c", f"import {module}; print({module}.__file__)", cwd=tmp_path)
    assert Path(printed.strip()).resolve() == SITE / module / "__init__.py"


@pytest.mark.parametrize("name", EXPECTED)
def test_an_installed_distribution_holds_its_licence_and_its_type_marker(name: str) -> None:
    files = [str(file) for file in distribution(name).files or ()]
    assert f"{name.replace('-', '_')}/py.typed" in files
    assert [file for file in files if file.endswith("licenses/LICENSE")]


def test_the_command_is_on_the_path_and_says_how_it_is_used(tmp_path: Path) -> None:
    assert "usage: saga" in run(str(SCRIPTS / "saga"), "--help", cwd=tmp_path)


def test_the_command_is_the_module_too(tmp_path: Path) -> None:
    assert "usage: saga" in run(sys.executable, "-I", "-m", "saga_core", "--help", cwd=tmp_path)


def test_the_demo_puts_the_world_back_on_whatever_of_it_is_installed(tmp_path: Path) -> None:
    document = json.loads(run(str(SCRIPTS / "saga"), "demo", "--json", "--dir", "left", cwd=tmp_path))
    assert ("PostgreSQL" in document["world"]) is ("saga-connectors" in EXPECTED)
    left = {act["name"]: (act["net"], act["lead"], act["rows_restored"], act["wires"]) for act in document["acts"]}
    assert left == {
        "unprotected": (42_000, "Won", False, 0),
        "rolled_back": (0, "New", True, 0),
        "killed": (0, "New", True, 0),
        "refused": (0, "New", True, 0),
    }
