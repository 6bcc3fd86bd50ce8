"""Streamed runs: what is left of them when their block is left, however it is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agents import GuardrailFunctionOutput, InputGuardrail
from openai.types.responses import ResponseCompletedEvent

from saga_core import Call, Compensation, Conflict, RollbackIncomplete, compensable, current_saga, inverse
from saga_core.conformance.adapter.actions import charge, reserve, slow
from saga_core.conformance.adapter.ledger import Ledger
from saga_openai import SagaRunner, report_of, saga_tools

from .scripted import QUIET, ScriptedModel, agent

TURNS: Any = ([("charge", {"item": "a", "amount": 5})], [("reserve", {"item": "b"})], "done")


class Broken(Exception):
    pass


@inverse("test_streams.leave")
def leave() -> Conflict:
    return Conflict(wrote="mine", found="somebody else's")


def _leave(call: Call[str]) -> Compensation:
    return leave.bind()


@compensable("test_streams.stay", undo=_leave)
async def stay() -> str:
    """Do what somebody else will change."""
    return "stayed"


def is_tool_output(event: Any) -> bool:
    return event.type == "run_item_stream_event" and event.name == "tool_output"


def test_a_stream_that_is_heard_to_its_end_is_kept(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        clerk = agent(ScriptedModel(*TURNS), saga_tools(charge, reserve))
        async with SagaRunner.stream(clerk, "go", store=store, run_config=QUIET) as result:
            async for _ in result.stream_events():
                pass
        assert (result.final_output, ledger.standing) == ("done", ["a", "b"])
        assert report_of(result).state == "committed"

    asyncio.run(main())


def test_a_run_that_came_to_its_end_is_kept_although_nobody_listened_so_long(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        clerk = agent(ScriptedModel(*TURNS), saga_tools(charge, reserve))
        async with SagaRunner.stream(clerk, "go", store=store, run_config=QUIET) as result:
            async for event in result.stream_events():
                if is_tool_output(event):
                    break
            await ledger.until(lambda: result.final_output is not None)
        assert (result.final_output, ledger.standing) == ("done", ["a", "b"])

    asyncio.run(main())


def test_a_stream_cancelled_at_once_is_undone_and_starts_nothing_more(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        clerk = agent(ScriptedModel(*TURNS), saga_tools(charge, reserve))
        async with SagaRunner.stream(clerk, "go", store=store, run_config=QUIET) as result:
            async for event in result.stream_events():
                if event.type == "run_item_stream_event" and event.name == "tool_called":
                    result.cancel()
        assert result.run_loop_task is not None
        assert result.run_loop_task.done()
        landed = ledger.landed
        assert ledger.standing == []
        assert report_of(result).state == "rolled_back"
        for _ in range(100):
            await asyncio.sleep(0)
        assert ledger.landed == landed

    asyncio.run(main())


def test_a_stream_cancelled_after_its_turn_is_undone_without_a_second_turn(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        model = ScriptedModel(*TURNS, before_turn=lambda _: result.cancel("after_turn"))
        clerk = agent(model, saga_tools(charge, reserve))
        async with SagaRunner.stream(clerk, "go", store=store, run_config=QUIET) as result:
            async for _ in result.stream_events():
                pass
        assert (model.asked, ledger.landed, ledger.standing) == (1, ["a"], [])

    asyncio.run(main())


def test_an_error_of_the_listener_comes_out_unchanged_behind_the_undo(ledger: Ledger, store: str) -> None:
    error = Broken("the listener is gone")

    async def main() -> None:
        clerk = agent(ScriptedModel(*TURNS), saga_tools(charge, reserve))
        with pytest.raises(Broken) as raised:
            async with SagaRunner.stream(clerk, "go", store=store, run_config=QUIET) as result:
                async for event in result.stream_events():
                    if is_tool_output(event):
                        raise error
        assert raised.value is error
        assert len(error.__notes__) == 1
        assert "a" in ledger.landed
        assert ledger.standing == []

    asyncio.run(main())


def test_an_error_behind_the_last_event_undoes_the_finished_run_too(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        clerk = agent(ScriptedModel(*TURNS), saga_tools(charge, reserve))
        with pytest.raises(Broken):
            async with SagaRunner.stream(clerk, "go", store=store, run_config=QUIET) as result:
                async for _ in result.stream_events():
                    pass
                raise Broken("the page could not be shown")
        assert ledger.undone == ["b", "a"]

    asyncio.run(main())


def test_an_error_of_the_run_that_the_listener_swallows_undoes_it_all_the_same(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        clerk = agent(ScriptedModel(TURNS[0], Broken("no answer")), saga_tools(charge))
        async with SagaRunner.stream(clerk, "go", store=store, run_config=QUIET) as result:
            with pytest.raises(Broken):
                async for _ in result.stream_events():
                    pass
        assert (ledger.landed, ledger.standing) == (["a"], [])

    asyncio.run(main())


def test_a_tripwire_that_nobody_heard_of_undoes_the_finished_run(ledger: Ledger, store: str) -> None:
    """The model has answered, the listener has left, and only then the guardrail says no."""
    answered = asyncio.Event()

    async def trip_late(*_: Any) -> GuardrailFunctionOutput:
        await answered.wait()
        return GuardrailFunctionOutput(output_info="no", tripwire_triggered=True)

    async def main() -> None:
        clerk = agent(ScriptedModel(*TURNS), saga_tools(charge, reserve), input_guardrails=[InputGuardrail(trip_late)])
        async with SagaRunner.stream(clerk, "go", store=store, run_config=QUIET) as result:
            await ledger.until(lambda: result.final_output is not None)
            answered.set()
        assert ledger.standing == []
        assert report_of(result).state == "rolled_back"

    asyncio.run(main())


def test_a_thread_at_work_when_the_stream_is_broken_off_is_waited_for_and_undone(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        clerk = agent(ScriptedModel([("slow", {"item": "a"})], "done"), saga_tools(slow))

        async def listen() -> None:
            async with SagaRunner.stream(clerk, "go", store=store, run_config=QUIET):
                await ledger.until(lambda: bool(ledger.begun))

        task = asyncio.create_task(listen())
        await ledger.until(lambda: bool(ledger.begun))
        ended, _ = await asyncio.wait({task}, timeout=0.5)
        assert not ended
        ledger.release()
        await task
        assert (ledger.landed, ledger.standing) == (["a"], [])

    asyncio.run(main())


class Deaf(ScriptedModel):
    """Takes its time when its second turn is cancelled, and may answer all the same."""

    def __init__(self, ledger: Ledger, *, answers: bool) -> None:
        super().__init__(*TURNS)
        self._ledger = ledger
        self._answers = answers

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[ResponseCompletedEvent]:
        if self.asked:
            try:
                self._ledger.begin("turn")
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self._ledger.begin("stop")
                await self._ledger.until(lambda: self._ledger.is_released)
                if not self._answers:
                    raise
        async for event in super().stream_response(*args, **kwargs):
            yield event


def test_a_model_that_is_deaf_to_the_cancellation_starts_no_effect(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        clerk = agent(Deaf(ledger, answers=True), saga_tools(charge, reserve))
        async with SagaRunner.stream(clerk, "go", store=store, run_config=QUIET):
            await ledger.until(lambda: ledger.begun == ["turn"])
            ledger.release()
        assert (ledger.landed, ledger.undone) == (["a"], ["a"])

    asyncio.run(main())


@pytest.mark.parametrize("how", ["the listener fails", "the listener is cancelled as it leaves"])
def test_a_block_is_not_left_before_its_run_has_stopped(ledger: Ledger, store: str, how: str) -> None:
    async def listen() -> None:
        clerk = agent(Deaf(ledger, answers=False), saga_tools(charge, reserve))
        async with SagaRunner.stream(clerk, "go", store=store, run_config=QUIET):
            await ledger.until(lambda: ledger.begun == ["turn"])
            if how == "the listener fails":
                raise Broken

    async def main() -> None:
        task = asyncio.create_task(listen())
        await ledger.until(lambda: ledger.begun == ["turn", "stop"])
        if how != "the listener fails":
            task.cancel()
        ended, _ = await asyncio.wait({task}, timeout=0.3)
        assert not ended
        ledger.release()
        with pytest.raises(Broken if how == "the listener fails" else asyncio.CancelledError):
            await task
        assert (ledger.landed, ledger.undone) == (["a"], ["a"])

    asyncio.run(main())


def test_a_stream_that_cannot_begin_leaves_nothing_open_or_ambient(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        unknown: Any = {"no_such_argument": 1}
        with pytest.raises(TypeError):
            async with SagaRunner.stream(agent(ScriptedModel(), []), "go", store=store, **unknown):
                pass
        assert current_saga() is None

    asyncio.run(main())


def test_a_block_of_a_stream_is_a_scope_whose_own_effects_count(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        clerk = agent(ScriptedModel(*TURNS), saga_tools(charge, reserve))
        async with SagaRunner.stream(clerk, "go", store=store, run_config=QUIET) as result:
            await charge("by hand", 5)
            result.cancel()
        assert "by hand" in ledger.landed
        assert ledger.standing == []
        assert current_saga() is None

    asyncio.run(main())


def test_what_cannot_be_undone_is_said_loudly_where_the_listener_has_no_error(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        clerk = agent(ScriptedModel([("stay", {})], "done"), saga_tools(stay))
        with pytest.raises(RollbackIncomplete):
            async with SagaRunner.stream(clerk, "go", store=store, run_config=QUIET) as result:
                async for event in result.stream_events():
                    if is_tool_output(event):
                        break

    asyncio.run(main())
