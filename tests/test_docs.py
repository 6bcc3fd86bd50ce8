"""What README and docs show is what happens: each snippet with an output is run, and each link leads somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    "page", [page for page in PAGES if SNIPPET.search(page.read_text())], ids=lambda page: page.name
)
def test_a_pages_snippets_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    """The first snippet is importable under the page's name, as a reader would save it."""
    for number, (code, expected) in enumerate(SNIPPET.findall(page.read_text())):
        program = tmp_path / (f"{page.stem}.py" if number == 0 else f"snippet_{number}.py")
        program.write_text(code)
        printed = run(program)
        assert printed[-len(expected) :] == expected if number else printed == expected


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_to_a_file(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_a_snippet_that_prints_something_else_is_noticed(tmp_path: Path) -> None:
    program = tmp_path / "wrong.py"
    program.write_text("print('one')\n")
    assert run(program) != "two\n"
