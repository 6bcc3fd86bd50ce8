"""What was undone, in words that a model can read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saga_core.view import PROVEN

if TYPE_CHECKING:
    from collections.abc import Collection

    from saga_core.report import Report, StepReport

_GROUPS = (
    ("Undone, so no longer in effect", frozenset({"undone"})),
    ("Refused or failed, so never in effect", PROVEN - {"undone"}),
    ("Staged, in effect once the run has committed", frozenset({"held"})),
    ("In effect", frozenset({"applied", "left_in_place"})),
)


def notice_of(report: Report, unsure: Collection[int] = ()) -> str:
    """Return one short paragraph: what of the saga's work stands, and what the model must not rely on.

    Args:
        report: What became of the saga.
        unsure: The numbers of steps whose state is not the last word about them.
    """
    left = list(report.steps)
    parts: list[str] = []
    for title, states in _GROUPS:
        group = [step for step in left if step.state in states and _number(step) not in unsure]
        left = [step for step in left if step not in group]
        if group:
            parts.append(f"{title}: {_listed(group)}.")
    if left:
        parts.append(f"Not known, a person or a later check settles it; do not repeat it: {_listed(left)}.")
    return " ".join(parts) or "No recorded action took effect."


def _listed(steps: list[StepReport]) -> str:
    return "; ".join(_shown(step) for step in steps)


def _number(step: StepReport) -> int:
    return int(step.words.partition(".")[0])


def _shown(step: StepReport) -> str:
    money = "" if step.amount is None else f" ({step.amount} {step.currency or ''}".rstrip() + ", in minor units)"
    return f"step {_number(step)} {step.action}{money}"
