"""A saga told in words: every step, every case, the money that moved."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import TYPE_CHECKING

import msgspec

from saga_core.types import SagaState, StepState
from saga_core.view import is_proven

if TYPE_CHECKING:
    from saga_core.view import SagaView, StepView

_STANDS: frozenset[StepState] = frozenset({"applied", "left_in_place", "undo_failed", "conflict"})
_UNSURE: frozenset[StepState] = frozenset({"intended", "in_doubt", "undoing", "undo_in_doubt", "undo_pending"})


class StepReport(msgspec.Struct, frozen=True):
    """One step in words.

    Attributes:
        action: The action's registered name.
        state: What became of it.
        amount: The declared amount in the currency's minor unit, None where none is declared.
        currency: Its currency.
        words: One sentence about the step.
    """

    action: str
    state: StepState
    amount: Decimal | None
    currency: str | None
    words: str


class Report(msgspec.Struct, frozen=True):
    """What became of a saga.

    Attributes:
        saga_id: The saga.
        state: Its state.
        steps: Its steps in the order of their intents, refused calls last.
        cases: What waits for a person, a sentence each, led by the case's id.
        is_clean: The saga is committed or rolled back, each step is proven, and nobody has to do anything.
    """

    saga_id: str
    state: SagaState
    steps: tuple[StepReport, ...]
    cases: tuple[str, ...]
    is_clean: bool

    def money(self) -> dict[str, Decimal]:
        """Return, per currency, the declared amounts whose effects stand or may stand."""
        sums: dict[str, Decimal] = defaultdict(Decimal)
        for step in self.steps:
            if step.amount is not None and step.currency is not None and step.state in _STANDS | _UNSURE:
                sums[step.currency] += step.amount
        return dict(sums)

    def __str__(self) -> str:
        lines = [f"saga {self.saga_id}: {self.state.replace('_', ' ')}"]
        lines += [f"  {step.words}" for step in self.steps]
        lines += [f"  case {case}" for case in self.cases]
        lines += [f"  stands or may stand: {amount} {currency}" for currency, amount in self.money().items()]
        return "\n".join(lines)


def report_of(view: SagaView) -> Report:
    """Return the report of a saga."""
    saga = view.began.saga if view.began is not None else ""
    steps = [
        StepReport(
            step.action,
            step.state,
            None if step.amount is None else Decimal(step.amount),
            step.currency,
            f"{step.number}. {step.action}: {_words(view, step)}",
        )
        for step in view.steps.values()
    ]
    steps += [
        StepReport(call.action, "refused", None, None, f"{call.number}. {call.action}: refused, {call.reason}")
        for call in view.refused
    ]
    steps += [
        StepReport(
            waiting.action,
            waiting.state,
            None if waiting.asked.amount is None else Decimal(waiting.asked.amount),
            waiting.asked.currency,
            f"{waiting.number}. {waiting.action}: waits for a person's approval, {waiting.asked.request}",
        )
        for waiting in view.waiting.values()
    ]
    cases = tuple(
        f"{saga}:{case.number} "
        + (f"step {case.step} {view.steps[case.step].action}: " if case.step is not None else "")
        + case.words
        for case in view.open_cases
    )
    return Report(saga, view.state, tuple(steps), cases, is_clean(view))


def is_clean(view: SagaView) -> bool:
    """Tell whether the saga ended with every step proven and nothing left for anybody."""
    steps = view.steps.values()
    is_sent = all(step.state == "applied" or step.is_dropped for step in steps if step.is_hold)
    return view.is_settled and is_sent and not any(step.state in _UNSURE for step in steps)


def _words(view: SagaView, step: StepView) -> str:
    return _hold_words(view, step) if step.is_hold else _step_words(step)


def _hold_words(view: SagaView, step: StepView) -> str:
    if step.is_dropped:
        return f"did not happen ({step.words})"
    if view.ended != "committed":
        return "held: staged, not done; it happens when the run commits"
    later = "; it waits for a person to settle a case" if view.open_cases else "; it is the run's to send, and still is"
    match step.state:
        case "held":
            return f"held: the run committed, and it was not sent yet{later}"
        case "not_landed":
            return f"held: sent, and did not land ({step.words}){later}"
        case "intended":
            return "held: being sent, or cut off before its outcome was known"
        case "in_doubt":
            return f"held: sent, in doubt, it may have landed{f' ({step.error})' if step.error else ''}"
        case "applied":
            return "held, sent after the commit"
        case "undone":
            return f"held: nothing of it stands ({step.words})"
        case _:
            return _step_words(step)


def _step_words(step: StepView) -> str:
    match step.state:
        case "intended":
            return "running, or cut off before its outcome was known"
        case "in_doubt":
            return f"in doubt, it may have landed{f' ({step.error})' if step.error else ''}"
        case "applied":
            words = "landed after it had failed towards its caller" if step.stray else "landed"
            return words if step.problem is None else f"{words}, and cannot be undone ({step.problem})"
        case "not_landed":
            hidden = f"was not found ({step.words}; what stands beside it may hide it)"
            return f"did not land ({step.words})" if is_proven(step) else hidden
        case "undoing":
            return "being undone"
        case "undo_in_doubt":
            return f"its undo may have landed ({step.words or 'cut short'})"
        case "undo_pending":
            return f"its undo is accepted, not settled ({step.undo_ref})"
        case "undone":
            return "landed, undone" if step.words != "already" else "landed, somebody had undone it before"
        case "undo_failed":
            return "landed, could not be undone"
        case "conflict":
            return f"landed, changed by somebody else since: left alone ({step.words})"
        case "left_in_place":
            return f"left in place ({step.words})"
        case _:
            return step.state.replace("_", " ")


def summary(view: SagaView) -> str:
    """Return one line: what was undone and what was not."""
    steps = [step for step in view.steps.values() if not step.is_hold]
    undone = sum(step.state == "undone" for step in steps)
    unsure = sum(step.state in _UNSURE for step in steps)
    stands = sum(step.state in _STANDS for step in steps)
    parts = [f"{undone} of {undone + stands + unsure} effects undone"]
    if unsure:
        parts.append(f"{unsure} still to be settled")
    parts += _holds(view)
    cases = len(view.open_cases)
    if cases:
        parts.append(f"{cases} for a person")
    return ", ".join(parts)


def _holds(view: SagaView) -> list[str]:
    """Return what became of the held effects: sent, in doubt, waiting, dropped."""
    held = [step for step in view.steps.values() if step.is_hold]
    kept = [step for step in held if not step.is_dropped]
    words: list[str] = []
    if kept and view.ended != "committed":
        words.append(f"{len(kept)} held until the commit")
    elif kept:
        words.append(f"{sum(step.state == 'applied' for step in kept)} of {len(kept)} held effects sent")
    if len(held) > len(kept):
        words.append(f"{len(held) - len(kept)} held effects dropped, never sent")
    return words
