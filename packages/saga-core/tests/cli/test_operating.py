"""The page about operating a store names commands and options that there are."""

import re
import subprocess
from pathlib import Path

import pytest

from .desk import SAGA

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "operate-a-store.md"


def typed(text: str) -> list[tuple[str, list[str]]]:
    """Return the commands of a page's shell blocks, each with its options."""
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
    found = re.findall(r"\bsaga ([a-z]+)([^\n#&]*)", blocks)
    return [(command, re.findall(r"--[a-z-]+", rest)) for command, rest in found]


def unknown(text: str) -> list[str]:
    wrong: list[str] = []
    for command, options in typed(text):
        told = subprocess.run([SAGA, command, "--help"], capture_output=True, text=True, check=False)
        if told.returncode != 0:
            wrong.append(command)
        wrong += [f"{command} {option}" for option in options if option not in told.stdout]
    return wrong


def test_every_command_and_option_of_the_page_is_there() -> None:
    text = PAGE.read_text()
    assert {command for command, _ in typed(text)} >= {"recover", "gc", "erase", "verify", "backup", "show", "ls"}
    assert unknown(text) == []


@pytest.mark.parametrize("line", ["saga sweep", "saga gc --hard"])
def test_a_command_that_is_not_there_is_noticed(line: str) -> None:
    assert unknown(f"```sh\n{line}\n```\n") == [line.removeprefix("saga ")]
