"""How a scope ends: seal, drain, settle, then commit, suspend or unwind."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from saga_core.clock import seconds
from saga_core.engine import janitor
from saga_core.engine.case import MAY_BE_HIDDEN, open_case
from saga_core.engine.notes import note
from saga_core.engine.session import log
from saga_core.engine.unwind import unwind
from saga_core.errors import ApprovalPending, CommitUnknown, RollbackIncomplete, StoreError
from saga_core.fold import FoldError
from saga_core.plan import is_reopened, uncased
from saga_core.records import (
    Closed,
    Committed,
    Committing,
    Parked,
    RolledBack,
    ScopeEnded,
    Suspended,
    UnwindBegan,
)
from saga_core.report import report_of, summary
from saga_core.view import OPEN, PROVEN, is_over, is_proven

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from saga_core.engine.io import Io
    from saga_core.engine.node import Node
    from saga_core.engine.session import Session
    from saga_core.errors import SagaError
    from saga_core.plan import Move
    from saga_core.view import SagaView, StepView

_SECOND = 1_000_000_000
_COMMIT_TRIALS = 3


class Limits:
    """How long an ending may take in the caller's sight."""

    __slots__ = ("drain", "unwind")

    def __init__(self, drain: timedelta, unwind: timedelta) -> None:
        self.drain = seconds(drain)
        self.unwind = seconds(unwind)


async def end(
    io: Io, node: Node, error: BaseException | None, limits: Limits, on_drained: Callable[[], None] = lambda: None
) -> SagaError | None:
    """End a scope and return the error that tells what could not be done, for a caller who has none of its own."""
    session = node.session
    if node.closed is None:
        node.closed = "its scope has ended"
    await drain(io, node, limits.drain)
    on_drained()
    session.asked.clear()
    until = session.clock.up() + int(limits.unwind * _SECOND)
    try:
        session.doubt_interrupted()
        if node.parent is not None:
            return await _end_savepoint(io, node, error, until)
        return await _end_root(io, node, error, until)
    except (StoreError, FoldError) as broken:
        log.critical("saga %s: nothing more is done in its name here: %s", session.saga_id, broken.args[0])
        if node.parent is None:
            session.give_up()
        if error is None:
            return _broken(session, broken)
        note(error, f"saga {session.saga_id}: its log cannot be written, recovery has to end it: {broken.args[0]}")
        return None
    except Exception as broken:
        log.exception("saga %s: its ending failed, and goes on in the background", session.saga_id)
        if node.parent is None:
            janitor.take(session, session.clock.up())
        if error is None:
            raise
        note(error, f"saga {session.saga_id}: its ending failed ({type(broken).__qualname__}), see saga.report")
        return None
    finally:
        node.is_over = True


def _broken(session: Session, error: StoreError | FoldError) -> StoreError:
    if isinstance(error, StoreError):
        return error
    return StoreError(
        f"the log of saga {session.saga_id} and its state disagree: {error.args[0]}",
        saga_id=session.saga_id,
        world="what landed stands until recovery undoes it",
        next="run: saga recover",
    )


async def drain(io: Io, node: Node, limit: float) -> bool:
    """Wait for the effects that run in a scope; False if one still does after `limit` seconds."""
    session = node.session
    until = session.clock.up() + int(limit * _SECOND)
    while session.is_busy(node.holds):
        left = (until - session.clock.up()) / _SECOND
        if session.is_stopped:
            return False
        if left <= 0:
            log.warning("saga %s: an effect still runs after %s s of waiting", session.saga_id, limit)
            return False
        await io.wait(session.on_leave, left)
    return True


