"""What README and docs show is what happens: each snippet with an output is run, and each link leads somewhere."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from saga_core.errors import CODES

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SNIPPET = re.compile(r"```python\n(.*?)```\n(?:\n```output\n(.*?)```)?", re.DOTALL)


def run(program: Path) -> str:
    """Return what a program prints, run in its own folder."""
    done = subprocess.run(
        [sys.executable, program.name], cwd=program.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def wrong_outputs(name: str, text: str, folder: Path) -> list[str]:
    """Return what a page's snippets print other than the page says.

    The first snippet is importable under the page's name, as a reader would save it; a later one that imports it prints
    that one's output first.
    """
    wrong: list[str] = []
    for number, (code, expected) in enumerate(SNIPPET.findall(text)):
        program = folder / (f"{name}.py" if number == 0 else f"snippet_{number}.py")
        program.write_text(code)
        printed = run(program)
        if not printed.endswith(expected) or (number == 0 and printed != expected):
            wrong.append(printed)
    return wrong


@pytest.mark.parametrize(
    "page", [page for page in PAGES if SNIPPET.search(page.read_text())], ids=lambda page: page.name
)
def test_a_pages_snippets_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    assert wrong_outputs(page.stem.replace("-", "_"), page.read_text(), tmp_path) == []


def test_a_page_that_promises_another_output_is_noticed(tmp_path: Path) -> None:
    page = "```python\nprint('one')\n```\n\n```output\ntwo\n```\n"
    assert wrong_outputs("page", page, tmp_path) == ["one\n"]


def test_the_list_of_errors_is_complete_and_says_what_the_classes_say() -> None:
    for vendor in ("postgres", "salesforce", "stripe"):
        importlib.import_module(f"saga_connectors.{vendor}")
    importlib.import_module("saga_crewai.errors")
    text = (ROOT / "docs" / "reference" / "errors.md").read_text()
    listed = re.findall(r"^\| (SG\d{3}) \| `(\w+)` \| (.*) \|$", text, re.MULTILINE)
    known = [
        (code, error.__name__, (error.__doc__ or "").partition("\n")[0])
        for code, error in sorted(CODES.items())
        if error.__module__.startswith("saga_")
    ]
    assert listed == known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_to_a_file(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []
