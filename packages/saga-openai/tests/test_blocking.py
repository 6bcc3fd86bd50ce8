"""Synchronous runs: their loop, and Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agents import Runner, function_tool

from saga_core import saga_scope
from saga_core.conformance.adapter.actions import charge, reserve
from saga_core.conformance.adapter.ledger import Ledger
from saga_core.errors import ScopeMisuse
from saga_core.recovery import recover
from saga_openai import SagaRunner, report_of, saga_tools

from .scripted import QUIET, ScriptedModel, agent


def run_sync(model: ScriptedModel, tools: Any, store: str | None) -> Any:
    return SagaRunner.run_sync(agent(model, tools), "go", store=store, run_config=QUIET)


@pytest.mark.usefixtures("thread_loop")
def test_a_synchronous_run_keeps_what_it_did_and_leaves_the_threads_loop_to_the_next(
    ledger: Ledger, store: str
) -> None:
    loops: list[object] = []

    @function_tool
    async def look() -> str:
        """Look at the loop."""
        loops.append(asyncio.get_running_loop())
        return "seen"

    for item in ("a", "b"):
        model = ScriptedModel([("look", {}), ("reserve", {"item": item})], "done")
        assert report_of(run_sync(model, [look, *saga_tools(reserve)], store)).state == "committed"
    Runner.run_sync(agent(ScriptedModel([("look", {})], "done"), [look]), "go", run_config=QUIET)
    assert ledger.standing == ["a", "b"]
    assert len(set(loops)) == 1


@pytest.mark.usefixtures("thread_loop")
def test_a_synchronous_run_in_a_plain_scope_is_a_savepoint_of_it(ledger: Ledger, store: str) -> None:
    with pytest.raises(ZeroDivisionError), saga_scope("outer", store=store):
        reserve("before")
        run_sync(ScriptedModel([("charge", {"item": "a", "amount": 5})], "done"), saga_tools(charge), None)
        assert ledger.standing == ["before", "a"]
        raise ZeroDivisionError
    assert ledger.undone == ["a", "before"]


def test_a_synchronous_run_on_a_loops_own_thread_is_refused_before_anything_ran(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        model = ScriptedModel("done")
        with pytest.raises(ScopeMisuse, match=r"await SagaRunner\.run"):
            run_sync(model, saga_tools(reserve), store)
        assert model.asked == 0

    asyncio.run(main())


@pytest.mark.usefixtures("thread_loop")
def test_an_interrupt_that_a_tool_raises_on_the_loop_finds_the_run_undone(ledger: Ledger, store: str) -> None:
    @function_tool
    async def interrupt() -> str:
        """Be interrupted."""
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sync(
            ScriptedModel([("reserve", {"item": "a"})], [("interrupt", {})], "done"),
            [*saga_tools(reserve), interrupt],
            store,
        )
    assert (ledger.landed, ledger.standing) == (["a"], [])


PROGRAM = """
import signal
import sys

from saga_core.conformance.adapter.actions import charge, linger, slow
from saga_openai import SagaRunner, saga_tools
sys.path.insert(0, {folder!r})
from scripted import QUIET, ScriptedModel, agent

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what runs behind it with Ctrl-C ignored
model = ScriptedModel([("charge", {{"item": "a", "amount": 5}})], [({tool!r}, {{"item": "b"}})], "done")
try:
    SagaRunner.run_sync(agent(model, saga_tools(charge, linger, slow)), "go", store={store!r}, run_config=QUIET)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("tool", ["linger", "slow"])
def test_ctrl_c_finds_the_run_undone_also_what_a_thread_does_after_it(ledger: Ledger, store: str, tool: str) -> None:
    program = PROGRAM.format(folder=str(Path(__file__).parent), tool=tool, store=store)
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    ledger.wait_until(lambda: bool(ledger.begun))
    process.send_signal(signal.SIGINT)
    if tool == "slow":
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
    ledger.release()
    said, _ = process.communicate(timeout=60)
    assert said == "interrupted\n"
    assert (ledger.landed, ledger.undone) == (["a", "b"], ["b", "a"])


def test_a_second_ctrl_c_does_not_wait_and_recovery_undoes_the_rest(ledger: Ledger, store: str) -> None:
    program = PROGRAM.format(folder=str(Path(__file__).parent), tool="slow", store=store)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ledger.wait_until(lambda: bool(ledger.begun))
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert ledger.standing == ["a"]
        ledger.release()
        process.wait(60)
    recover(store)
    assert (ledger.landed, ledger.standing) == (["a", "b"], [])
