"""Tools made from actions: what the model is shown, and where they run."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Annotated, Any

import pytest
from agents import FunctionTool, Runner, function_tool

from saga_core import Call, Compensation, compensable, current_step, inverse, read_only, saga_scope
from saga_core.adapter import Session
from saga_core.conformance.adapter.actions import charge, reserve
from saga_core.conformance.adapter.ledger import Ledger
from saga_core.errors import DeclarationError
from saga_openai import SagaRunner, report_of, saga_tools

from .scripted import QUIET, ScriptedModel, agent
from .scripted import Call as Asked

_threads: list[int] = []


@inverse("test_tools.forget")
def forget() -> None:
    """Undo nothing."""


def _forget(call: Call[Any]) -> Compensation:
    return forget.bind()


@compensable("test_tools.note", undo=_forget)
def note(title: str, lines: Annotated[list[str], "What to write down."], urgent: str = "no") -> str:
    """Write a note.

    Args:
        title: What it is about.
        lines: The text.
        urgent: Whether it cannot wait.
    """
    _threads.append(threading.get_ident())
    return current_step().position


@compensable("test_tools.patch", undo=_forget)
async def patch(fields: dict[str, Any]) -> dict[str, Any]:
    """Change some fields.

    Args:
        fields: The new values.
    """
    return fields


@read_only("test_tools.look")
def look(name: str) -> str:
    """Look something up."""
    return f"found {name}"


def sessions() -> int:
    """Return how many sessions are alive."""
    gc.collect()
    return sum(isinstance(found, Session) for found in gc.get_objects())


def made(action: Any) -> FunctionTool:
    (tool,) = saga_tools(action)
    assert isinstance(tool, FunctionTool)
    return tool


def test_a_tool_shows_what_function_tool_shows_of_the_plain_function() -> None:
    def plain(title: str, lines: Annotated[list[str], "What to write down."], urgent: str = "no") -> str:
        raise NotImplementedError

    plain.__name__ = "note"
    plain.__doc__ = note.__doc__
    expected, found = function_tool(plain), made(note)
    assert (found.name, found.description) == ("note", "Write a note.")
    assert found.params_json_schema == expected.params_json_schema
    assert found.strict_json_schema
    assert found.params_json_schema["properties"]["title"]["description"] == "What it is about."


def test_an_argument_with_open_keys_leaves_the_schema_open(ledger: Ledger, store: str) -> None:
    assert not made(patch).strict_json_schema

    async def main() -> None:
        model = ScriptedModel([("patch", {"fields": {"Status": "Won"}})], "done")
        await SagaRunner.run(agent(model, [made(patch)]), "go", store=store, run_config=QUIET)
        assert model.seen == ["{'Status': 'Won'}"]

    asyncio.run(main())


def test_two_actions_of_one_name_and_what_is_no_action_are_refused() -> None:
    @compensable("test_tools.other", undo=_forget)
    def note(title: str) -> str:
        raise NotImplementedError

    plain: Any = len
    with pytest.raises(DeclarationError, match="two actions are named 'note'"):
        saga_tools(note, globals()["note"])
    with pytest.raises(DeclarationError, match="builtin_function_or_method is no action"):
        saga_tools(plain)


def test_a_synchronous_action_runs_in_a_worker_thread_at_the_place_of_its_call(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        call: Asked = ("note", {"title": "t", "lines": [], "urgent": "no"})
        model = ScriptedModel([call, call], "done")
        result = await SagaRunner.run(agent(model, saga_tools(note)), "go", store=store, run_config=QUIET)
        items: list[Any] = [item.raw_item for item in result.new_items if item.type == "tool_call_item"]
        calls = [item.call_id for item in items]
        assert sorted(model.seen) == sorted(f"/{call_id}/test_tools.note#1" for call_id in calls)
        assert threading.get_ident() not in _threads

    asyncio.run(main())


def test_a_tool_that_only_reads_makes_no_step_and_needs_no_saga() -> None:
    async def main() -> None:
        model = ScriptedModel([("look", {"name": "x"})], "done")
        await Runner.run(agent(model, saga_tools(look)), "go", run_config=QUIET)
        assert model.seen == ["found x"]

    asyncio.run(main())


def test_an_action_under_the_users_own_tool_is_recorded(ledger: Ledger, store: str) -> None:
    @function_tool
    def take(item: str) -> str:
        """Take it, and something with it."""
        return reserve(item)["effect"] + reserve("bag")["effect"]

    async def main() -> None:
        model = ScriptedModel([("take", {"item": "a"})], RuntimeError("no answer"))
        with pytest.raises(RuntimeError):
            await SagaRunner.run(agent(model, [take]), "go", store=store, run_config=QUIET)
        assert (ledger.landed, ledger.undone) == (["a", "bag"], ["bag", "a"])

    asyncio.run(main())


def test_tools_record_in_a_plain_scope_around_the_sdks_own_runner(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        model = ScriptedModel([("charge", {"item": "a", "amount": 5}), ("reserve", {"item": "b"})], "done")
        with pytest.raises(RuntimeError):
            async with saga_scope("shop", store=store):
                await Runner.run(agent(model, saga_tools(charge, reserve)), "go", run_config=QUIET)
                assert sorted(ledger.standing) == ["a", "b"]
                raise RuntimeError
        assert ledger.standing == []

    asyncio.run(main())


def test_without_a_scope_nothing_is_called_and_the_result_says_why(ledger: Ledger) -> None:
    async def main() -> None:
        model = ScriptedModel([("reserve", {"item": "a"})], "done")
        await Runner.run(agent(model, saga_tools(reserve)), "go", run_config=QUIET)
        assert ledger.landed == []
        assert "was called outside a scope" in model.seen[0]

    asyncio.run(main())


def test_an_agent_used_as_a_tool_records_in_the_run_around_it(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        inner = agent(ScriptedModel([("charge", {"item": "inner", "amount": 9})], "paid"), saga_tools(charge))
        billing = inner.as_tool("billing", "Pays.", run_config=QUIET)
        model = ScriptedModel([("reserve", {"item": "a"})], [("billing", {"input": "pay"})], RuntimeError("no answer"))
        with pytest.raises(RuntimeError):
            await SagaRunner.run(agent(model, [*saga_tools(reserve), billing]), "go", store=store, run_config=QUIET)
        assert (ledger.landed, ledger.undone) == (["a", "inner"], ["inner", "a"])

    asyncio.run(main())


def test_a_run_inside_a_tool_of_another_one_is_a_savepoint_of_it(ledger: Ledger, store: str) -> None:
    failing = ScriptedModel([("charge", {"item": "inner", "amount": 9})], RuntimeError("no answer"))

    @function_tool
    async def try_it() -> str:
        """Try to pay."""
        try:
            await SagaRunner.run(agent(failing, saga_tools(charge)), "pay", run_config=QUIET)
        except RuntimeError:
            return "it did not work"
        return "paid"

    async def main() -> None:
        model = ScriptedModel([("reserve", {"item": "a"}), ("try_it", {})], "done")
        result = await SagaRunner.run(agent(model, [*saga_tools(reserve), try_it]), "go", store=store, run_config=QUIET)
        assert (sorted(ledger.landed), ledger.standing) == (["a", "inner"], ["a"])
        assert report_of(result).is_clean

    asyncio.run(main())


def test_a_report_lives_as_long_as_its_result_and_other_results_have_none(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        plain = await Runner.run(agent(ScriptedModel("done"), []), "go", run_config=QUIET)
        with pytest.raises(LookupError, match="SagaRunner"):
            report_of(plain)
        before = sessions()
        result = await SagaRunner.run(agent(ScriptedModel("done"), []), "go", store=store, run_config=QUIET)
        assert report_of(result).state == "committed"
        assert sessions() == before + 1
        del result
        assert sessions() == before

    asyncio.run(main())
