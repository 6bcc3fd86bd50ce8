"""Runs that wait for a person: suspended, resumed, given up, and begun anew."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, RunResult, RunState, function_tool

from saga_core import SagaClosed, current_saga, saga_scope
from saga_core.conformance.adapter.actions import charge, reserve
from saga_core.conformance.adapter.ledger import DEATH, Ledger
from saga_openai import SagaRunner, report_of, saga_tools
from saga_openai.errors import InterruptedWithoutKey

from .scripted import QUIET, ScriptedModel, agent

CHARGE = ("charge", {"item": "a", "amount": 5})
RESERVE = ("reserve", {"item": "b"})


class Broken(Exception):
    pass


def clerk(*turns: Any) -> Agent[Any]:
    """Return an agent that may charge as it likes, and needs an approval to reserve."""
    tools = saga_tools(charge, reserve)
    tools[1].needs_approval = True  # pyright: ignore[reportAttributeAccessIssue] -- a union of all kinds of tools
    return agent(ScriptedModel(*turns), tools)


async def parked(store: str, *, key: str | None = "order-7") -> str:
    """Run until the reservation waits, and return the state as a user saves it."""
    result = await SagaRunner.run(clerk([CHARGE, RESERVE]), "go", key=key, store=store, run_config=QUIET)
    assert len(result.interruptions) == 1
    assert report_of(result).state == "suspended"
    return result.to_state().to_string()


async def resumed(saved: str, store: str, *turns: Any, approve: bool = True, **terms: Any) -> RunResult:
    who = clerk(*turns)
    state: RunState[Any, Any] = await RunState.from_string(who, saved)
    for item in state.get_interruptions():
        if approve:
            state.approve(item)
        else:
            state.reject(item)
    asked: dict[str, Any] = {"key": "order-7", "store": store, "run_config": QUIET, **terms}
    return await SagaRunner.run(who, state, **asked)


def test_an_interrupted_run_waits_with_its_effect_and_goes_on_when_it_is_resumed(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        saved = await parked(store)
        assert ledger.standing == ["a"]
        result = await resumed(saved, store, "done")
        assert (result.final_output, ledger.standing) == ("done", ["a", "b"])
        assert [step.state for step in report_of(result).steps] == ["applied", "applied"]

    asyncio.run(main())


def test_a_rejected_call_never_happens_and_the_rest_is_kept(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        result = await resumed(await parked(store), store, "done", approve=False)
        assert (result.final_output, ledger.landed, ledger.standing) == ("done", ["a"], ["a"])

    asyncio.run(main())


def test_a_resumed_run_that_fails_undoes_what_was_done_before_the_interruption(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        with pytest.raises(Broken):
            await resumed(await parked(store), store, Broken("no answer"))
        assert ledger.undone == ["b", "a"]

    asyncio.run(main())


def test_a_saved_state_that_is_resumed_twice_takes_effect_once(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        saved = await parked(store)
        await resumed(saved, store, "done")
        with pytest.raises(SagaClosed):
            await resumed(saved, store, "done")
        result = await resumed(saved, store, "done again", if_settled="return")
        assert (result.final_output, ledger.landed) == ("done again", ["a", "b"])

    asyncio.run(main())


def test_a_resumption_that_is_killed_in_its_effect_is_resumed_again_without_a_second_one(
    ledger: Ledger, store: str, tmp_path: Path
) -> None:
    saved = asyncio.run(parked(store))
    (tmp_path / "saved.json").write_text(saved, encoding="utf-8")
    program = f"""
