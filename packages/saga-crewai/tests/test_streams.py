"""Crews whose answers are streamed, and readers who stop listening."""

import asyncio
import threading
from typing import Any

import pytest
from crewai import Crew
from crews import World, calls, clerk, crew, task
from pydantic import PrivateAttr

from saga_crewai import crew_saga
from saga_crewai.errors import SagaFailed
from saga_crewai.testing import ScriptedLLM, Turn


class Hesitant(ScriptedLLM):
    """A model that streams its second answer, and ends it when it is told to."""

    _may_end: threading.Event = PrivateAttr(default_factory=threading.Event)

    @property
    def may_end(self) -> threading.Event:
        return self._may_end

    def call(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().call(messages, *args, **kwargs)
        finally:
            if len(self.asked) == 2:
                assert self._may_end.wait(60)


def hesitant(turns: list[Turn], *, native: bool) -> tuple[Any, Hesitant]:
    kind: Any = Hesitant  # its constructor is the parent's, which pydantic hides from type checkers
    model: Hesitant = kind(turns, native=native)
    agent = clerk(model)
    return Crew(agents=[agent], tasks=[task(agent)], stream=True), model


def listen(stream: Any, model: ScriptedLLM) -> None:
    """Read until the second answer is streamed."""
    for _ in stream:
        if len(model.asked) > 1:
            break


def test_a_stream_that_is_read_to_its_end_is_kept(world: World, *, native: bool) -> None:
    team, _ = crew([*calls("ann"), "done"], native=native, stream=True)
    with crew_saga("settle") as saga:
        stream = team.kickoff()
        assert len(list(stream)) == 2
        assert stream.result.raw == "done"
    assert world.lines == ["charge ann"]
    assert saga.report.is_clean


def test_a_stream_that_is_broken_off_is_undone_and_goes_no_further(world: World, *, native: bool) -> None:
    team, model = hesitant([*calls("ann", "bob"), "done"], native=native)
    with crew_saga("settle") as saga:
        stream = team.kickoff()
        listen(stream, model)
    assert world.lines == ["charge ann", "refund ann"]
    assert saga.report.is_clean
    model.may_end.set()
    stream.close()
    assert world.lines == ["charge ann", "refund ann"]
    assert len(model.asked) == 2


def test_an_asynchronous_stream_that_is_closed_is_undone(world: World, *, native: bool) -> None:
    team, model = hesitant([*calls("ann", "bob"), "done"], native=native)

    async def main() -> None:
        async with crew_saga("settle"):
            stream = await team.kickoff_async()
            async for _ in stream:
                if len(model.asked) > 1:
                    break
            await stream.aclose()
        assert world.lines == ["charge ann", "refund ann"]
        model.may_end.set()

    asyncio.run(main())
    assert world.lines == ["charge ann", "refund ann"]
    assert len(model.asked) == 2


def test_a_stream_that_is_closed_lets_the_crew_end_and_keeps_what_it_did(world: World) -> None:
    team, model = hesitant([*calls("ann"), "done"], native=True)
    with crew_saga("settle"):
        stream = team.kickoff()
        listen(stream, model)
        model.may_end.set()
        stream.close()
    assert world.lines == ["charge ann"]


def test_a_run_that_fails_when_nobody_listens_any_more_is_undone(world: World) -> None:
    error = ConnectionError("the model is down")
    team, model = hesitant([*calls("ann"), [("charge", {"customer": "bob"})], error], native=True)
    with pytest.raises(SagaFailed, match="streamed run failed") as caught, crew_saga("settle"):
        stream = team.kickoff()
        listen(stream, model)
        model.may_end.set()
        stream.close()
    assert caught.value.__cause__ is error
    assert world.stands == []


def test_an_error_that_a_stream_raises_comes_out_unchanged(world: World, *, native: bool) -> None:
    error = ConnectionError("the model is down")
    team, _ = crew([*calls("ann"), error], native=native, stream=True)
    with pytest.raises(ConnectionError) as caught, crew_saga("settle"):
        list(team.kickoff())
    assert caught.value is error
    assert world.stands == []


def test_a_stream_that_is_read_outside_its_scope_has_no_effect(world: World, *, native: bool) -> None:
    team, model = crew([*calls("ann"), "done"], native=native, stream=True)
    with crew_saga("settle"):
        stream = team.kickoff()
    list(stream)
    assert world.lines == []
    assert "outside a scope" in model.seen[0]
