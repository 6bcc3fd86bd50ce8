"""What is to be done about each step: the specification that saga_core's own plan is held against."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from .record import Kind, StepState, Story

Verdict = Literal["nothing", "ask", "undo", "undo unasked", "ask about the undo", "case"]


def verdict(story: Story, step: StepState, kind: Kind) -> Verdict:
    """Return what is to be done about a step now."""
    if step.is_cased:
        return "nothing"
    match step.state:
        case "in_doubt":
            return _settle(story, step, kind)
        case "applied":
            return "undo" if story.is_doomed(step) else "nothing"
        case "conflict":
            return "case"
        case "undo_in_doubt" if kind.inverse == "blind":
            return "case"
        case "undo_in_doubt" | "undo_raised":
            return "ask about the undo" if kind.inverse == "asked" else "undo"
        case _:
            return "nothing"


def _settle(story: Story, step: StepState, kind: Kind) -> Verdict:
    if kind.settling in {"probe", "mute"}:
        return "ask"
    if kind.settling == "keyed" and story.is_doomed(step):
        return "undo unasked"
    return "case"


def ahead(story: Story, kind: Kind, *, within: str | None = None) -> list[tuple[StepState, Verdict]]:
    """Return what is left to do, the newest outcome first; `within` a savepoint or in the whole saga."""
    steps = [step for step in story.steps if within is None or step.scope == within]
    steps.sort(key=lambda step: step.order, reverse=True)
    found: list[tuple[StepState, Verdict]] = [(step, verdict(story, step, kind)) for step in steps]
    return [pair for pair in found if pair[1] != "nothing"]
