"""Running an effect in the caller's context, and logging what became of it before the caller goes on."""

from __future__ import annotations

import inspect
import threading
from contextlib import suppress
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from saga_core import codec
from saga_core.clock import seconds
from saga_core.engine.context import STEP, Step
from saga_core.engine.io import SYNC
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

    Raises:
        OutcomeNotLogged: It landed, and that could not be written.
        BaseException: What the effect raised, unchanged; a note says so where it may have landed.
    """
    declared, session = call.declared, call.session
    deadline = None if declared.timeout is None else datetime.now(UTC) + timedelta(seconds=seconds(declared.timeout))
    running = Step(session, step.number, step.action, step.position, step.attempt, "do", deadline=deadline)
    try:
        result = await _run(call, step, arguments, running)
    except _StillRunning as late:
        raise late.error from None
    except Exception as error:
        _failed(call, step, error)
        if step.state == "in_doubt":
            with suppress(StoreError):  # what the remote told could not be written: the ending asks again
                await settle(call, step, stray=False)
        if step.state == "applied":
            return recorded_result(call, step)
        if step.state == "in_doubt":
            note(error, f"saga {session.saga_id}: step {step.number} {step.action!r} may have landed")
        raise
    except BaseException as error:
        _failed(call, step, error)
        raise
    await _landed(call, step, result)
    return result


def recorded_result(call: Invocation, step: StepView) -> Any:
    """Return a landed step's result from the log, in the annotated type."""
    return call.declared.signature.restore_result(codec.thaw(step.result or EMPTY))


async def _run(call: Invocation, step: StepView, arguments: dict[str, Any], running: Step) -> Any:
    """Call the function with `current_step()` answering for the step, for as long as the function runs."""
    timeout = call.declared.timeout
    outer = STEP.get()
    STEP.set(running)
    is_aside = timeout is not None and call.io is SYNC and not inspect.iscoroutinefunction(call.fn)
    try:
        if timeout is None:
            return await call.io.effect(call.fn, arguments)
        if is_aside:
            return _run_aside(call, step, arguments, running, seconds(timeout))
        return await call.io.effect(_bounded(call.fn, seconds(timeout)), arguments)
    finally:
        running.is_over = running.is_over or not is_aside
        STEP.set(outer)


def _bounded(fn: Callable[..., Any], limit: float) -> Callable[..., Any]:
    """Return an asynchronous function that is cancelled when the time is over."""

    async def bounded(**arguments: Any) -> Any:
        import asyncio  # noqa: PLC0415 -- only where a loop runs anyway

        async with asyncio.timeout(limit):
            return await fn(**arguments)

    return bounded


async def _landed(call: Invocation, step: StepView, result: Any) -> None:
    declared, session = call.declared, call.session
    try:
        written = land(session, step, result)
        if declared.tier == "power":
            if declared.probe is None and declared.keyed_undo is None:
                await call.io.barrier(session.log, written)  # only a person could settle a doubt
            else:
                session.log.sync_soon()
    except StoreError as error:
        session.latch("the outcome of an earlier step could not be written")
        lost = OutcomeNotLogged(
            f"{step.action!r} landed, and its outcome could not be written",
            saga_id=session.saga_id,
            world=f"step {step.number} took effect; its result is in this error's `result`",
            next="mend the store; no further step starts here, and recovery asks the remote about this one",
        )
        lost.result = result
        raise lost from error


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


def _run_aside(call: Invocation, step: StepView, arguments: dict[str, Any], running: Step, limit: float) -> Any:
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
            running.is_over = True
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
            session.log.sync(land(session, step, result, stray=True))
    except StoreError:
        log.exception("saga %s step %d landed, and its outcome could not be written", session.saga_id, step.number)
    finally:
        session.unattended.discard(step.number)
