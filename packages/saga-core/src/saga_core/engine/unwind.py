"""Carrying out moves: asking remotes, running inverses, opening cases, one logged step at a time."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from saga_core import codec, registry
from saga_core.answers import AlreadyUndone, Compensation, Conflict, Landed, NotLanded, Pending, Unknown
from saga_core.clock import SECOND, seconds
from saga_core.engine.asking import ask_again, pause, with_step
from saga_core.engine.case import open_case
from saga_core.engine.hold import drop, send
from saga_core.engine.io import is_interrupt
from saga_core.engine.landing import ask
from saga_core.engine.session import log
from saga_core.errors import SagaForked, StoreError
from saga_core.fold import FoldError
from saga_core.plan import Move, inverse_of, next_move
from saga_core.records import UndoEnded, UndoIntended

if TYPE_CHECKING:
    from collections.abc import Callable

    from saga_core.engine.io import Io
    from saga_core.engine.session import Session
    from saga_core.view import StepView

_SHOWN = 200


async def unwind(
    io: Io, session: Session, within: Callable[[StepView], bool], *, wait_until: int, work_until: int | None
) -> Move:
    """Carry out moves until none is left, or none may be made any more.

    Args:
        io: The driver.
        session: The saga.
        within: Which steps are concerned.
        wait_until: Until when to wait for what is not due yet, in nanoseconds since boot.
        work_until: Until when to begin further moves; None: no limit.

    Returns:
        `done`, or a `wait` for what is left.

    Raises:
        StoreError: The log can no longer be written: nothing more is done to the world.
    """
    while not session.begin_unwinding():  # another scope of the saga is at it
        left = wait_until - session.clock.up()
        if left <= 0 or session.is_stopped:
            return Move("wait")
        await io.wait(session.on_leave, left / SECOND)
    flight = session.enter("")
    try:
        return await _moves(io, session, within, wait_until, work_until)
    finally:
        session.end_unwinding()
        session.leave(flight)


async def _moves(
    io: Io, session: Session, within: Callable[[StepView], bool], wait_until: int, work_until: int | None
) -> Move:
    while True:
        now = session.clock.up()
        with session.lock:
            move = next_move(session.view, up=now, wall=session.clock.wall(), asked=session.asked, within=within)
        if move.kind == "done":
            return move
        if move.kind != "case" and (session.is_stopped or (work_until is not None and now >= work_until)):
            return move if move.kind == "wait" else Move("wait", due=now)
        if move.kind != "wait":
            try:
                await carry_out(io, session, move, wait_until)
            except (StoreError, SagaForked, FoldError):
                raise
            except Exception as error:  # noqa: BLE001 -- one step that the engine cannot handle holds up no other
                log.exception("saga %s: a move could not be carried out", session.saga_id)
                open_case(session, move.step, f"the engine could not go on with it: {type(error).__qualname__}")
        elif session.view.running:
            if now >= wait_until:
                return move
            wake = wait_until if move.due is None else min(move.due, wait_until)
            await io.wait(session.on_leave, (wake - now) / SECOND)
        elif move.due is None or move.due > wait_until:
            return move
        else:
            await io.sleep((move.due - now) / SECOND)


async def carry_out(io: Io, session: Session, move: Move, patience: int) -> None:
    """Do one move and log what came of it."""
    step = move.step
    assert step is not None
    match move.kind:
        case "ask":
            await ask(io, session, step, is_stray=lambda: not step.is_hold, is_ending=True, patience=patience)
        case "undo":
            assert step.undo is not None
            await _undo(io, session, step, step.undo)
        case "undo_unasked":
            assert step.keyed_undo is not None
            await _undo(io, session, step, step.keyed_undo)
        case "ask_undo":
            await _ask_undo(io, session, step)
        case "observe":
            await _observe(io, session, step)
        case "drop":
            drop(session, step)
        case "send":
            await send(io, session, step)
        case _:
            open_case(session, step, move.words)


async def _undo(io: Io, session: Session, step: StepView, undo: Compensation) -> None:
    handler = registry.INVERSES.get(undo.inverse)
    misfit = "it is not registered here" if handler is None else handler.fits(undo)
    if handler is None or misfit is not None:
        open_case(session, step, f"inverse {undo.inverse!r} cannot be run: {misfit}")
        return
    key = session.key_of(step.position, "undo", step.attempt)
    session.asked.pop(step.number, None)
    position = session.append(UndoIntended(step.number, session.clock.wall(), key, undo, step.trials + 1))
    try:
        await io.barrier(session.log, position)
    except BaseException as error:
        with suppress(StoreError):
            _end(session, step, "not_landed", f"never sent: the wait for the disk ended by {type(error).__qualname__}")
        raise
    try:
        answer = await with_step(io, session, step, "undo", handler.fn, **handler.signature.convert(undo.args))
    except BaseException as error:
        if is_interrupt(io, error):
            _end(session, step, "cut", f"cut short by {type(error).__qualname__}")
            raise
        wait = pause(error, step.trials, session.clock.jitter)
        words = f"the inverse raised {type(error).__qualname__}"
        log.warning("saga %s step %d %s: %s", session.saga_id, step.number, step.action, words)
        log.debug("saga %s step %d", session.saga_id, step.number, exc_info=error)
        await _ended(io, session, step, "failed", words, wait=wait)
        return
    await _answered(io, session, step, answer)


async def _answered(io: Io, session: Session, step: StepView, answer: Any) -> None:
    if answer is None:
        await _ended(io, session, step, "undone", "undone")
    elif isinstance(answer, AlreadyUndone):
        await _ended(io, session, step, "already", "already")
    elif isinstance(answer, Pending) and _is_wait(answer.check_after):
        await _ended(io, session, step, "pending", ref=codec.words(answer.ref), wait=seconds(answer.check_after))
    elif isinstance(answer, Conflict):
        words = f"we wrote {_shown(answer.wrote)}, found {_shown(answer.found)}"
        await _ended(io, session, step, "conflict", words)
        logged = "the remote is not as the saga left it, so it was left alone"
        open_case(session, step, f"{logged}: {words}", logged=logged)
    else:
        words = f"the inverse answered a {type(answer).__qualname__}; expected None, AlreadyUndone, Pending or Conflict"
        await _ended(io, session, step, "failed", words)
        open_case(session, step, f"its undo may have landed: {words}")


def _is_wait(found: object) -> bool:
    return isinstance(found, timedelta) and found >= timedelta(0)


def _shown(value: object) -> str:
    try:
        text = codec.words(repr(value))
    except Exception:  # noqa: BLE001 -- an object that cannot show itself is still a conflict
        text = f"a {type(value).__qualname__}"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


async def _ended(
    io: Io, session: Session, step: StepView, how: str, words: str = "", *, ref: str | None = None, wait: float = 0
) -> None:
    position = _end(session, step, how, words, ref=ref, wait=wait)
    log.info("saga %s step %d %s: undo %s", session.saga_id, step.number, step.action, how)
    handler = inverse_of(step)
    if handler is not None and (handler.keyed or handler.probe_fn is not None):
        session.log.sync_soon()  # were it lost, the undo would be asked about, or sent again under its key
    else:
        await io.barrier(session.log, position)


def _end(session: Session, step: StepView, how: str, words: str, *, ref: str | None = None, wait: float = 0) -> int:
    clock = session.clock
    record = UndoEnded(step.number, clock.wall(), clock.up(), how, words, ref, int(wait * SECOND))
    return session.append(record)


async def _ask_undo(io: Io, session: Session, step: StepView) -> None:
    handler = inverse_of(step)
    assert step.undo is not None
    assert handler is not None
    assert handler.probe_fn is not None
    asked_up = session.clock.up()
    try:
        arguments = handler.signature.convert(step.undo.args)
        answer = await with_step(io, session, step, "undo", handler.probe_fn, **arguments)
    except BaseException as error:
        if is_interrupt(io, error):
            raise
        answer = Unknown(f"the probe raised {type(error).__qualname__}")
    final_up = step.undo_up + step.lands_within
    if isinstance(answer, Landed):
        await _ended(io, session, step, "undone", "undone")
    elif isinstance(answer, NotLanded):
        if handler.keyed or asked_up >= final_up:
            await _ended(io, session, step, "not_landed", "the remote knows nothing of the undo")
        else:
            session.asked[step.number] = final_up
    elif handler.keyed:
        await _undo(io, session, step, step.undo)
    elif asked_up < final_up:
        session.asked[step.number] = ask_again(asked_up, step.undo_up, final_up)
    else:
        reason = (
            codec.words(answer.reason)
            if isinstance(answer, Unknown)
            else f"the probe answered a {type(answer).__qualname__}"
        )
        open_case(session, step, f"its undo may have landed, and the remote could not tell: {reason}")


async def _observe(io: Io, session: Session, step: StepView) -> None:
    handler = inverse_of(step)
    assert step.undo is not None
    assert handler is not None
    assert handler.observe_fn is not None
    pending = Pending(step.undo_ref or "", check_after=timedelta(microseconds=step.undo_wait / 1000))
    try:
        arguments = handler.signature.convert(step.undo.args)
        answer = await with_step(io, session, step, "undo", handler.observe_fn, pending, **arguments)
    except BaseException as error:
        if is_interrupt(io, error):
            raise
        words = f"observing its undo raised {type(error).__qualname__}"
        log.warning("saga %s step %d %s: %s", session.saga_id, step.number, step.action, words)
        log.debug("saga %s step %d", session.saga_id, step.number, exc_info=error)
        answer = pending
    await _answered(io, session, step, answer)
