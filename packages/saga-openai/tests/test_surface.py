import subprocess
import sys
from importlib.metadata import requires, version

from packaging.requirements import Requirement

import saga_openai


def test_the_package_imports_beside_its_sdk_without_a_warning_or_a_thread() -> None:
    program = "import agents, saga_openai, threading; print(threading.active_count())"
    run = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("1\n", "")


def test_the_installed_sdk_is_one_that_the_package_declares() -> None:
    declared = {parsed.name: parsed.specifier for parsed in map(Requirement, requires("saga-openai") or ())}
    assert declared["openai-agents"].contains(version("openai-agents"))


def test_every_exported_name_is_there() -> None:
    assert [name for name in saga_openai.__all__ if not hasattr(saga_openai, name)] == []
