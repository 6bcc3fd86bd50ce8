"""One call of an action: bound, frozen, judged, recorded, run, recorded again."""

from __future__ import annotations

import threading
from contextvars import copy_context
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from saga_core import codec
from saga_core.engine.context import STEP, Step
from saga_core.engine.io import SYNC
from saga_core.engine.session import log
from saga_core.engine.unwind import ask, land
from saga_core.errors import (
    BadArguments,
    GateRefused,
    OutcomeNotLogged,
    SagaClosed,
    SagaForked,
    StepInDoubt,
    StepMismatch,
    StoreError,
)
from saga_core.gate import Proposal
from saga_core.records import Doubted, Intended, Missed, Refused, Resent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from msgspec import Raw

    from saga_core.declaration import Declaration
    from saga_core.engine.io import Io
    from saga_core.engine.node import Node
    from saga_core.engine.session import Flight, Session
    from saga_core.fold import StepView

_SECOND = 1_000_000_000
_SETTLE_WITHIN = 2.0
_PLAIN = frozenset({str, int, bool, type(None)})


async def run_step(
    io: Io,
    node: Node,
    declared: Declaration,
    fn: Callable[..., Any],
    label: str | None,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Run one call of an action inside a scope and return its result.

    Raises:
        TypeError: The arguments do not fit the function.
        SagaError: The call was refused, or cannot be recorded; the error says that nothing was called, or what was.
    """
    session = node.session
    given = declared.signature.bind(args, kwargs)
    flight = session.enter(node.path)
    try:
        if not session.is_replay:
            _refuse_closed(node, declared)
        asked = _freeze(session, declared, given)
        position = node.position(declared.name, label)
        known = await _recall(io, session, declared, position, asked, is_named=label is not None)
        if known is not None and known.state == "applied":
            return declared.signature.restore_result(codec.thaw(known.result or b"\xc0"))
        _refuse_closed(node, declared)
        if known is not None and known.state == "in_doubt":
            return await _send_again(io, flight, node, declared, fn, known, given)
        attempt = 1 if known is None else known.attempt + 1
        complete, frozen = given, asked
        if declared.prepare is not None:
            complete = dict(await io.ask(declared.prepare, given))
            frozen = _freeze(session, declared, complete)
        money = _judge(session, node, declared, position, frozen)
        step = await _intend(io, flight, node, declared, position, attempt, asked, frozen, money)
        return await _perform(io, node, declared, fn, step, complete)
    finally:
        session.leave(flight)


def _refuse_closed(node: Node, declared: Declaration) -> None:
    session = node.session
    if session.is_dead:
        raise SagaForked(
            f"{declared.name!r} was called in a forked child, inside a scope of the parent process",
            saga_id=session.saga_id,
            world="nothing was called",
            next="open a scope of its own in the child",
        )
    why = node.why_closed() or session.latched
    if why is not None:
        raise SagaClosed(
            f"{declared.name!r} was not called: {why}",
            saga_id=session.saga_id,
            world="nothing was called",
            next="open a new scope for further work",
        )


def _freeze(session: Session, declared: Declaration, arguments: Mapping[str, Any]) -> Raw:
    shown = {name: value for name, value in arguments.items() if name not in declared.hidden}
    try:
        frozen = codec.freeze(shown)
        if not all(type(value) in _PLAIN for value in shown.values()):
            codec.refuse_unfit(codec.thaw(frozen))
    except (TypeError, ValueError) as unfit:
        raise BadArguments(
            f"{declared.name!r} was not called: an argument cannot be recorded: {unfit}",
            saga_id=session.saga_id,
            world="nothing was called",
            next="pass JSON, or name the argument in hide= if no undo or probe needs it",
        ) from unfit
    return frozen


async def _recall(
    io: Io, session: Session, declared: Declaration, position: str, asked: Raw, *, is_named: bool
) -> StepView | None:
    """Return the step that stands at the position, settled if it was in doubt; None for a new one.

    Raises:
        StepMismatch: It was another call.
        StepInDoubt: Whether it, or the same call elsewhere, landed cannot be told now.
    """
    known = session.view.positions.get(position)
    if known is None:
        if session.view.in_doubt and not is_named:
            await _refuse_repeat(io, session, declared, asked)
        return None
    if not _is_same(declared, known, asked):
        raise StepMismatch(
            f"step {known.number} at {position!r} is recorded with other arguments",
            saga_id=session.saga_id,
            world="nothing was called",
            next="give the call a position of its own: action.at(...)",
        )
    if known.state == "in_doubt":
        await _settle(io, session, declared, known, stray=False)
    if known.state in {"applied", "not_landed", "undone"} or (known.state == "in_doubt" and declared.replay):
        return known
    raise _doubt(session, known)


async def _refuse_repeat(io: Io, session: Session, declared: Declaration, asked: Raw) -> None:
    """Refuse a call whose equal is in doubt: sending it again could double the effect."""
    for number in sorted(session.view.in_doubt):
        step = session.view.steps[number]
        if step.action != declared.name or not _is_same(declared, step, asked):
            continue
        await _settle(io, session, declared, step)
        if step.state == "in_doubt":
            raise _doubt(session, step)


def _doubt(session: Session, step: StepView) -> StepInDoubt:
    return StepInDoubt(
        f"{step.action!r} was not called again: step {step.number} is the same call and is {step.state.replace('_', ' ')}",
        saga_id=session.saga_id,
        world="nothing was called now; the earlier call may have landed",
        next="do not repeat it: it is settled when the scope ends. A second, different effect needs action.at(...)",
    )


def _is_same(declared: Declaration, step: StepView, asked: Raw) -> bool:
    recorded, now = codec.thaw(step.asked or step.args), codec.thaw(asked)
    if declared.identity is None:
        return recorded == now
    return all(recorded.get(name) == now.get(name) for name in declared.identity)


async def _settle(io: Io, session: Session, declared: Declaration, step: StepView, *, stray: bool = True) -> None:
    """Ask about a step in doubt for two seconds at the most."""
    if declared.probe is None:
        return
    until = session.clock.up() + int(_SETTLE_WITHIN * _SECOND)
    while step.state == "in_doubt":
        await ask(io, session, step, stray=stray)
        due = session.asked.get(step.number, 0)
        if step.state != "in_doubt" or due > until:
            return
        await io.sleep(max(due - session.clock.up(), 0) / _SECOND)


class _Money:
    __slots__ = ("amount", "currency", "problem")

    def __init__(self, declared: Declaration, args: Mapping[str, Any]) -> None:
        amount, self.currency = declared.money_of(args)
        self.amount: Decimal | None = None
        self.problem: str | None = None
        if declared.money is None:
            return
        if isinstance(amount, bool) or not isinstance(amount, (int, str, Decimal)):
            self.problem = "its amount is missing or no exact number"
            return
        try:
            self.amount = Decimal(amount)
        except ArithmeticError:
            self.problem = "its amount is no number"
            return
        if not self.amount.is_finite() or self.amount < 0:
            self.problem = "its amount is negative or not finite"
        elif self.currency is None:
            self.problem = "its currency is missing"


def _judge(session: Session, node: Node, declared: Declaration, position: str, frozen: Raw) -> _Money:
    args = codec.thaw(frozen)
    money = _Money(declared, args)
    proposal = Proposal(
        declared.name,
        args,
        declared.reversibility,
        amount=money.amount,
        currency=money.currency,
        undo_until=None,
        recoverable=declared.undo is not None or declared.keyed_undo is not None,
    )
    if money.problem is None:
        verdict = session.gate.judge(proposal)
        if verdict is None:
            return money
        rule, place, reason = verdict
    else:
        rule, place, reason = "money", "built in", money.problem
    step = session.next_step()
    session.append(
        Refused(
            step,
            session.clock.wall(),
            declared.name,
            declared.version,
            declared.reversibility,
            node.path,
            position,
            rule,
            reason,
        )
    )
    log.info("saga %s step %d %s refused by %s (%s)", session.saga_id, step, declared.name, rule, place)
    earlier = sum(known.state == "applied" for known in session.view.steps.values())
    refusal = GateRefused(
        f"{declared.name!r} was refused before it ran: {reason}",
        saga_id=session.saga_id,
        world=f"nothing was sent; {earlier} earlier steps will be undone if this error leaves the scope",
        next="use a call that can be undone, or change what the rule objects to",
    )
    refusal.rule, refusal.place = rule, place
    raise refusal


async def _intend(
    io: Io,
    flight: Flight,
    node: Node,
    declared: Declaration,
    position: str,
    attempt: int,
    asked: Raw,
    frozen: Raw,
    money: _Money,
) -> StepView:
    """Write the intent and wait until it is durable within the step's tier."""
    session = node.session
    at = session.clock.wall()
    captured: Raw | None = None
    resource: str | None = None
    keyed_undo = None
    if declared.capture is not None or declared.resource is not None or declared.keyed_undo is not None:
        seen = declared.attempt(frozen, session.key_of(position, "do", attempt), at)
        if declared.capture is not None:
            captured = _freeze_capture(session, declared, await io.ask(declared.capture, seen))
            seen.captured = codec.thaw(captured)
        resource = None if declared.resource is None else str(declared.resource(seen))
        keyed_undo = None if declared.keyed_undo is None else declared.keyed_undo(seen)
    outer = STEP.get()
    parent = outer.number if outer is not None and outer.saga_id == session.saga_id and not outer.is_over else None
    with session.lock:
        _refuse_closed(node, declared)
        flight.step = number = session.next_step()
        written = session.append(
            Intended(
                number,
                at,
                declared.name,
                declared.version,
                declared.reversibility,
                node.path,
                position,
                attempt,
                parent,
                frozen,
                None if frozen is asked else asked,
                captured,
                declared.tier,
                int(declared.lands_within.total_seconds() * _SECOND),
                resource,
                None if money.amount is None else str(money.amount),
                money.currency,
                keyed_undo,
            )
        )
        step = session.view.steps[number]
    if declared.tier == "power":
        try:
            await io.barrier(session.store, session.log, written)
        except BaseException as error:
            _never_sent(session, step, f"never sent: the wait for the disk ended by {type(error).__qualname__}")
            raise
    if node.why_closed() is not None or session.latched is not None:
        _never_sent(session, step, "never sent: the scope closed first")
        _refuse_closed(node, declared)
    return step


async def _send_again(
    io: Io,
    flight: Flight,
    node: Node,
    declared: Declaration,
    fn: Callable[..., Any],
    step: StepView,
    given: dict[str, Any],
) -> Any:
    """Send a step in doubt again under its own key, with the arguments that were recorded."""
    session = node.session
    flight.step = step.number
    written = session.append(Resent(step.number, session.clock.wall()))
    await io.barrier(session.store, session.log, written)
    recorded = declared.attempt_of(step, session.key_of(step.position, "do", step.attempt)).args
    return await _perform(io, node, declared, fn, step, {**given, **recorded})


def _never_sent(session: Session, step: StepView, why: str) -> None:
    try:
        session.append_outcome(Missed(step.number, session.clock.wall(), why))
    except StoreError:
        log.exception("saga %s step %d: nothing was sent, and that could not be written", session.saga_id, step.number)


def _freeze_capture(session: Session, declared: Declaration, captured: Any) -> Raw:
    try:
        frozen = codec.freeze(captured)
        codec.refuse_unfit(codec.thaw(frozen))
    except (TypeError, ValueError) as unfit:
        raise BadArguments(
            f"{declared.name!r} was not called: what its capture read cannot be recorded: {unfit}",
            saga_id=session.saga_id,
            world="nothing was changed",
            next="return JSON from the capture",
        ) from unfit
    return frozen


async def _perform(
    io: Io, node: Node, declared: Declaration, fn: Callable[..., Any], step: StepView, arguments: dict[str, Any]
) -> Any:
    """Run the effect in the caller's context and log its outcome before returning."""
    session = node.session
    deadline = None if declared.timeout is None else datetime.now(UTC) + declared.timeout
    running = Step(session, step.number, step.action, step.position, step.attempt, "do", deadline=deadline)
    outer = STEP.get()
    STEP.set(running)
    try:
        if declared.timeout is None:
            result = await io.effect(fn, arguments)
        elif io is SYNC:
            result = _in_thread(node, declared, fn, step, arguments, running)
        else:
            import asyncio  # noqa: PLC0415

            async with asyncio.timeout(declared.timeout.total_seconds()):
                result = await io.effect(fn, arguments)
    except _StillRunning as late:
        raise late.error from None
    except BaseException as error:
        _failed(session, declared, step, error)
        if not isinstance(error, Exception):
            raise
        if step.state == "in_doubt":
            await _settle(io, session, declared, step, stray=False)
        if step.state == "applied":
            return declared.signature.restore_result(codec.thaw(step.result or b"\xc0"))
        if step.state == "in_doubt":
            error.add_note(f"saga {session.saga_id}: step {step.number} {step.action!r} may have landed")
        raise
    finally:
        running.is_over = True
        STEP.set(outer)
    written = _landed(session, step, result)
    if declared.tier == "power":
        if declared.probe is None and declared.keyed_undo is None:
            await _outcome_durable(io, session, step, result, written)
        else:
            session.log.sync_soon()
    return result


async def _outcome_durable(io: Io, session: Session, step: StepView, result: Any, written: int) -> None:
    """Wait for the outcome of a step about which only a person could settle a doubt."""
    try:
        await io.barrier(session.store, session.log, written)
    except StoreError as error:
        session.latched = "the outcome of an earlier step is not on disk"
        raise _not_logged(session, step, result) from error


def _landed(session: Session, step: StepView, result: Any) -> int:
    try:
        return land(session, step, result)
    except StoreError as error:
        raise _not_logged(session, step, result) from error


def _not_logged(session: Session, step: StepView, result: Any) -> OutcomeNotLogged:
    lost = OutcomeNotLogged(
        f"{step.action!r} landed, and its outcome could not be written",
        saga_id=session.saga_id,
        world=f"step {step.number} took effect; its result is in this error's `result`",
        next="mend the store; no further step starts here, and recovery asks the remote about this one",
    )
    lost.result = result
    return lost


def _failed(session: Session, declared: Declaration, step: StepView, error: BaseException) -> None:
    clock = session.clock
    proven = declared.proves_not_landed(error)
    kind = type(error).__qualname__
    record = (
        Missed(step.number, clock.wall(), f"{kind} proves it")
        if proven
        else Doubted(step.number, clock.wall(), clock.up(), kind)
    )
    try:
        session.append_outcome(record)
    except StoreError as unwritten:
        error.add_note(f"saga {session.saga_id}: that step {step.number} ended so could not be written: {unwritten}")
    if not proven:
        log.info("saga %s step %d %s is in doubt: %s", session.saga_id, step.number, step.action, kind)


class _StillRunning(Exception):
    """The timeout passed and the effect's thread goes on."""

    def __init__(self, error: TimeoutError) -> None:
        super().__init__()
        self.error = error


def _in_thread(
    node: Node,
    declared: Declaration,
    fn: Callable[..., Any],
    step: StepView,
    arguments: dict[str, Any],
    running: Step,
) -> Any:
    """Run a synchronous effect with a timeout: when it passes the caller goes on, and the thread logs the outcome."""
    assert declared.timeout is not None
    session = node.session
    context = copy_context()
    flight = session.enter(node.path, step.number)
    handing_over = threading.Lock()
    ended = threading.Event()
    outcome: list[tuple[Any, BaseException | None]] = []
    is_alone = False

    def work() -> None:
        try:
            outcome.append((context.run(fn, **arguments), None))
        except BaseException as error:  # noqa: BLE001 -- carried to the caller, or logged as the outcome
            outcome.append((None, error))
        with handing_over:
            ended.set()
        try:
            if is_alone:
                _log_alone(session, declared, step, *outcome[0])
        finally:
            running.is_over = True
            session.leave(flight)

    threading.Thread(target=work, name=f"saga-step-{step.number}", daemon=True).start()
    ended.wait(declared.timeout.total_seconds())
    with handing_over:
        if not ended.is_set():
            is_alone = True
            late = TimeoutError(f"{step.action!r} took longer than {declared.timeout}")
            late.add_note(f"saga {session.saga_id}: step {step.number} is still running, and may land")
            raise _StillRunning(late)
    result, error = outcome[0]
    if error is not None:
        raise error
    return result


def _log_alone(
    session: Session, declared: Declaration, step: StepView, result: Any, error: BaseException | None
) -> None:
    """Log the outcome of an effect whose caller went on: what landed failed towards it."""
    if error is not None:
        _failed(session, declared, step, error)
        return
    try:
        session.log.sync(land(session, step, result, stray=True))
    except StoreError:
        log.exception("saga %s step %d landed, and its outcome could not be written", session.saga_id, step.number)
