"""One call of an action: recalled or judged, recorded, run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saga_core import codec
from saga_core.clock import nanoseconds
from saga_core.engine.context import STEP
from saga_core.engine.effect import perform, recorded_result
from saga_core.engine.invocation import Invocation
from saga_core.engine.judge import judge
from saga_core.engine.recall import recall
from saga_core.engine.session import log
from saga_core.errors import BadArguments, StepInDoubt, StoreError
from saga_core.records import EMPTY, Intended, Missed, Resent, Returned

if TYPE_CHECKING:
    from collections.abc import Callable

    from msgspec import Raw

    from saga_core.answers import Compensation
    from saga_core.declaration import Declaration
    from saga_core.engine.io import Io
    from saga_core.engine.judge import Money
    from saga_core.engine.node import Node
    from saga_core.view import StepView


async def run_step(
    io: Io,
    node: Node,
    declared: Declaration,
    fn: Callable[..., Any],
    label: str | None,
    *,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Run one call of an action inside a scope and return its result.

    Raises:
        TypeError: The arguments do not fit the function.
        SagaError: The call was refused, or cannot be recorded; the error says that nothing was called, or what was.
    """
    declared.refuse_incomplete()
    given = declared.signature.bind(args, kwargs)
    session = node.session
    flight = session.enter(node.path)
    try:
        call = Invocation(io, node, declared, fn, label, flight)
        if not session.is_replay:
            call.refuse_closed()
        asked = call.freeze(given)
        position = node.position(declared.name, label)
        try:
            known = await recall(call, position, asked)
        except StepInDoubt:
            if label is None and position not in session.view.positions:
                node.give_back(declared.name, position)
            raise
        if known is not None and known.state == "applied":
            if known.stray:
                session.append(Returned(known.number, session.clock.wall()))
            return recorded_result(call, known)
        call.refuse_closed()
        if known is not None and known.state == "in_doubt":
            return await _send_again(call, known, given)
        complete, frozen = given, asked
        if declared.prepare is not None:
            complete = dict(await io.ask(declared.prepare, given))
            frozen = call.freeze(complete)
        money = judge(call, position, frozen)
        attempt = 1 if known is None else known.attempt + 1
        position = position if known is None else known.position
        step = await _intend(call, position, attempt, asked, frozen, money)
        return await perform(call, step, complete)
    finally:
        session.leave(flight)


async def _intend(call: Invocation, position: str, attempt: int, asked: Raw, frozen: Raw, money: Money) -> StepView:
    """Write the intent and wait until it is durable within the step's tier."""
    declared, session = call.declared, call.session
    at = session.clock.wall()
    captured, resource, keyed_undo = await _look(call, position, attempt, frozen, at)
    outer = STEP.get()
    parent = outer.number if outer is not None and outer.saga_id == session.saga_id and not outer.is_over else None
    with session.lock:
        call.refuse_closed()
        call.flight.step = number = session.next_step()
        written = session.append(
            Intended(
                number,
                at,
                declared.name,
                declared.version,
                declared.reversibility,
                call.node.path,
                position,
                attempt,
                parent,
                frozen,
                EMPTY if frozen is asked else asked,
                captured,
                declared.tier,
                nanoseconds(declared.lands_within),
                resource,
                None if money.amount is None else str(money.amount),
                money.currency,
                keyed_undo,
            )
        )
        step = session.view.steps[number]
    if declared.tier == "power":
        try:
            await call.io.barrier(session.log, written)
        except BaseException as error:
            _never_sent(call, step, f"never sent: the wait for the disk ended by {type(error).__qualname__}")
            raise
    if call.node.why_closed() is not None or session.latched is not None:
        _never_sent(call, step, "never sent: the scope closed first")
        call.refuse_closed()
    return step


async def _look(
    call: Invocation, position: str, attempt: int, frozen: Raw, at: int
) -> tuple[Raw, str | None, Compensation | None]:
    """Return what is read and derived before the effect: the capture, the resource, the keyed undo."""
    declared = call.declared
    if declared.capture is None and declared.resource is None and declared.keyed_undo is None:
        return EMPTY, None, None
    seen = declared.attempt(frozen, lambda: call.session.key_of(position, "do", attempt), at)
    captured = EMPTY
    if declared.capture is not None:
        read = await call.io.ask(declared.capture, seen)
        captured = call.frozen(read, "what its capture read", "return JSON from the capture")
        seen.captured = codec.thaw(captured)
    resource = None if declared.resource is None else codec.words(declared.resource(seen))
    return captured, resource, None if declared.keyed_undo is None else _keyed_undo(call, declared.keyed_undo(seen))


def _keyed_undo(call: Invocation, undo: object) -> Compensation:
    try:
        return codec.bound(undo)
    except (TypeError, ValueError) as unfit:
        raise BadArguments(
            f"{call.declared.name!r} was not called: its keyed undo cannot be recorded: {unfit}",
            saga_id=call.session.saga_id,
            world="nothing was called",
            next="return what the inverse's bind returns",
        ) from unfit


async def _send_again(call: Invocation, step: StepView, given: dict[str, Any]) -> Any:
    """Send a step in doubt again under its own key, with the arguments that were recorded."""
    session = call.session
    call.flight.step = step.number
    await call.io.barrier(session.log, session.append(Resent(step.number, session.clock.wall())))
    recorded = call.declared.attempt_of(step, session.key_of(step.position, "do", step.attempt)).args
    return await perform(call, step, {**given, **recorded})


def _never_sent(call: Invocation, step: StepView, why: str) -> None:
    session = call.session
    try:
        session.append_outcome(Missed(step.number, session.clock.wall(), why))
    except StoreError:
        log.exception("saga %s step %d: nothing was sent, and that could not be written", session.saga_id, step.number)
