"""Scenarios of runs that somebody interrupts: a deadline, a cancellation, a reader who stops listening."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

from saga_core.conformance.adapter.actions import charge, linger, reserve, slow
from saga_core.conformance.adapter.ledger import PATIENCE
from saga_core.conformance.adapter.scenario import call
from saga_core.conformance.adapter.script import Script
from saga_core.conformance.expectation import expect

if TYPE_CHECKING:
    from saga_core.conformance.adapter.scenario import Stage
    from saga_core.conformance.adapter.script import Tool, Turn

_TOOLS = (charge, reserve, slow, linger)
_TURNS = 100
"""Turns of the loop in which what was left behind may show itself."""

_A_MOMENT = 0.2
"""Seconds that an interrupted run is given to end too early."""


def a_thread_that_lands_after_its_run_timed_out_is_undone(stage: Stage) -> None:
    """A synchronous tool cannot be interrupted: the run waits for it, and undoes it."""
    _interrupt(stage, slow, _timed_out)


def an_effect_that_is_cancelled_before_its_answer_is_undone(stage: Stage) -> None:
    """The effect of an asynchronous tool has landed, its answer has not come, the run is cancelled."""
    _interrupt(stage, linger, _cancelled)


def calls_of_one_turn_are_all_undone_when_the_run_is_cancelled(stage: Stage) -> None:
    """One has answered, one lingers in a task, one works in a thread."""
    _interrupt(stage, slow, _cancelled, beside=(linger,))


def _interrupt(stage: Stage, tool: Tool, how: Any, *, beside: tuple[Tool, ...] = ()) -> None:
    turn = [call(one, f"{one.__name__}-b") for one in (*beside, tool)]
    turns: list[Turn] = [[call(charge, "a", amount=5)], turn, "all done"]
    asyncio.run(how(stage, turns, len(turn)))
    expect(stage.ledger.standing == [], f"nothing should stand when the run is over: {stage.ledger.standing}")
    stage.have_landed("a", *sorted(stage.ledger.landed[1:]))
    expect(stage.ledger.undone[-1:] == ["a"], f"the oldest effect should be undone last: {stage.ledger.undone}")
    stage.ended("rolled_back")


async def _cancelled(stage: Stage, turns: list[Turn], tools: int) -> None:
    task = asyncio.ensure_future(stage.harness.play_async(Script(turns), _TOOLS, stage.store, None))
    await _begun(stage, task, tools)
    task.cancel()
    await _land_late(stage, task)
    try:
        await task
    except asyncio.CancelledError:
        return
    raise AssertionError("the run was cancelled; a CancelledError should come out")


async def _timed_out(stage: Stage, turns: list[Turn], tools: int) -> None:
    limit = asyncio.timeout(None)

    async def bounded() -> None:
        async with limit:
            await stage.harness.play_async(Script(turns), _TOOLS, stage.store, None)

    task = asyncio.ensure_future(bounded())
    await _begun(stage, task, tools)
    limit.reschedule(0)
    await _land_late(stage, task)
    try:
        await task
    except TimeoutError:
        return
    raise AssertionError("the time was over; a TimeoutError should come out")


async def _begun(stage: Stage, run: asyncio.Future[Any], tools: int) -> None:
    """Wait until the turn's tools run; where they run one after another, until the first one does."""
    await stage.ledger.until(lambda: run.done() or bool(stage.ledger.begun))
    for _ in range(_TURNS):
        if run.done() or len(stage.ledger.begun) == tools:
            break
        await asyncio.sleep(_A_MOMENT / _TURNS)
    if run.done():
        await run
        raise AssertionError("the run answered although its tool was still at work")


async def _land_late(stage: Stage, run: asyncio.Future[Any]) -> None:
    """Release the tool once the run was given the time to end without it."""
    ended, _ = await asyncio.wait({run}, timeout=_A_MOMENT)
    is_early = bool(ended) and not set(stage.ledger.begun) <= set(stage.ledger.landed)
    stage.ledger.release()
    await asyncio.wait({run}, timeout=PATIENCE)
    if run.done() and not run.cancelled():
        run.exception()  # who only waits for its end has seen how it ended
    expect(run.done(), "the run should end when its tool has: it hangs")
    expect(not is_early, "the run was over while its tool still worked; it should wait for it, and undo it")


def a_stream_that_is_broken_off_is_undone_and_starts_nothing_more(stage: Stage) -> None:
    """Somebody stops listening after the first tool's result."""

    async def broken_off() -> None:
        turns: list[Turn] = [[call(charge, "a", amount=5)], [call(reserve, "b")], [call(reserve, "c")], "all done"]
        await stage.harness.break_off(Script(turns), _TOOLS, stage.store, None)
        await _undone_soon(stage)
        landed = stage.ledger.landed
        await _idle()
        expect(stage.ledger.landed == landed, f"no tool should start later; then came {stage.ledger.landed}")

    asyncio.run(broken_off())
    expect(stage.ledger.landed[:1] == ["a"], "the first tool's effect should have landed before the break")
    stage.stand()
    stage.are_undone(*reversed(stage.ledger.landed))
    stage.ended("rolled_back")


async def _undone_soon(stage: Stage) -> None:
    """Wait until the saga has ended: a generator that is dropped is closed in its loop's own time."""

    async def ended() -> None:
        while not all(view.ended for view in stage.sagas()):
            gc.collect()
            await asyncio.sleep(_A_MOMENT / 10)

    try:
        await asyncio.wait_for(ended(), PATIENCE / 2)
    except TimeoutError:
        states = [view.state for view in stage.sagas()]
        raise AssertionError(
            f"the saga of a broken-off stream should end; half a minute later it is {states}"
        ) from None


async def _idle() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(_A_MOMENT / _TURNS)
