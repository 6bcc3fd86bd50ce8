"""Runs that end by an error, and errors that do not end a run."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest
from agents import MaxTurnsExceeded, RunResultStreaming, UserError, function_tool

from saga_core import current_saga, irreversible
from saga_core.conformance.adapter.actions import charge, flaky, linger, reserve, slow, wire
from saga_core.conformance.adapter.ledger import Ledger
from saga_openai import SagaRunner, report_of, saga_tools

from .scripted import QUIET, ScriptedModel, agent


class Broken(Exception):
    pass


@irreversible("test_failures.transfer")
async def transfer(item: str) -> None:
    """Transfer the money for an item."""
    raise NotImplementedError


@function_tool(failure_error_function=None)
async def boom() -> None:
    """Fail, and end the run."""
    raise Broken("boom")


def test_a_siblings_thread_that_lands_after_the_failure_is_waited_for_and_undone(ledger: Ledger, store: str) -> None:
    @function_tool(failure_error_function=None)
    async def fail_late() -> None:
        """Fail once the other tool is at work."""
        await ledger.until(lambda: bool(ledger.begun))
        raise Broken("boom")

    async def main() -> None:
        model = ScriptedModel([("slow", {"item": "a"}), ("fail_late", {})], "done")
        tools = [*saga_tools(slow), fail_late]
        task = asyncio.create_task(SagaRunner.run(agent(model, tools), "go", store=store, run_config=QUIET))
        await ledger.until(lambda: bool(ledger.begun))
        ended, _ = await asyncio.wait({task}, timeout=0.5)
        assert not ended
        ledger.release()
        with pytest.raises(UserError) as raised:
            await task
        assert isinstance(raised.value.__cause__, Broken)
        assert (ledger.landed, ledger.standing) == (["a"], [])

    asyncio.run(main())


def test_a_tool_that_has_no_words_for_the_model_ends_the_run_and_undoes_it(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        model = ScriptedModel([("reserve", {"item": "a"})], [("boom", {})])
        with pytest.raises(UserError):
            await SagaRunner.run(agent(model, [*saga_tools(reserve), boom]), "go", store=store, run_config=QUIET)
        assert (ledger.landed, ledger.standing) == (["a"], [])

    asyncio.run(main())


def test_a_failed_call_that_is_repaired_leaves_both_good_effects_and_a_clean_report(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        model = ScriptedModel(
            [("charge", {"item": "a", "amount": 5})], [("flaky", {"item": "b"})], [("flaky", {"item": "b"})], "done"
        )
        result = await SagaRunner.run(agent(model, saga_tools(charge, flaky)), "go", store=store, run_config=QUIET)
        assert ledger.standing == ["a", "b"]
        assert (report_of(result).state, report_of(result).is_clean) == ("committed", True)

    asyncio.run(main())


def test_too_many_turns_undo_what_was_done(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        model = ScriptedModel([("reserve", {"item": "a"})], [("reserve", {"item": "b"})])
        with pytest.raises(MaxTurnsExceeded):
            await SagaRunner.run(agent(model, saga_tools(reserve)), "go", store=store, max_turns=2, run_config=QUIET)
        assert ledger.undone == ["b", "a"]

    asyncio.run(main())


@pytest.mark.parametrize(("choice", "standing"), [("rollback", []), ("keep", ["a"])])
@pytest.mark.parametrize("form", ["whole", "streamed"])
def test_a_handled_error_undoes_the_run_unless_it_is_to_be_kept(
    ledger: Ledger, store: str, choice: Any, standing: list[str], form: str
) -> None:
    def answer(_: object) -> str:
        return "too long"

    async def main() -> None:
        clerk = agent(ScriptedModel([("reserve", {"item": "a"})]), saga_tools(reserve))
        terms: dict[str, Any] = {
            "store": store,
            "max_turns": 1,
            "run_config": QUIET,
            "on_handled_error": choice,
            "error_handlers": {"max_turns": answer},
        }
        if form == "streamed":
            async with SagaRunner.stream(clerk, "go", **terms) as result:
                async for _ in result.stream_events():
                    pass
        else:
            result = await SagaRunner.run(clerk, "go", **terms)
        assert result.final_output == "too long"
        assert (ledger.landed, ledger.standing) == (["a"], standing)
        assert report_of(result).state == ("committed" if standing else "rolled_back")

    asyncio.run(main())


def test_an_error_handler_that_declines_changes_nothing(ledger: Ledger, store: str) -> None:
    async def decline(_: Any) -> None:
        """Have no answer."""

    async def main() -> None:
        clerk = agent(ScriptedModel([("reserve", {"item": "a"})]), saga_tools(reserve))
        with pytest.raises(MaxTurnsExceeded):
            await SagaRunner.run(
                clerk, "go", store=store, max_turns=1, run_config=QUIET, error_handlers={"max_turns": decline}
            )
        assert ledger.standing == []

    asyncio.run(main())


def test_a_cancel_scope_around_a_run_finds_the_world_as_it_was_though_the_loop_closes_at_once(
    ledger: Ledger, store: str
) -> None:
    async def main() -> None:
        model = ScriptedModel([("charge", {"item": "a", "amount": 5})], [("slow", {"item": "b"})], "done")
        async with anyio.create_task_group() as group:

            async def cancel_and_release() -> None:
                await ledger.until(lambda: bool(ledger.begun))
                group.cancel_scope.cancel()
                ledger.release()

            group.start_soon(cancel_and_release)
            await SagaRunner.run(agent(model, saga_tools(charge, slow)), "go", store=store, run_config=QUIET)

    asyncio.run(main())
    assert (ledger.landed, ledger.undone) == (["a", "b"], ["b", "a"])


def test_a_stream_in_a_cancel_scope_is_undone_before_the_loop_closes(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        model = ScriptedModel([("charge", {"item": "a", "amount": 5})], [("linger", {"item": "b"})], "done")
        clerk = agent(model, saga_tools(charge, linger))
        scope = anyio.CancelScope()

        async def cancel() -> None:
            await ledger.until(lambda: bool(ledger.begun))
            scope.cancel()

        heard: list[RunResultStreaming] = []
        cancelling = asyncio.create_task(cancel())
        with scope:
            async with SagaRunner.stream(clerk, "go", store=store, run_config=QUIET) as result:
                heard.append(result)
                async for _ in result.stream_events():
                    pass
        tasks = [result.run_loop_task for result in heard]
        assert [task is not None and task.done() for task in tasks] == [True]
        await cancelling

    asyncio.run(main())
    assert (ledger.landed, ledger.undone) == (["a", "b"], ["b", "a"])


def test_a_run_that_exceeds_its_time_is_undone_before_wait_for_raises(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        model = ScriptedModel([("reserve", {"item": "a"})], [("linger", {"item": "b"})], "done")
        work = SagaRunner.run(agent(model, saga_tools(reserve, linger)), "go", store=store, run_config=QUIET)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(work, 0.5)
        assert ledger.standing == []

    asyncio.run(main())


def test_a_tool_that_decides_to_roll_back_has_the_run_undone_and_its_result_returned(
    ledger: Ledger, store: str
) -> None:
    @function_tool
    async def give_up() -> str:
        """Give up."""
        saga = current_saga()
        assert saga is not None
        saga.rollback("the customer changed his mind")
        return "given up"

    async def main() -> None:
        model = ScriptedModel([("reserve", {"item": "a"})], [("give_up", {})], [("reserve", {"item": "b"})], "sorry")
        result = await SagaRunner.run(
            agent(model, [*saga_tools(reserve), give_up]), "go", store=store, run_config=QUIET
        )
        assert (result.final_output, ledger.landed, ledger.standing) == ("sorry", ["a"], [])
        assert "the customer changed his mind" in model.seen[-1]

    asyncio.run(main())


def test_a_call_that_comes_after_the_run_has_ended_is_refused(ledger: Ledger, store: str) -> None:
    """The SDK waits for an unhelpful tool a moment only: the tool outlives its run and still tries to act."""
    go = asyncio.Event()
    late: list[str] = []

    @function_tool
    async def stubborn() -> str:
        """Shrug off the cancellation, and act later."""
        try:
            await go.wait()
        except asyncio.CancelledError:
            await go.wait()
        try:
            await charge("late", 5)
        except Exception as refused:
            late.append(type(refused).__name__)
            raise
        return "acted"

    async def main() -> None:
        model = ScriptedModel([("reserve", {"item": "a"})], [("stubborn", {}), ("boom", {})])
        tools = [*saga_tools(reserve), stubborn, boom]
        with pytest.raises(UserError):
            await SagaRunner.run(agent(model, tools), "go", store=store, run_config=QUIET)
        assert ledger.standing == []
        go.set()
        await ledger.until(lambda: bool(late))
        assert (late, ledger.landed) == (["SagaClosed"], ["a"])

    asyncio.run(main())


def test_a_refused_call_has_no_effect_and_the_run_keeps_the_rest(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        calls = [("reserve", {"item": "a"}), ("wire", {"item": "b"}), ("transfer", {"item": "c"})]
        model = ScriptedModel(calls, "done")
        tools = saga_tools(reserve, wire, transfer)
        result = await SagaRunner.run(agent(model, tools), "go", store=store, run_config=QUIET)
        assert ledger.standing == ["a"]
        assert sorted(step.state for step in report_of(result).steps) == ["applied", "refused", "refused"]
        told = [text.partition(":")[0] for text in model.seen[1:]]
        assert told == [
            "'conformance.wire' was refused before it ran",
            "'test_failures.transfer' was refused before it ran",
        ]

    asyncio.run(main())


def test_three_runs_at_once_keep_their_effects_apart(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        async def one(item: str, end: Any) -> str:
            model = ScriptedModel([("charge", {"item": item, "amount": 5})], end)
            result = await SagaRunner.run(agent(model, saga_tools(charge)), "go", store=store, run_config=QUIET)
            return result.final_output

        ended = await asyncio.gather(one("a", "done"), one("b", Broken("b")), one("c", "done"), return_exceptions=True)
        assert [type(each).__name__ for each in ended] == ["str", "Broken", "str"]
        assert sorted(ledger.standing) == ["a", "c"]

    asyncio.run(main())