async def _end_root(io: Io, node: Node, error: BaseException | None, until: int) -> SagaError | None:
    session = node.session
    decision = node.decision
    if decision is None and (error is None or is_pending(error, session)):
        decision = ("commit", "") if error is None else ("suspend", "waits for an approval")
    if session.runs and decision is not None and decision[0] == "commit":
        decision = ("rollback", "a run inside it had not ended")
        log.warning("saga %s is undone: %s", session.saga_id, decision[1])
    kind, reason = decision or ("rollback", type(error).__qualname__)
    if kind == "suspend" and error is not None and not is_pending(error, session):
        kind, reason = "rollback", type(error).__qualname__
    if kind == "suspend" and not session.is_busy(node.holds):
        await _suspend(io, session, reason)
        return None
    if kind == "suspend":
        reason = "an effect still ran when it was to be suspended"
    if kind == "commit" and await _commit(io, node, until):
        return None
    await _unwind_all(io, session, "cancelled" if kind == "commit" else reason, until)
    return _told(node, error, is_explicit=kind != "commit" and node.decision is not None)


def is_pending(error: BaseException | None, session: Session) -> bool:
    """Tell whether a scope is left only because a person has to decide about a call of this saga."""
    if isinstance(error, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
        return all(is_pending(one, session) for one in inner)
    return isinstance(error, ApprovalPending) and error.saga_id == session.saga_id


def _told(node: Node, error: BaseException | None, *, is_explicit: bool) -> SagaError | None:
    """Add the note to the caller's exception, or make the error of an explicit rollback that is not complete."""
    session = node.session
    with session.lock:
        view = session.view
        state, words, report = view.state, summary(view), report_of(view)
    if error is not None:
        note(error, f"saga {session.name} {session.saga_id}: {state.replace('_', ' ')}; {words} (see saga.report)")
        return None
    if not is_explicit or state == "rolled_back":
        return None
    return RollbackIncomplete(
        f"the rollback is not complete: {words}",
        saga_id=session.saga_id,
        world="; ".join(step.words for step in report.steps if step.state not in PROVEN),
        next=f"saga show {session.saga_id}",
        report=report,
    )


async def _commit(io: Io, node: Node, until: int) -> bool:
    """Commit; False if the caller was cancelled before the commit record was written."""
    session = node.session
    if any(is_unsettled(session.view, step) for step in session.view.steps.values()):
        session.append(Committing(session.clock.wall()))
        await unwind(io, session, lambda _: True, wait_until=until, work_until=until)
        _leave_to_a_person(session)
    with session.lock:
        if node.is_cancelled:
            return False
        written = session.append(Committed(session.clock.wall()))
    await _commit_barrier(io, session, written)
    session.is_past_pivot = True
    if session.view.holds_left:
        await go_forward(io, session, until)
    else:
        await after_commit(io, session)
    return True


async def go_forward(io: Io, session: Session, until: int) -> None:
    """Send the held effects of a committed saga, as far as they can be sent until then, and give up what remains."""
    await finish(io, session, await unwind(io, session, lambda _: True, wait_until=until, work_until=until))


async def after_commit(io: Io, session: Session) -> None:
    """Give a committed saga's log up, once no effect of it runs any more."""
    if session.is_busy(lambda _: True):
        janitor.take(session, None)
        return
    await io.barrier(session.log, session.written)
    if session.view.is_settled:
        session.log.settle()
    else:
        session.log.release()


def is_unsettled(view: SagaView, step: StepView) -> bool:
    """Tell whether a commit has to settle the step first: find out about it, undo it, or tell a person of it."""
    if step.state in OPEN:
        return True
    if step.state == "conflict":
        return all(case.step != step.number for case in view.open_cases)
    if step.state == "applied":
        return step.stray or view.is_doomed(step)
    return step.state == "not_landed" and not is_proven(step) and (view.is_doomed(step) or is_reopened(view, step))


def _leave_to_a_person(session: Session) -> None:
    """Open a case for each step that the commit finds unsettled; one can put a neighbour in doubt, too."""
    view = session.view
    while True:
        cased = {case.step for case in view.open_cases}
        left = [step for step in view.steps.values() if is_unsettled(view, step) and step.number not in cased]
        if not left:
            return
        step = left[0]
        words = "landed, unknown to its caller" if step.stray else step.state.replace("_", " ")
        is_missing = step.state == "not_landed"
        open_case(session, step, MAY_BE_HIDDEN if is_missing else f"the saga committed while it was {words}")


async def _commit_barrier(io: Io, session: Session, written: int) -> None:
    for trial in range(_COMMIT_TRIALS):
        try:
            await io.barrier(session.log, written)
        except StoreError as error:
            if trial == _COMMIT_TRIALS - 1:
                session.give_up()
                raise CommitUnknown(
                    "the commit is written, and its durability is not proven",
                    saga_id=session.saga_id,
                    world="everything that landed stands; after a loss of power it may be undone",
                    next="mend the disk, then run: saga recover",
                ) from error
        else:
            return


async def _suspend(io: Io, session: Session, reason: str) -> None:
    written = session.append(Suspended(session.clock.wall(), reason))
    await io.barrier(session.log, written)
    session.log.park("suspended")


async def _unwind_all(io: Io, session: Session, reason: str, until: int) -> None:
    session.append(UnwindBegan("", reason, session.clock.wall()))
    move = await unwind(io, session, lambda _: True, wait_until=until, work_until=until)
    await finish(io, session, move)


async def finish(io: Io, session: Session, move: Move) -> None:
    """Write how the unwinding ended, or give what remains to the janitor."""
    if session.is_busy(lambda _: True):
        janitor.take(session, None)
        return
    if move.kind == "wait":
        if session.is_stopped:
            session.log.release()
        else:
            janitor.take(session, move.due)
        return
    view = session.view
    while left := uncased(view):  # a case about one step can put a neighbour in doubt, too
        words = f"nothing more can be done about it here: it is {left[0].state.replace('_', ' ')}"
        open_case(session, left[0], MAY_BE_HIDDEN if left[0].state == "not_landed" else words)
    if view.ended != "committed":  # a commit stays one, whatever is found out after it
        at = session.clock.wall()
        session.append(last_word(view, at))
    log.info("saga %s: %s, %s", session.saga_id, view.state, summary(view))
    await io.barrier(session.log, session.written)
    if view.is_settled:
        session.log.settle()
    elif view.open_cases:
        session.log.park("cases")
    else:
        session.log.release()


def last_word(view: SagaView, at: int) -> RolledBack | Closed | Parked:
    """Return the record that tells how far an unwound saga has come."""
    steps = view.steps.values()
    if all(map(is_proven, steps)):
        return RolledBack(at)
    return Closed(at) if all(map(is_over, steps)) else Parked(at)


async def _end_savepoint(io: Io, node: Node, error: BaseException | None, until: int) -> SagaError | None:
    session = node.session
    at = session.clock.wall()
    if error is None and node.decision is None:
        session.append(ScopeEnded(node.path, kept=True, at=at))
        return None
    if node.decision is None and is_pending(error, session):
        return None  # it goes on where it is when the saga is resumed
    node.is_undone = True
    reason = node.decision[1] if node.decision is not None else type(error).__qualname__
    session.append_outcome(UnwindBegan(node.path, reason, at))  # kept for later, no commit overtakes it
    await unwind(io, session, lambda step: node.holds(step.scope), wait_until=until, work_until=until)
    session.append(ScopeEnded(node.path, kept=False, at=session.clock.wall()))
    steps = [step for step in session.view.steps.values() if node.holds(step.scope)]
    left = [step for step in steps if not is_proven(step)]
    if error is not None:
        note(error, f"saga {session.saga_id}: {len(steps) - len(left)} of {len(steps)} steps of the inner scope undone")
        return None
    if not left:
        return None
    return RollbackIncomplete(
        f"{len(left)} steps of the inner scope are not undone",
        saga_id=session.saga_id,
        world="; ".join(f"{step.action} is {step.state.replace('_', ' ')}" for step in left),
        next="they are taken up again when the outer scope ends",
        report=session.report(),
    )
