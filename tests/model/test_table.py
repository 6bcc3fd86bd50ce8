"""The table of what survives what stands in the guide as the model makes it."""

from __future__ import annotations

from .table import BEGIN, END, PAGE, page_with, table


def test_the_guide_shows_what_the_model_says() -> None:
    page = PAGE.read_text()
    assert page.count(BEGIN) == page.count(END) == 1
    assert page_with(page, table()) == page, "write it: uv run python -m tests.model --write"


def test_a_table_that_was_edited_by_hand_is_noticed() -> None:
    page = PAGE.read_text()
    edited = page.replace("settles the doubt", "undoes it", 1)
    assert edited != page
    assert page_with(edited, table()) != edited
