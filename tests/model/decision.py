"""What is to be done about each step: the specification that saga_core's own plan is held against."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from .record import Kind, StepState, Story

Verdict = Literal["nothing", "ask", "undo", "undo unasked", "ask about the undo", "drop", "send", "case"]


def verdict(story: Story, step: StepState, kind: Kind) -> Verdict:
    """Return what is to be done about a step now."""
    if step.is_cased:
        return "nothing"
    if step.is_hold:
        return _hold(story, step, kind)
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


def _hold(story: Story, step: StepState, kind: Kind) -> Verdict:
    """Behind the commit the first hold that is not settled is sent, once nothing is in doubt and no case is open."""
    if step.state == "held" and story.is_doomed(step):
        return "drop"
    if story.ended != "committed" or any(other.is_cased for other in story.steps):
        return "nothing"
    doubts = {"in_doubt", "undo_in_doubt", "undo_raised"}
    if any(other.state in doubts and not other.is_hold for other in story.steps):
        return "nothing"
    if (
        next((other for other in story.steps if other.is_unsent or (other.is_hold and other.state in doubts)), None)
        != step
    ):
        return "nothing"
    if step.is_unsent or kind.settling == "keyed":
        return "send"
    return "case" if kind.settling == "blind" else "ask"


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
    steps.sort(key=lambda step: -story.steps.index(step) if step.state == "held" else 1)  # dropped first, newest first
    found: list[tuple[StepState, Verdict]] = [(step, verdict(story, step, kind)) for step in steps]
    return [pair for pair in found if pair[1] != "nothing"]
