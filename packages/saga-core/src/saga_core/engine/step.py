"""One call of an action: recalled or judged, recorded, run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saga_core import codec
from saga_core.engine.context import AMBIENT
from saga_core.engine.effect import perform, recorded_result
from saga_core.engine.hold import receipt, stage
from saga_core.engine.invocation import NOT_YET, Invocation
from saga_core.engine.io import ASYNC, PRIVATE_LOOP
from saga_core.engine.judge import judge
from saga_core.engine.recall import recall
from saga_core.engine.saga import Saga, place
from saga_core.engine.session import log
from saga_core.errors import BadArguments, StepInDoubt, StoreError
from saga_core.records import EMPTY, Missed, Permitted, Resent, Returned

if TYPE_CHECKING:
    from collections.abc import Callable

    from msgspec import Raw

    from saga_core.answers import Compensation
    from saga_core.declaration import Declaration
    from saga_core.engine.io import Io
    from saga_core.view import StepView


async def run_step(
    io: Io,
    declared: Declaration,
    fn: Callable[..., Any],
    label: str | None,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Run one call of an action and return its result: inside a scope as a step, outside, where that is allowed, as is.

    Raises:
        TypeError: The arguments do not fit the function.
        SagaError: The call was refused, or cannot be recorded; the error says that nothing was called, or what was.
    """
    node = AMBIENT.get()
    if node is None or node.is_over or (args and isinstance(args[0], Saga)):
        node, args = place(declared, args)
    if node is None:
        answer = fn(*args, **kwargs)
        if not declared.is_async:
            return answer
        return await answer if io is ASYNC else PRIVATE_LOOP.run(answer)
    given = declared.signature.bind(args, kwargs)
    session = node.session
    call = Invocation(session, NOT_YET, "do", io=io, node=node, declared=declared, fn=fn, label=label)
    try:
        session.flights.add(call)
        if session.is_wary and not session.is_replay:
            call.refuse_closed()
        asked = call.freeze(given)
        with session.lock:
            position = node.position(declared.name, label)
            is_straight = call.is_straight(position, asked)
            is_free = is_straight and not session.has_rules
            step = call.intend(position, asked, session.clock.wall()) if is_free else None
            written = session.written
        if is_straight and step is None:
            step, written = _judged(call, position, given, asked)
        if step is None:
            return await _deliberate(call, position, given, asked)
        if declared.tier == "power":
            await _until_durable(call, step, written)
        return await perform(call, step, given)
    finally:
        session.leave(call)


def _judged(call: Invocation, position: str, given: dict[str, Any], asked: Raw) -> tuple[StepView | None, int]:
    """Write the intent of a call that the rules let through as it is; None where they ask for more.

    Raises:
        GateRefused: They do not let it through.
    """
    session = call.session
    _, judgement = judge(call, position, given, asked)
    if judgement.questions or judgement.charges or not codec.is_scalar(given):
        return None, 0
    with session.lock:
        if not call.is_straight(position, asked):
            return None, 0
        return call.intend(position, asked, session.clock.wall()), session.written


async def _deliberate(call: Invocation, position: str, given: dict[str, Any], asked: Raw) -> Any:
    """Run a call of which the log may know, or that is judged, completed or looked at before its intent."""
    declared, session = call.declared, call.session
    declared.refuse_incomplete()
    try:
        known = await recall(call, position, asked)
    except StepInDoubt:
        if call.label is None and position not in session.view.positions:
            call.node.give_back(declared.name, position)
        raise
    if known is not None and known.is_hold and not known.is_dropped:
        return receipt(session, known)
    if known is not None and known.state == "applied":
        if known.stray:
            session.append(Returned(known.number, session.clock.wall()))
        return recorded_result(call, known)
    call.refuse_closed()
    if known is not None and known.state == "in_doubt":
        return await _send_again(call, known, given)
    return await _attempt(call, position if known is None else known.position, known, given, asked)


