"""Carrying out moves: asking remotes, running inverses, opening cases, one logged step at a time."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from saga_core import codec, registry
from saga_core.answers import AlreadyUndone, Compensation, Conflict, Landed, NotLanded, Pending, Unknown
from saga_core.engine.context import STEP, Step
from saga_core.engine.io import is_interrupt
from saga_core.engine.session import log
from saga_core.errors import StoreError
from saga_core.fold import PROVEN
from saga_core.plan import Move, declaration_of, inverse_of, next_move
from saga_core.records import Applied, CaseOpened, Missed, UndoEnded, UndoIntended

if TYPE_CHECKING:
    from collections.abc import Callable

    from saga_core.engine.io import Io
    from saga_core.engine.session import Session
    from saga_core.fold import StepView

_SECOND = 1_000_000_000
_FIRST_WAIT = 0.2
_LONGEST_WAIT = 60.0
_LONGEST_ASKED_WAIT = 3600.0
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
    if not session.begin_unwinding():
        return Move("wait")
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
            await carry_out(io, session, move, wait_until)
        elif session.view.running:
            if now >= wait_until:
                return move
            wake = wait_until if move.due is None else min(move.due, wait_until)
            await io.wait(session.on_leave, (wake - now) / _SECOND)
        elif move.due is None or move.due > wait_until:
            return move
        else:
            await io.sleep((move.due - now) / _SECOND)


async def carry_out(io: Io, session: Session, move: Move, patience: int) -> None:
    """Do one move and log what came of it."""
    step = move.step
    assert step is not None
    match move.kind:
        case "ask":
            await ask(io, session, step, stray=True, is_ending=True, patience=patience)
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
        case _:
            open_case(session, step, move.words)


def open_case(session: Session, step: StepView | None, words: str, *, logged: str | None = None) -> None:
    """Put something before a person; `logged` are the words for the log line where `words` hold values."""
    with session.lock:
        number = len(session.view.cases) + 1
        session.append(CaseOpened(number, session.clock.wall(), None if step is None else step.number, words))
    what = "" if step is None else f" step {step.number} {step.action}:"
    log.warning("saga %s case %d:%s %s", session.saga_id, number, what, logged or words)


async def ask(io: Io, session: Session, step: StepView, *, stray: bool, is_ending: bool, patience: int) -> None:
    """Ask the remote whether a step in doubt landed, and log an answer that counts.

    Args:
        io: The driver.
        session: The saga.
        step: The step in doubt.
        stray: Its caller saw it fail; not so where the caller still waits and is given the result.
        patience: Until when somebody waits here, in nanoseconds since boot; an effect that can land later than that is
            asked about behind it.
        is_ending: A remote that cannot tell when it counts makes a case; before the ending it is asked again.
    """
    declared = declaration_of(step)
    assert declared is not None
    assert declared.probe is not None
    asked_up = session.clock.up()
    key = session.key_of(step.position, "do", step.attempt)
    try:
        answer = await _with_step(io, session, step, "do", declared.probe, declared.attempt_of(step, key))
    except BaseException as error:
        if is_interrupt(io, error):
            raise
        answer = Unknown(f"the probe raised {type(error).__qualname__}")
    final_up = (step.doubted_up or 0) + step.lands_within
    with session.lock:
        if step.state in {"in_doubt", "not_landed"}:  # else somebody else has asked, and logged the answer, meanwhile
            _log_answer(session, step, answer, asked_up, final_up, stray=stray, is_ending=is_ending, patience=patience)


def _log_answer(
    session: Session,
    step: StepView,
    answer: Any,
    asked_up: int,
    final_up: int,
    *,
    stray: bool,
    is_ending: bool,
    patience: int,
) -> None:
    if isinstance(answer, Landed):
        land(session, step, cast("Landed[Any]", answer).result, stray=stray)
    elif isinstance(answer, NotLanded) and asked_up >= final_up:
        _log_missed(session, step)
    elif isinstance(answer, NotLanded):
        again = _ask_again(asked_up, step.doubted_up or 0, final_up)
        session.asked[step.number] = again if final_up <= patience else max(again, min(patience + 1, final_up))
    else:
        reason = answer.reason if isinstance(answer, Unknown) else f"the probe answered a {type(answer).__qualname__}"
        if asked_up >= final_up and is_ending:
            open_case(session, step, f"it may have landed, and the remote could not tell: {reason}")
        else:
            session.asked[step.number] = _ask_again(asked_up, step.doubted_up or 0, final_up)


def _ask_again(asked: int, since: int, final: int) -> int:
    """Return when to ask a remote again that could not tell: after as long as it took so far, within bounds."""
    waited = max(asked - since, int(_FIRST_WAIT * _SECOND))
    return max(min(asked + min(waited, int(_LONGEST_WAIT * _SECOND)), final), asked)


def _log_missed(session: Session, step: StepView) -> None:
    beside = _standing_beside(session, step)
    is_again = step.state == "not_landed"
    if is_again and beside and session.view.is_doomed(step):
        open_case(session, step, "it was not found, but a neighbour that could not be undone may hide it")
    else:
        why = "the remote knows nothing of it"
        session.append(Missed(step.number, session.clock.wall(), why, () if is_again else beside))


def _standing_beside(session: Session, step: StepView) -> tuple[int, ...]:
    """Return the neighbours on the same resource that stand: undoing one of them can bring the lost effect back."""
    if step.resource is None:
        return ()
    steps = session.view.steps
    return tuple(
        number
        for number in sorted(step.overlaps)
        if steps[number].resource == step.resource and steps[number].state not in PROVEN
    )


def land(session: Session, step: StepView, result: Any, *, stray: bool = False) -> int:
    """Log that a step landed, with its undo bound from what the log holds.

    Raises:
        StoreError: It could not be written.
    """
    declared = declaration_of(step)
    problem: str | None = None
    undo: Compensation | None = None
    undo_until: int | None = None
    try:
        frozen = codec.freeze(result)
        plain = codec.thaw(frozen)
        codec.refuse_unfit(plain)
    except (TypeError, ValueError) as unfit:
        problem = f"its result cannot be recorded: {unfit}"
        frozen, plain = codec.freeze(None), None
    if declared is not None and problem is None and declared.undo is not None:
        try:
            call = declared.call_of(step, session.key_of(step.position, "do", step.attempt), plain)
            undo = declared.undo(call)
            if not isinstance(undo, Compensation):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"it returned a {type(undo).__qualname__}, not what an inverse's bind returns")
            undo_until = _deadline(declared.undo_within, call, session.clock.wall())
        except Exception as error:  # noqa: BLE001 -- the effect stands whatever the user's undo raises
            problem = f"its undo could not be derived: {type(error).__qualname__} in the undo of {step.action!r}"
            log.debug("saga %s step %d %s", session.saga_id, step.number, problem, exc_info=error)
            undo = None
    if undo is None and problem is None and step.reversibility in {"reversible", "compensable"}:
        problem = "it landed, and no undo is declared for it"
    record = Applied(step.number, session.clock.wall(), frozen, undo, undo_until, problem, stray)
    position = session.append_outcome(record)
    if problem is not None:
        open_case(session, step, problem)
    elif stray and session.view.leaves_strays and not session.view.is_doomed(step):
        open_case(session, step, "it landed after it had failed towards its caller")
    return position


def _deadline(within: Any, call: Any, wall: int) -> int | None:
    if within is None:
        return None
    if isinstance(within, timedelta):
        return wall + int(within.total_seconds() * _SECOND)
    until = within(call)
    return None if until is None else int(until.timestamp() * _SECOND)


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
        answer = await _with_step(io, session, step, "undo", handler.fn, **handler.signature.convert(undo.args))
    except BaseException as error:
        if is_interrupt(io, error):
            _end(session, step, "cut", f"cut short by {type(error).__qualname__}")
            raise
        wait = _retry_after(error) or min(_FIRST_WAIT * 4 ** (step.trials - 1), _LONGEST_WAIT) * session.clock.jitter()
        words = f"the inverse raised {type(error).__qualname__}"
        log.warning("saga %s step %d %s: %s", session.saga_id, step.number, step.action, words)
        log.debug("saga %s step %d", session.saga_id, step.number, exc_info=error)
        await _ended(io, session, step, "failed", words, wait=wait)
        return
    await _answered(io, session, step, answer)


def _retry_after(error: BaseException) -> float | None:
    """Return the seconds that an error asks to wait (`retry_after`, a number or a timedelta), bounded."""
    asked = getattr(error, "retry_after", None)
    if isinstance(asked, timedelta):
        asked = asked.total_seconds()
    if isinstance(asked, (int, float)) and asked > 0:  # not true of NaN
        return min(float(asked), _LONGEST_ASKED_WAIT)
    return None


async def _answered(io: Io, session: Session, step: StepView, answer: Any) -> None:
    if answer is None:
        await _ended(io, session, step, "undone", "undone")
    elif isinstance(answer, AlreadyUndone):
        await _ended(io, session, step, "already", "already")
    elif isinstance(answer, Pending):
        await _ended(io, session, step, "pending", ref=str(answer.ref), wait=answer.check_after.total_seconds())
    elif isinstance(answer, Conflict):
        words = f"we wrote {_shown(answer.wrote)}, found {_shown(answer.found)}"
        await _ended(io, session, step, "conflict", words)
        logged = "the remote is not as the saga left it, so it was left alone"
        open_case(session, step, f"{logged}: {words}", logged=logged)
    else:
        words = f"the inverse answered a {type(answer).__qualname__}; expected None, AlreadyUndone, Pending or Conflict"
        await _ended(io, session, step, "failed", words)
        open_case(session, step, f"its undo may have landed: {words}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


async def _ended(
    io: Io, session: Session, step: StepView, how: str, words: str = "", *, ref: str | None = None, wait: float = 0
) -> None:
    position = _end(session, step, how, words, ref=ref, wait=wait)
    log.info("saga %s step %d %s: undo %s", session.saga_id, step.number, step.action, how)
    await io.barrier(session.log, position)


def _end(session: Session, step: StepView, how: str, words: str, *, ref: str | None = None, wait: float = 0) -> int:
    clock = session.clock
    record = UndoEnded(step.number, clock.wall(), clock.up(), how, words, ref, int(wait * _SECOND))
    return session.append(record)


async def _ask_undo(io: Io, session: Session, step: StepView) -> None:
    handler = inverse_of(step)
    assert step.undo is not None
    assert handler is not None
    assert handler.probe_fn is not None
    asked_up = session.clock.up()
    try:
        arguments = handler.signature.convert(step.undo.args)
        answer = await _with_step(io, session, step, "undo", handler.probe_fn, **arguments)
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
        session.asked[step.number] = _ask_again(asked_up, step.undo_up, final_up)
    else:
        reason = answer.reason if isinstance(answer, Unknown) else f"the probe answered a {type(answer).__qualname__}"
        open_case(session, step, f"its undo may have landed, and the remote could not tell: {reason}")


async def _observe(io: Io, session: Session, step: StepView) -> None:
    handler = inverse_of(step)
    assert step.undo is not None
    assert handler is not None
    assert handler.observe_fn is not None
    pending = Pending(step.undo_ref or "", check_after=timedelta(microseconds=step.undo_wait / 1000))
    try:
        arguments = handler.signature.convert(step.undo.args)
        answer = await _with_step(io, session, step, "undo", handler.observe_fn, pending, **arguments)
    except BaseException as error:
        if is_interrupt(io, error):
            raise
        words = f"observing its undo raised {type(error).__qualname__}"
        log.warning("saga %s step %d %s: %s", session.saga_id, step.number, step.action, words)
        log.debug("saga %s step %d", session.saga_id, step.number, exc_info=error)
        answer = pending
    await _answered(io, session, step, answer)


async def _with_step(
    io: Io, session: Session, step: StepView, purpose: str, fn: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """Call a handler with `current_step()` answering for this step."""
    running = Step(session, step.number, step.action, step.position, step.attempt, purpose)
    outer = STEP.get()
    STEP.set(running)
    try:
        return await io.ask(fn, *args, **kwargs)
    finally:
        running.is_over = True
        STEP.set(outer)
