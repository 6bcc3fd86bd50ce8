"""What state a saga is in: the reduction of its records, and nothing else.

`apply` takes one record at a time, for the engine; `fold` takes a history, for everybody who reads one. Time travel is
the fold of a prefix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from saga_core.records import (
    EMPTY,
    Adopted,
    Answered,
    Applied,
    Asked,
    Began,
    CaseOpened,
    CaseResolved,
    Closed,
    Committed,
    Committing,
    Doubted,
    Held,
    Intended,
    LeftInPlace,
    Missed,
    Noted,
    Parked,
    Permitted,
    Record,
    Refused,
    Released,
    Resent,
    Returned,
    RolledBack,
    ScopeEnded,
    ScopeOpened,
    Suspended,
    UndoEnded,
    UndoIntended,
    UnwindBegan,
)
from saga_core.view import (
    AskedView,
    CaseView,
    RefusedView,
    SagaView,
    ScopeView,
    StepView,
    is_over,
    is_proven,
    is_within,
    may_hide,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from saga_core.types import StepState


class FoldError(ValueError):
    """A record does not fit what stands before it: the log was not written by this engine, or is damaged."""


def fold(records: Iterable[Record]) -> SagaView:
    """Return the state after these records.

    Raises:
        FoldError: A record does not fit what stands before it.
    """
    view = SagaView()
    for record in records:
        apply(view, record)
    return view


def check(view: SagaView, record: Record) -> None:
    """Tell whether a record may follow.

    Raises:
        FoldError: It does not fit what stands before it.
    """
    kind = type(record)
    fields: Any = record
    allowed = _ALLOWED.get(kind)
    if allowed is not None:
        step = view.steps.get(fields.step)
        if step is None or step.state not in allowed:
            state = "unknown" if step is None else step.state
            raise FoldError(f"a {kind.__name__} record cannot follow: step {fields.step} is {state}")
        if kind is Released and (not step.is_hold or step.is_dropped or view.ended != "committed"):
            raise FoldError(f"step {fields.step} is released, and is no hold of a committed saga")
    elif kind is not Intended and kind is not Held:
        _check_saga(view, record)
    elif fields.step in view.steps:
        raise FoldError(f"step {fields.step} is there already")


def _check_saga(view: SagaView, record: Record) -> None:
    match record:
        case Began() if view.began is not None:
            raise FoldError("a saga begins once")
        case UnwindBegan() if record.scope == "" and view.ended == "committed":
            raise FoldError("a committed saga is not unwound")
        case Committed() if view.unwinding:
            raise FoldError("a saga that unwinds is not committed")
        case CaseResolved() if not any(case.open and case.number == record.case for case in view.cases):
            raise FoldError(f"case {record.case} is not open")
        case Closed():
            for step in view.steps.values():
                if not is_over(step):
                    raise FoldError(f"step {step.number} is {step.state}: the saga is not closed")
        case RolledBack():
            for step in view.steps.values():
                if not is_proven(step):
                    raise FoldError(f"step {step.number} is {step.state}, unproven: the saga is not rolled back")
        case _:
            pass


def apply(view: SagaView, record: Record) -> None:
    """Change the view by one record.

    Raises:
        FoldError: The record does not fit.
    """
    check(view, record)
    follow(view, record)


def follow(view: SagaView, record: Record) -> None:
    """Change the view by a record that was checked.

    Raises:
        FoldError: It names what is not there.
    """
    try:
        _RULES[type(record)](view, record)
    except KeyError as missing:
        raise FoldError(f"a {type(record).__name__} record names what is not there: {missing}") from missing
    if type(record) is not Noted:
        view.last_at = record.at  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] -- others have it


def _began(view: SagaView, record: Began) -> None:
    view.began = view.owner = record
    view.scopes[""].name = record.name


def _adopted(view: SagaView, record: Adopted) -> None:
    same_boot = view.owner is not None and view.owner.boot == record.boot
    view.adopted = view.owner = record
    view.suspended = None
    for step in view.steps.values():
        if step.state == "intended":
            step.state = "in_doubt"
            step.doubted_up = record.up
            view.in_doubt.add(step.number)
            _order(view, step)
        elif step.state == "undoing":
            step.state = "undo_in_doubt"
            step.undo_up = record.up
        if not same_boot:
            if step.state in {"in_doubt", "not_landed"}:
                step.doubted_up = record.up
            step.undo_up = record.up
    view.running.clear()


def _scope_opened(view: SagaView, record: ScopeOpened) -> None:
    again = view.scopes.get(record.scope)
    if again is not None and again.unwinding:  # what was to be undone in it still is
        steps = (step for step in view.steps.values() if is_within(step.scope, record.scope))
        view.doomed += [(record.scope, step.number, step.number) for step in steps if not is_proven(step)]
    view.scopes[record.scope] = ScopeView(record.scope, record.parent, record.name)


def _scope_ended(view: SagaView, record: ScopeEnded) -> None:
    view.scopes[record.scope].kept = record.kept


def _refused(view: SagaView, record: Refused) -> None:
    view.refused.append(RefusedView(record))
    view.waiting.pop(record.position, None)


def _asked(view: SagaView, record: Asked) -> None:
    view.waiting[record.position] = AskedView(record)
    view.questions[record.request] = record


def _answered(view: SagaView, record: Answered) -> None:
    for asked in view.waiting.values():
        if asked.number == record.step:
            asked.answer = record


def _permitted(view: SagaView, record: Permitted) -> None:
    view.permitted = max(view.permitted, record.number)


def _intended(view: SagaView, record: Intended) -> None:
    number = record.step
    step = StepView(record)
    if view.waiting:
        view.waiting.pop(record.position, None)
    if view.running or view.in_doubt:
        for other in view.running | view.in_doubt:
            step.overlap(other)
            view.steps[other].overlap(number)
    view.steps[number] = view.positions[record.position] = step
    view.running.add(number)


def _held(view: SagaView, record: Held) -> None:
    intent = Intended(
        record.step,
        record.at,
        record.action,
        record.version,
        record.reversibility,
        record.scope,
        record.position,
        record.attempt,
        record.parent,
        record.args,
        record.asked,
        EMPTY,
        record.tier,
        record.lands_within,
        record.resource,
        record.amount,
        record.currency,
    )
    step = StepView(intent)
    step.state = "held"
    step.is_hold = view.has_holds = True
    view.waiting.pop(record.position, None)
    view.steps[record.step] = view.positions[record.position] = step


def _released(view: SagaView, record: Released) -> None:
    step = view.steps[record.step]
    if step.attempt != record.attempt:
        step.intent = msgspec.structs.replace(step.intent, attempt=record.attempt)
        step.released_at = None
    if step.released_at is None:
        step.released_at = record.at
    step.state = "intended"
    step.trials = record.trial
    view.in_doubt.discard(step.number)
    view.running.add(step.number)


def _noted(view: SagaView, record: Noted) -> None:
    step = view.steps[record.step]
    step.notes = {**step.notes, **record.facts}


def _left(view: SagaView, number: int) -> None:
    view.running.discard(number)
    view.in_doubt.discard(number)


def _order(view: SagaView, step: StepView) -> None:
    if not step.order:
        view.landed += 1
        step.order = view.landed


def _uncover(view: SagaView, step: StepView) -> None:
    """Reopen what was found missing beside a step that was thought missing itself, and may have hidden it."""
    for other in view.steps.values():
        if other.state == "not_landed" and may_hide(step, other) and step.number not in other.beside:
            other.beside = (*other.beside, step.number)


def _applied(view: SagaView, record: Applied) -> None:
    number = record.step
    step = view.steps[number]
    if step.state == "not_landed":
        _uncover(view, step)
    step.stray = record.stray
    view.running.discard(number)
    view.in_doubt.discard(number)
    step.state = "applied"
    if not step.order:
        view.landed = step.order = view.landed + 1
    step.applied_at = record.at
    step.result = record.result
    step.undo = record.undo
    step.undo_until = record.undo_until
    step.problem = record.problem


def _doubted(view: SagaView, record: Doubted) -> None:
    step = view.steps[record.step]
    step.state = "in_doubt"
    step.doubted_up = record.up
    step.error = record.error
    view.running.discard(step.number)
    view.in_doubt.add(step.number)
    _order(view, step)


def _missed(view: SagaView, record: Missed) -> None:
    step = view.steps[record.step]
    _left(view, record.step)
    step.is_dropped = step.state == "held"
    step.state = "not_landed"
    step.words = record.why
    step.beside = record.beside


def _unwind_began(view: SagaView, record: UnwindBegan) -> None:
    scope = view.scopes[record.scope]
    if record.since:
        view.doomed.append((record.scope, record.since, record.until))
    else:
        scope.unwinding = True
    if record.scope == "" and not record.since:
        view.unwinding = True
        view.committing = False
        view.suspended = None
        view.ended = None
        view.reason = record.reason
    for case in view.open_cases:
        step = None if case.step is None else view.steps[case.step]
        if step is not None and step.state == "applied" and view.is_doomed(step):
            step.state = "undo_failed"


def _undo_intended(view: SagaView, record: UndoIntended) -> None:
    step = view.steps[record.step]
    _left(view, record.step)
    step.state = "undoing"
    step.undo = record.undo
    step.undo_key = record.key
    step.undo_at = record.at
    step.undo_raised = False
    step.trials = record.trial


_AFTER_UNDO: dict[str, StepState] = {
    "undone": "undone",
    "already": "undone",
    "pending": "undo_pending",
    "conflict": "conflict",
    "failed": "undo_in_doubt",
    "cut": "undo_in_doubt",
    "not_landed": "applied",
}


def _undo_ended(view: SagaView, record: UndoEnded) -> None:
    step = view.steps[record.step]
    step.state = _AFTER_UNDO[record.how]
    step.words = record.words or record.how
    step.undo_ended_at = record.at
    step.undo_up = record.up
    step.undo_wait = record.wait
    step.undo_ref = record.ref
    step.undo_raised = record.how == "failed"


def _left_in_place(view: SagaView, record: LeftInPlace) -> None:
    step = view.steps[record.step]
    _left(view, record.step)
    step.state = "left_in_place"
    step.words = record.why


def _case_opened(view: SagaView, record: CaseOpened) -> None:
    view.cases.append(CaseView(record))
    if record.step is not None:
        step = view.steps[record.step]
        if step.state in {"undo_in_doubt", "undo_pending"} or (step.state == "applied" and view.is_doomed(step)):
            step.state = "undo_failed"
        elif step.state == "not_landed" and step.beside:
            _uncover(view, step)
            step.state = "in_doubt"  # nobody can tell whether a neighbour hides it


_SETTLED_BY_HAND: dict[str, StepState] = {"undone": "undone", "left": "left_in_place"}


def _case_resolved(view: SagaView, record: CaseResolved) -> None:
    case = next(case for case in view.cases if case.number == record.case)
    case.open = False
    case.resolved = record
    if case.step is None:
        return
    step = view.steps[case.step]
    state = _SETTLED_BY_HAND.get(record.how)
    if state is not None:
        _left(view, step.number)
        step.state = state
        step.stray = False
        step.beside = ()
        step.words = f"by {record.by}: {record.evidence}"
        for other in view.cases:
            other.open = other.open and other.step != step.number
    elif step.is_hold:
        step.trials = 0
        if step.state == "in_doubt":  # a person says that it may be sent, under the key that it was sent with
            _left(view, step.number)
            step.state = "held"
    elif step.state in {"undo_failed", "conflict"}:
        step.state = "undo_in_doubt" if step.trials and step.state == "undo_failed" else "applied"
        step.undo_raised = True  # a person says that it may be sent again
        step.undo_wait = 0
        step.trials = 0


def _closed(view: SagaView, record: Closed) -> None:
    view.ended = "left_in_place"
    view.ended_at = record.at


def _committing(view: SagaView, _: Committing) -> None:
    view.committing = True


def _committed(view: SagaView, record: Committed) -> None:
    view.ended = "committed"
    view.ended_at = record.at
    view.committing = False
    view.suspended = None
    for case in view.cases:
        step = None if case.step is None else view.steps[case.step]
        if step is not None and step.state == "applied" and not step.stray:
            case.open = False


def _rolled_back(view: SagaView, record: RolledBack) -> None:
    view.ended = "rolled_back"
    view.ended_at = record.at
    for case in view.cases:
        case.open = False


def _parked(view: SagaView, record: Parked) -> None:
    view.ended = "needs_human"
    view.ended_at = record.at


def _suspended(view: SagaView, record: Suspended) -> None:
    view.suspended = record.reason


def _resent(view: SagaView, record: Resent) -> None:
    step = view.steps[record.step]
    step.state = "intended"
    view.in_doubt.discard(step.number)
    view.running.add(step.number)


def _returned(view: SagaView, record: Returned) -> None:
    step = view.steps[record.step]
    step.stray = False
    if step.problem is None:
        for case in view.cases:
            case.open = case.open and case.step != step.number


_ALLOWED: dict[type[Any], frozenset[StepState]] = {
    Applied: frozenset({"intended", "in_doubt", "not_landed"}),
    Doubted: frozenset({"intended", "in_doubt"}),
    Missed: frozenset({"intended", "in_doubt", "not_landed", "held"}),
    Released: frozenset({"held", "in_doubt", "not_landed"}),
    Resent: frozenset({"in_doubt"}),
    Returned: frozenset({"applied"}),
    UndoIntended: frozenset({"applied", "undo_in_doubt", "undo_failed", "in_doubt"}),
    UndoEnded: frozenset({"undoing", "undo_in_doubt", "undo_pending"}),
}
"""The states that a step may be in when a record of the kind follows."""

_RULES: dict[type[Any], Callable[[SagaView, Any], None]] = {
    Began: _began,
    Adopted: _adopted,
    ScopeOpened: _scope_opened,
    ScopeEnded: _scope_ended,
    Refused: _refused,
    Intended: _intended,
    Noted: _noted,
    Applied: _applied,
    Doubted: _doubted,
    Missed: _missed,
    UnwindBegan: _unwind_began,
    UndoIntended: _undo_intended,
    UndoEnded: _undo_ended,
    LeftInPlace: _left_in_place,
    CaseOpened: _case_opened,
    Committing: _committing,
    Committed: _committed,
    RolledBack: _rolled_back,
    Parked: _parked,
    Suspended: _suspended,
    Resent: _resent,
    Returned: _returned,
    Asked: _asked,
    Answered: _answered,
    Permitted: _permitted,
    Held: _held,
    Released: _released,
    CaseResolved: _case_resolved,
    Closed: _closed,
}