async def _attempt(call: Invocation, position: str, known: StepView | None, given: dict[str, Any], asked: Raw) -> Any:
    """Put a call before the gate, write its intent and run it; a held one is staged instead."""
    declared, session = call.declared, call.session
    complete, frozen = given, asked
    if declared.prepare is not None:
        complete = dict(await call.io.ask(declared.prepare, given))
        frozen = call.freeze(complete)
    attempt = 1 if known is None else known.attempt + 1
    from saga_core.engine.permission import seek, take  # noqa: PLC0415 -- most calls take the straight way

    leave = await seek(call, position, attempt, complete, frozen)
    complete, frozen, money = leave.given, leave.frozen, leave.money
    at = session.clock.wall()
    captured, resource, keyed_undo = await _look(call, position, attempt, frozen, at)
    permit = await take(call, position, attempt, leave) if leave.is_needed else None
    tier = declared.tier if permit is None else "power"

    def intend() -> tuple[StepView, int]:
        with session.lock:
            call.refuse_closed()
            if permit is not None:
                charges = tuple((charge.ledger, charge.amount) for charge in leave.charges)
                session.write(Permitted(position, session.clock.wall(), permit, leave.request, leave.grant, charges))
            if declared.hold:
                staged = stage(call, position, attempt, frozen, EMPTY if frozen is asked else asked, money)
                return staged, session.written
            step = call.intend(
                position,
                frozen,
                at,
                attempt=attempt,
                asked=EMPTY if frozen is asked else asked,
                captured=captured,
                resource=resource,
                amount=money.text,
                currency=money.currency,
                keyed_undo=keyed_undo,
                tier=tier,
            )
            return step, session.written

    is_large = len(frozen) + len(asked) + len(captured) > codec.LARGE
    step, written = await _intend_aside(call, intend) if is_large else intend()
    if declared.hold:
        return receipt(session, step)
    if tier == "power":
        await _until_durable(call, step, written)
    if session.has_rules or permit is not None:
        _refuse_changed(call, step, complete, frozen)
    return await perform(call, step, complete)


async def _intend_aside(call: Invocation, intend: Callable[[], tuple[StepView, int]]) -> tuple[StepView, int]:
    """Write an intent whose bytes would hold up a loop; nothing is sent if the caller is cancelled meanwhile."""
    intended: list[tuple[StepView, int]] = []
    try:
        await call.io.whole(lambda: intended.append(intend()))
    except BaseException as error:
        if intended and not call.declared.hold:
            _never_sent(call, intended[0][0], f"never sent: the wait for the log ended by {type(error).__qualname__}")
        raise
    return intended[0]


async def _until_durable(call: Invocation, step: StepView, written: int) -> None:
    """Wait until the intent is on the disk; nothing is sent if the scope closed meanwhile."""
    try:
        await call.io.barrier(call.session.log, written)
    except BaseException as error:
        _never_sent(call, step, f"never sent: the wait for the disk ended by {type(error).__qualname__}")
        raise
    if call.session.is_wary and (call.node.why_closed() is not None or call.session.latched is not None):
        _never_sent(call, step, "never sent: the scope closed first")
        call.refuse_closed()


def _refuse_changed(call: Invocation, step: StepView, given: dict[str, Any], frozen: Raw) -> None:
    """Refuse a call whose arguments somebody changed after they were judged: what runs is what was looked at.

    Raises:
        BadArguments: They are others now; nothing was called.
    """
    if codec.is_scalar(given) or call.freeze(given) == frozen:
        return
    _never_sent(call, step, "never sent: its arguments were changed after the gate had judged them")
    raise BadArguments(
        f"{call.declared.name!r} was not called: its arguments were changed after the gate had judged them",
        saga_id=call.saga_id,
        world="nothing was called",
        next="pass values that nobody changes meanwhile: a copy",
    )


async def _look(
    call: Invocation, position: str, attempt: int, frozen: Raw, at: int
) -> tuple[Raw, str | None, Compensation | None]:
    """Return what is read and derived before the effect: the capture, the resource, the keyed undo."""
    declared = call.declared
    if declared.capture is None and declared.resource is None and declared.keyed_undo is None:
        return EMPTY, None, None
    key = (call.saga_id, position, "do", attempt)
    seen = declared.attempt(frozen, key, at)
    captured = EMPTY
    if declared.capture is not None:
        read = await call.io.ask(declared.capture, seen)
        captured = call.freeze_capture(read)
        seen = declared.attempt(frozen, key, at, captured)
    resource = None if declared.resource is None else codec.words(declared.resource(seen))
    return captured, resource, None if declared.keyed_undo is None else call.take_keyed_undo(declared.keyed_undo(seen))


async def _send_again(call: Invocation, step: StepView, given: dict[str, Any]) -> Any:
    """Send a step in doubt again under its own key, with the arguments that were recorded."""
    session = call.session
    call.resend(step)
    await call.io.barrier(session.log, session.append(Resent(step.number, session.clock.wall())))
    recorded = call.declared.attempt_of(step, session.key_of(step.position, "do", step.attempt)).args
    return await perform(call, step, {**given, **recorded})


def _never_sent(call: Invocation, step: StepView, why: str) -> None:
    session = call.session
    try:
        session.append_outcome(Missed(step.number, session.clock.wall(), why))
    except StoreError:
        log.exception("saga %s step %d: nothing was sent, and that could not be written", session.saga_id, step.number)
