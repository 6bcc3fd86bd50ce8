"""Where in a saga a step was called, by the framework's names."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from saga_core.view import StepView


def quoted(place: str) -> str:
    """Return the place as positions hold it: without the letters that part them.

    Raises:
        ValueError: The place is empty, or no text that can be written.
    """
    if not place:
        raise ValueError("a place is the framework's name of a call; it cannot be empty")
    return quote(place, safe="").replace(".", "%2E")


def is_at(step: StepView, place: str) -> bool:
    """Tell whether the step was called in a body of the quoted place, or in a body inside one."""
    return place in _places(step)


def outermost(step: StepView) -> str | None:
    """Return the place of the outermost body that the step was called in; None if it was called in none."""
    found = _places(step)
    return unquote(found[0]) if found else None


def _places(step: StepView) -> list[str]:
    found: list[str] = []
    for part in step.position.split("/")[1:]:
        if "@" in part or "#" in part:  # the action's own part; a label may hold anything
            break
        found += part.split("+")
    return found