import asyncio, sys
from importlib import import_module
sys.path.insert(0, {str(Path(__file__).parent.parent)!r})
resumed = import_module("tests.test_approvals").resumed
asyncio.run(resumed(open({str(tmp_path / "saved.json")!r}).read(), {store!r}, "done"))
"""
    died = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, DEATH: "after:b"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert died.returncode == -9, died.stderr
    assert ledger.landed == ["a", "b"]
    result = asyncio.run(resumed(saved, store, "done"))
    assert (result.final_output, ledger.landed, ledger.standing) == ("done", ["a", "b"], ["a", "b"])


def test_a_run_without_a_key_that_has_to_wait_is_undone_and_says_what_to_do(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        with pytest.raises(InterruptedWithoutKey, match=r"key=\.\.\."):
            await parked(store, key=None)
        assert (ledger.landed, ledger.standing) == (["a"], [])

    asyncio.run(main())


def test_a_run_without_a_key_may_wait_before_its_first_effect(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        result = await SagaRunner.run(clerk([RESERVE]), "go", store=store, run_config=QUIET)
        finished = await resumed(result.to_state().to_string(), store, "done", key=None)
        assert (finished.final_output, ledger.standing) == ("done", ["b"])

    asyncio.run(main())


def test_an_interrupted_stream_waits_as_well(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        stream = SagaRunner.stream(clerk([CHARGE, RESERVE]), "go", key="order-7", store=store, run_config=QUIET)
        async with stream as result:
            async for _ in result.stream_events():
                pass
        assert (report_of(result).state, ledger.standing) == ("suspended", ["a"])
        await resumed(result.to_state().to_string(), store, "done")
        assert ledger.standing == ["a", "b"]

    asyncio.run(main())


def test_an_interrupted_stream_without_a_key_is_undone_and_says_so(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        with pytest.raises(InterruptedWithoutKey):
            async with SagaRunner.stream(clerk([CHARGE, RESERVE]), "go", store=store, run_config=QUIET) as result:
                async for _ in result.stream_events():
                    pass
        assert (ledger.landed, ledger.standing) == (["a"], [])

    asyncio.run(main())


def test_an_interruption_inside_a_scope_suspends_the_scopes_saga(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        async with saga_scope("shop", key="order-7", store=store):
            await charge("before", 5)
            result = await SagaRunner.run(clerk([CHARGE, RESERVE]), "go", run_config=QUIET)
        assert report_of(result).state == "suspended"
        assert ledger.standing == ["before", "a"]
        with pytest.raises(Broken):
            await resumed(result.to_state().to_string(), store, Broken("no answer"))
        assert ledger.undone == ["b", "a", "before"]

    asyncio.run(main())


def test_an_interruption_inside_a_scope_without_a_key_undoes_the_run_and_leaves_the_scope(
    ledger: Ledger, store: str
) -> None:
    async def main() -> None:
        async with saga_scope("shop", store=store):
            await charge("before", 5)
            with pytest.raises(InterruptedWithoutKey):
                await SagaRunner.run(clerk([CHARGE, RESERVE]), "go", run_config=QUIET)
        assert (ledger.landed, ledger.standing) == (["before", "a"], ["before"])

    asyncio.run(main())


def test_a_run_in_a_task_that_outlived_its_scope_waits_with_a_saga_of_its_own(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        ended = asyncio.Event()

        async def work() -> str:
            await ended.wait()
            return await parked(store)

        async with saga_scope("request", store=store):
            task = asyncio.create_task(work())
            await charge("request", 5)
        ended.set()
        await resumed(await task, store, "done")
        assert ledger.standing == ["request", "a", "b"]

    asyncio.run(main())


def test_a_new_run_of_a_key_undoes_first_what_the_unfinished_one_did(ledger: Ledger, store: str) -> None:
    """A model asked anew makes calls of its own: with the old ones kept, each effect would stand twice."""

    async def main() -> None:
        await parked(store)
        standing: list[list[str]] = []

        def look(_: int) -> None:
            standing.append(ledger.standing)

        model = ScriptedModel([("charge", {"item": "c", "amount": 5})], "done", before_turn=look)
        tools = saga_tools(charge)
        result = await SagaRunner.run(agent(model, tools), "go", key="order-7", store=store, run_config=QUIET)
        assert standing == [[], ["c"]]
        assert (ledger.undone, ledger.standing) == (["a"], ["c"])
        assert len(report_of(result).steps) == 1

    asyncio.run(main())


def test_a_plain_tools_steps_are_told_apart_from_those_before_the_resumption(ledger: Ledger, store: str) -> None:
    """A tool of the user's own has no place for its steps; counted on from the start, the second would be the first."""

    @function_tool
    async def buy() -> str:
        """Buy one more."""
        return (await charge("a", 5))["effect"]

    @function_tool(needs_approval=True)
    async def ask() -> str:
        """Ask somebody."""
        return "asked"

    async def main() -> None:
        first = agent(ScriptedModel([("buy", {}), ("ask", {})]), [buy, ask])
        result = await SagaRunner.run(first, "go", key="order-7", store=store, run_config=QUIET)
        second = agent(ScriptedModel([("buy", {})], "done"), [buy, ask])
        state: RunState[Any, Any] = await RunState.from_string(second, json.dumps(result.to_state().to_json()))
        state.approve(state.get_interruptions()[0])
        await SagaRunner.run(second, state, key="order-7", store=store, run_config=QUIET)
        assert ledger.standing == ["a", "a"]
        assert current_saga() is None

    asyncio.run(main())
