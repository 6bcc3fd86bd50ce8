"""What ends a run from outside, and what goes on in threads meanwhile."""

import asyncio
import threading
from typing import Any

import crews
import pytest
from crewai import Crew
from crews import World, calls, charge, charge_slowly, clerk, crew, task

from saga_core import read_only
from saga_crewai import crew_saga
from saga_crewai.testing import ScriptedLLM, Turn

SLOWLY: list[Turn] = [[("charge_slowly", {"customer": "slow"})]]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_while_the_model_is_asked_undoes_all(
    world: World, kind: type[BaseException], *, native: bool
) -> None:
    error = kind("enough")
    team, _ = crew([*calls("ann", "bob"), error], native=native)
    with pytest.raises(kind) as caught, crew_saga("settle"):
        team.kickoff()
    assert caught.value is error
    assert world.lines == ["charge ann", "charge bob", "refund bob", "refund ann"]


def test_an_interrupt_inside_a_tool_is_not_told_to_the_model(world: World, *, native: bool) -> None:
    @read_only("interrupts.stop")
    def stop() -> None:
        """Stop all."""
        raise KeyboardInterrupt

    team, model = crew([*calls("ann"), [("stop", {})], "done"], native=native, tools=(charge, stop))
    with pytest.raises(KeyboardInterrupt), crew_saga("settle"):
        team.kickoff()
    assert world.stands == []
    assert len(model.asked) == 2


def test_a_run_whose_interrupt_was_swallowed_is_undone(world: World) -> None:
    team, _ = crew([*calls("ann"), KeyboardInterrupt()])
    with crew_saga("settle") as saga, pytest.raises(KeyboardInterrupt):
        team.kickoff()
    assert world.lines == ["charge ann", "refund ann"]
    assert saga.report.is_clean


@pytest.mark.parametrize("how", ["kickoff_async", "akickoff"])
def test_an_effect_that_lands_after_the_cancellation_is_undone(world: World, how: str, *, native: bool) -> None:
    team, model = crew([*calls("ann"), *SLOWLY, "done"], native=native, tools=(charge, charge_slowly))

    async def run() -> None:
        async with crew_saga("settle"):
            await getattr(team, how)()

    async def main() -> None:
        running = asyncio.create_task(run())
        await asyncio.to_thread(crews.begun.wait, 60)
        running.cancel()
        await asyncio.wait({running}, timeout=0.05)
        assert not running.done()
        crews.may_land.set()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    assert world.lines == ["charge ann", "charge slow", "refund slow", "refund ann"]
    assert len(model.asked) == 2


def test_a_task_that_goes_on_after_the_run_has_raised_is_waited_for_and_undone(world: World, *, native: bool) -> None:
    error = ConnectionError("the model is down")
    slow = clerk(ScriptedLLM([*SLOWLY, *calls("late"), "done"], native=native), (charge, charge_slowly))

    class Down(ScriptedLLM):
        def call(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            assert crews.begun.wait(60)
            return super().call(messages, *args, **kwargs)

    down: Any = Down  # its constructor is the parent's, which pydantic hides from type checkers
    fast = clerk(down([error], native=native))
    beside = [task(fast, async_execution=True), task(slow, async_execution=True)]
    team: Any = Crew(agents=[fast, slow], tasks=[*beside, task(fast)])
    before = set(threading.enumerate())
    with pytest.raises(ConnectionError) as caught, crew_saga("settle"):
        try:
            team.kickoff()
        finally:
            assert world.lines == []
            crews.may_land.set()
    assert caught.value is error
    assert world.lines[0] == "charge slow"
    assert world.stands == []
    for thread in set(threading.enumerate()) - before:
        if not thread.daemon:
            thread.join(60)
    assert world.stands == []


def test_calls_that_are_made_at_once_are_undone_newest_first(world: World) -> None:
    at_once = [("charge", {"customer": name}) for name in ("ann", "bob", "cid")]
    error = ConnectionError("the model is down")
    team, model = crew([at_once, error])
    with pytest.raises(ConnectionError), crew_saga("settle"):
        team.kickoff()
    landed = [line.removeprefix("charge ") for line in world.lines[:3]]
    assert sorted(landed) == ["ann", "bob", "cid"]
    assert sorted(model.seen) == ["charged ann", "charged bob", "charged cid"]
    assert world.stands == []
