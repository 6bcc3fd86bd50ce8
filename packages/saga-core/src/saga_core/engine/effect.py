"""Running an effect in the caller's context, and logging what became of it before the caller goes on."""

from __future__ import annotations

import threading
from contextlib import suppress
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from saga_core import codec
from saga_core.clock import seconds
from saga_core.engine.context import STEP
from saga_core.engine.io import ASYNC, PRIVATE_LOOP
from saga_core.engine.landing import land
from saga_core.engine.notes import note
from saga_core.engine.recall import settle
from saga_core.engine.session import log
from saga_core.errors import OutcomeNotLogged, StoreError
from saga_core.records import EMPTY, Doubted, Missed

if TYPE_CHECKING:
    from collections.abc import Callable

    from saga_core.engine.invocation import Invocation
    from saga_core.view import StepView


async def perform(call: Invocation, step: StepView, arguments: dict[str, Any]) -> Any:
    """Run the effect of a step whose intent is logged, and return its result.

    It runs in the caller's context, with `current_step()` answering for the step as long as the function runs.

    Raises:
        OutcomeNotLogged: It landed, and that could not be written.
        BaseException: What the effect raised, unchanged; a note says so where it may have landed.
    """
    declared, io, session = call.declared, call.io, call.node.session
    outer = STEP.get()
    try:
        try:
            STEP.set(call)
            if declared.timeout is not None:
                result = await _run_timed(call, step, arguments, declared.timeout)
            elif io is ASYNC:
                result = await call.fn(**arguments)
            elif declared.is_async:
                result = PRIVATE_LOOP.run(call.fn(**arguments))
            else:
                result = call.fn(**arguments)
        finally:
            STEP.set(outer)
            if declared.timeout is None:
                call.is_over = True
    except _StillRunning as late:
        raise late.error from None
    except BaseException as error:
        if await _is_landed_all_the_same(call, step, error):
            return recorded_result(call, step)
        raise
    try:
        written = land(session, step, declared, result)
        if declared.tier == "power":
            await _keep(call, written)
    except StoreError as error:
        raise _not_logged(call, step, result) from error
    return result


async def _keep(call: Invocation, written: int) -> None:
    """Bring an outcome to the disk: soon, or at once where only a person could settle a doubt."""
    declared, log_ = call.declared, call.session.log
    if declared.probe is None and declared.keyed_undo is None:
        await call.io.barrier(log_, written)
    else:
        log_.sync_soon()


async def _is_landed_all_the_same(call: Invocation, step: StepView, error: BaseException) -> bool:
    """Log that the effect raised; ask the remote, if anybody still can, whether it landed."""
    _failed(call, step, error)
    if not isinstance(error, Exception):
        return False
    if step.state == "in_doubt":
        with suppress(StoreError):  # what the remote told could not be written: the ending asks again
            await settle(call, step, stray=False)
    if step.state == "in_doubt":
        note(error, f"saga {call.saga_id}: step {step.number} {step.action!r} may have landed")
    return step.state == "applied"


def recorded_result(call: Invocation, step: StepView) -> Any:
    """Return a landed step's result from the log, in the annotated type."""
    return call.declared.signature.restore_result(codec.thaw(step.result or EMPTY))


async def _run_timed(call: Invocation, step: StepView, arguments: dict[str, Any], within: timedelta) -> Any:
    """Call the function and wait no longer than its timeout."""
    limit = seconds(within)
    call.deadline = datetime.now(UTC) + timedelta(seconds=limit)
    if not call.declared.is_async:
        return _run_aside(call, step, arguments, limit)
    try:
        return await call.io.effect(_bounded(call.fn, limit), arguments)
    finally:
        call.is_over = True


def _bounded(fn: Callable[..., Any], limit: float) -> Callable[..., Any]:
    """Return an asynchronous function that is cancelled when the time is over."""

    async def bounded(**arguments: Any) -> Any:
        import asyncio  # noqa: PLC0415 -- only where a loop runs anyway

        async with asyncio.timeout(limit):
            return await fn(**arguments)

    return bounded


def _not_logged(call: Invocation, step: StepView, result: Any) -> OutcomeNotLogged:
    call.session.latch("the outcome of an earlier step could not be written")
    lost = OutcomeNotLogged(
        f"{step.action!r} landed, and its outcome could not be written",
        saga_id=call.saga_id,
        world=f"step {step.number} took effect; its result is in this error's `result`",
        next="mend the store; no further step starts here, and recovery asks the remote about this one",
    )
    lost.result = result
    return lost


def _failed(call: Invocation, step: StepView, error: BaseException) -> None:
    session = call.session
    kind = type(error).__qualname__
    is_proven = call.declared.proves_not_landed(error)
    at = session.clock.wall()
    record = Missed(step.number, at, f"{kind} proves it") if is_proven else _doubted(call, step, kind)
    try:
        session.append_outcome(record)
    except StoreError as unwritten:
        note(error, f"saga {session.saga_id}: how step {step.number} ended is not written: {unwritten.args[0]}")
    if not is_proven:
        log.info("saga %s step %d %s is in doubt: %s", session.saga_id, step.number, step.action, kind)


def _doubted(call: Invocation, step: StepView, kind: str) -> Doubted:
    clock = call.session.clock
    return Doubted(step.number, clock.wall(), clock.up(), kind)


class _StillRunning(Exception):
    """The timeout passed and the effect's thread goes on."""

    def __init__(self, error: TimeoutError) -> None:
        super().__init__()
        self.error = error


def _run_aside(call: Invocation, step: StepView, arguments: dict[str, Any], limit: float) -> Any:
    """Run a synchronous effect with a timeout: when it passes the caller goes on, and the thread logs the outcome."""
    context = copy_context()
    flight = call.session.enter(call.node.path, step.number)
    handing_over = threading.Lock()
    ended = threading.Event()
    outcome: list[tuple[Any, BaseException | None]] = []
    is_alone = False

    def work() -> None:
        try:
            outcome.append((context.run(call.fn, **arguments), None))
        except BaseException as error:  # noqa: BLE001 -- carried to the caller, or logged as the outcome
            outcome.append((None, error))
        try:
            with handing_over:
                ended.set()
            if is_alone:
                _log_alone(call, step, *outcome[0])
        finally:
            call.is_over = True
            call.session.leave(flight)

    threading.Thread(target=work, name=f"saga-step-{step.number}", daemon=True).start()
    ended.wait(limit)
    with handing_over:
        if not ended.is_set():
            is_alone = True
            call.session.unattended.add(step.number)
            late = TimeoutError(f"{step.action!r} took longer than {limit} s")
            note(late, f"saga {call.session.saga_id}: step {step.number} is still running, and may land")
            raise _StillRunning(late)
    result, error = outcome[0]
    if error is not None:
        raise error
    return result


def _log_alone(call: Invocation, step: StepView, result: Any, error: BaseException | None) -> None:
    """Log the outcome of an effect whose caller went on: what landed had failed towards it."""
    session = call.session
    try:
        if error is not None:
            _failed(call, step, error)
        else:
            session.log.sync(land(session, step, call.declared, result, stray=True))
    except StoreError:
        log.exception("saga %s step %d landed, and its outcome could not be written", session.saga_id, step.number)
    finally:
        session.unattended.discard(step.number)
