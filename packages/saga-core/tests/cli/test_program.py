import subprocess
import sys
from pathlib import Path

import pytest

from .desk import SAGA, Desk


def test_without_a_command_one_screen_of_help_names_every_command(desk: Desk) -> None:
    typed = desk.saga()
    assert typed.returncode == 0
    assert typed.stdout.startswith("usage: saga")
    assert len(typed.stdout.splitlines()) <= 24
    assert [name for name in ("ls", "show", "recover", "demo") if f"\n  {name} " not in typed.stdout] == []
    assert desk.saga("--help").stdout == typed.stdout


def test_the_module_is_the_command(desk: Desk) -> None:
    command = [sys.executable, "-m", "saga_core", "--version"]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=desk.environment())
    assert run.stdout == desk.saga("--version").stdout
    assert run.stdout.startswith("saga 0.")


@pytest.mark.parametrize(
    "arguments",
    [
        ("shout",),
        ("ls", "--loud"),
        ("ls", "--state", "broken"),
        ("ls", "--limit", "-1"),
        ("recover", "--wait", "soon"),
        ("recover", "--wait", "nan"),
        ("recover", "--resume-grace", "-1"),
    ],
    ids=" ".join,
)
def test_a_misspelt_command_line_ends_with_2_and_says_so_on_standard_error(
    desk: Desk, arguments: tuple[str, ...]
) -> None:
    typed = desk.saga(*arguments)
    assert typed.returncode == 2
    assert typed.stdout == ""
    assert arguments[-1] in typed.stderr


@pytest.mark.parametrize("arguments", [("ls",), ("show", "01ABC"), ("recover",)], ids=" ".join)
def test_a_command_makes_no_store_where_none_is_and_says_where_it_looked(
    desk: Desk, arguments: tuple[str, ...]
) -> None:
    typed = desk.saga(*arguments, "--json")
    assert typed.returncode == 3
    assert typed.stdout == ""
    assert f"no store at {desk.store.resolve()} (the default" in typed.stderr
    assert not desk.store.exists()
    (desk.folder / "elsewhere").mkdir()
    assert "named by SAGA_STORE" in desk.saga(*arguments, SAGA_STORE="elsewhere").stderr
    assert "named by --store" in desk.saga(*arguments, "--store", "file:elsewhere").stderr
    assert list((desk.folder / "elsewhere").iterdir()) == []


def test_the_argument_goes_before_the_environment_and_that_before_the_default(story: Desk, desk: Desk) -> None:
    desk.python('with saga_scope("here"): charge(1)')
    there = f"file:{story.store}"

    def names(*arguments: str, **environment: str) -> bool:
        return "killed" in desk.saga("ls", *arguments, **environment).stdout

    assert not names()
    assert names(SAGA_STORE=there)
    assert not names("--store", ".saga", SAGA_STORE=there)


def test_a_store_of_this_process_alone_cannot_be_read_by_another(desk: Desk) -> None:
    assert desk.saga("ls", "--store", "memory:").returncode == 3


def test_a_store_that_cannot_be_used_ends_with_1_and_says_what_to_do(desk: Desk) -> None:
    desk.python('with saga_scope("kept"): charge(1)')
    (desk.store / "store").write_bytes(b"scribbled over")
    typed = desk.saga("ls")
    assert typed.returncode == 1
    assert "next" in typed.stderr
    assert "Traceback" not in typed.stderr


def test_output_that_nobody_reads_to_its_end_is_no_error(story: Desk) -> None:
    writer = subprocess.Popen(
        [SAGA, "show", story.json("ls")["sagas"][0]["id"], "--records"],
        cwd=story.folder,
        env=story.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert writer.stdout is not None
    assert writer.stderr is not None
    writer.stdout.close()
    assert writer.stderr.read() == b""
    assert writer.wait() == 1
    writer.stderr.close()


def test_help_loads_neither_the_commands_nor_what_they_need(tmp_path: Path) -> None:
    probe = "import sys; from saga_core.cli import main; main([]); print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout.split()
    assert {"saga_core.cli.program", "argparse"} <= set(loaded)
    assert {"saga_core.cli.ls", "saga_core.cli.masking", "saga_core.recovery", "json", "importlib.metadata"} & set(
        loaded
    ) == set()
