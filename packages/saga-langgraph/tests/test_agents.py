"""Agents made by `create_agent`, each path by which their runs end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents.middleware import AgentMiddleware, ToolCallLimitMiddleware, ToolErrorMiddleware, hook_config
from langchain_core.tools import tool
from langgraph.errors import GraphRecursionError

from saga_core import Gate, NoActiveSaga, Proposal, Refuse, StoreError, saga_scope
from saga_langgraph import SagaMiddleware, saga_tools, with_saga

from .world import (
    ASKED,
    PATIENCE,
    Ledger,
    ScriptedModel,
    Turn,
    calling,
    charge,
    create_agent,
    lossy,
    reserve,
    slow,
    wire,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

TOOLS = (charge, reserve, slow, lossy, wire)


class ModelDown(Exception):
    """Asking the model failed."""


def agent_of(store: str, *turns: Turn, middleware: Sequence[AgentMiddleware[Any, Any]] = (), **options: Any) -> Any:
    agent = create_agent(ScriptedModel(*turns), saga_tools(*TOOLS), middleware=[*middleware, SagaMiddleware()])
    return with_saga(agent, store=store, **options)


def run(agent: Any, form: str) -> Any:
    return agent.invoke(ASKED) if form == "sync" else asyncio.run(agent.ainvoke(ASKED))


def answers(out: Any) -> list[tuple[str, str]]:
    return [(message.content, message.status) for message in out["messages"] if message.type == "tool"]


def notes_of(error: BaseException) -> list[str]:
    return [note for note in getattr(error, "__notes__", ()) if "saga" in note]


both_forms = pytest.mark.parametrize("form", ["sync", "async"])


@both_forms
def test_a_run_that_answers_keeps_what_it_did(ledger: Ledger, store: str, form: str) -> None:
    out = run(agent_of(store, calling(("charge", "a")), calling(("reserve", "b")), "done"), form)
    assert ledger.standing == ["a", "b"]
    assert answers(out) == [("a", "success"), ("b", "success")]


@both_forms
def test_a_run_that_fails_is_undone_newest_first_and_its_error_comes_out_unchanged(
    ledger: Ledger, store: str, form: str
) -> None:
    error = ModelDown("no answer")
    with pytest.raises(ModelDown) as raised:
        run(agent_of(store, calling(("charge", "a")), calling(("reserve", "b")), error), form)
    assert (ledger.landed, ledger.undone) == (["a", "b"], ["b", "a"])
    assert raised.value is error
    assert error.args == ("no answer",)
    (note,) = notes_of(error)
    assert "rolled back; 2 of 2 effects undone" in note


@both_forms
def test_calls_made_at_once_are_all_undone(ledger: Ledger, store: str, form: str) -> None:
    with pytest.raises(ModelDown):
        run(agent_of(store, calling(("reserve", "a"), ("reserve", "b"), ("charge", "c")), ModelDown()), form)
    assert sorted(ledger.landed) == ["a", "b", "c"]
    assert ledger.standing == []


@both_forms
def test_a_tool_error_that_the_model_repairs_undoes_nothing(ledger: Ledger, store: str, form: str) -> None:
    @tool
    def count(item: str) -> str:
        """Count the stock."""
        raise ValueError("the stock is being counted")

    turns = (calling(("charge", "a")), calling(("count", "a")), calling(("reserve", "b")), "done")
    told = ToolErrorMiddleware(lambda error, _: str(error))
    agent = create_agent(ScriptedModel(*turns), [*saga_tools(*TOOLS), count], middleware=[told, SagaMiddleware()])
    out = run(with_saga(agent, store=store), form)
    assert ledger.standing == ["a", "b"]
    assert "being counted" in answers(out)[1][0]


@both_forms
def test_an_answer_that_was_lost_is_found_and_given_to_the_model(ledger: Ledger, store: str, form: str) -> None:
    out = run(agent_of(store, calling(("lossy", "a")), "done"), form)
    assert ledger.standing == ["a"]
    assert answers(out) == [("a", "success")]


@both_forms
def test_a_refused_call_has_no_effect_and_its_reason_reaches_the_model(ledger: Ledger, store: str, form: str) -> None:
    out = run(agent_of(store, calling(("charge", "a")), calling(("wire", "b")), "done"), form)
    assert ledger.standing == ["a"]
    ((text, status),) = answers(out)[1:]
    assert status == "error"
    assert "refused before it ran: irreversible" in text


@both_forms
def test_the_refusal_of_an_action_in_a_users_own_tool_reaches_the_model_too(
    ledger: Ledger, store: str, form: str
) -> None:
    @tool
    def settle(item: str) -> str:
        """Reserve an item and pay for it."""
        return reserve(item) + wire(item)

    turns = (calling(("settle", "a")), "done")
    out = run(
        with_saga(create_agent(ScriptedModel(*turns), [settle], middleware=[SagaMiddleware()]), store=store), form
    )
    assert ledger.standing == ["a"]
    assert "irreversible" in answers(out)[0][0]


@both_forms
def test_any_other_error_of_a_tool_passes_and_the_run_is_undone(ledger: Ledger, store: str, form: str) -> None:
    error = OSError("no route")

    @tool
    def broken(item: str) -> str:
        """Reserve an item, and break."""
        reserve(item)
        raise error

    turns = (calling(("charge", "a")), calling(("broken", "b")), "done")
    agent = create_agent(ScriptedModel(*turns), [*saga_tools(charge), broken], middleware=[SagaMiddleware()])
    with pytest.raises(OSError, match="no route") as raised:
        run(with_saga(agent, store=store), form)
    assert raised.value is error
    assert (ledger.landed, ledger.undone) == (["a", "b"], ["b", "a"])


def test_a_slow_tool_that_lands_after_the_run_has_failed_is_undone(ledger: Ledger, store: str) -> None:
    """The thread of a sync tool cannot be cancelled: the run waits for it before it unwinds."""

    @tool
    async def broken(item: str) -> str:
        """Break as soon as the other one is on its way."""
        await asyncio.to_thread(ledger.begun["a"].wait, PATIENCE)
        asyncio.get_running_loop().call_later(0.2, ledger.gates["a"].set)
        raise OSError("no route")

    turns = (calling(("slow", "a"), ("broken", "b")), "done")
    agent = create_agent(ScriptedModel(*turns), [*saga_tools(slow), broken], middleware=[SagaMiddleware()])
    with pytest.raises(OSError, match="no route") as raised:
        asyncio.run(with_saga(agent, store=store).ainvoke(ASKED))
    assert (ledger.landed, ledger.undone) == (["a"], ["a"])
    assert "rolled back" in notes_of(raised.value)[0]


def test_a_cancelled_run_is_undone_and_stays_cancelled(ledger: Ledger, store: str) -> None:
    agent = agent_of(store, calling(("charge", "a")), calling(("slow", "b")), "done")

    async def main() -> None:
        task = asyncio.create_task(agent.ainvoke(ASKED))
        assert await asyncio.to_thread(ledger.begun["b"].wait, PATIENCE)
        task.cancel()
        asyncio.get_running_loop().call_later(0.2, ledger.gates["b"].set)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ledger.standing == []

    asyncio.run(main())
    assert ledger.undone == ["b", "a"]


def test_a_run_that_takes_too_many_steps_is_undone(ledger: Ledger, store: str) -> None:
    agent = agent_of(store, calling(("reserve", "a")), calling(("reserve", "b")), calling(("reserve", "c")), "done")
    with pytest.raises(GraphRecursionError):
        agent.invoke(ASKED, {"recursion_limit": 4})
    assert ledger.landed == ["a", "b"]
    assert ledger.standing == []


class Guard(AgentMiddleware[Any, Any]):
    """Ends the agent once a tool has run."""

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:  # noqa: ARG002 -- LangChain passes both
        return {"jump_to": "end"} if any(message.type == "tool" for message in state["messages"]) else None


@both_forms
@pytest.mark.parametrize(
    "guard", [Guard(), ToolCallLimitMiddleware(run_limit=1, exit_behavior="end")], ids=["custom", "limit"]
)
@pytest.mark.parametrize(("on_guardrail", "left"), [("rollback", []), ("keep", ["a"])])
def test_a_guardrail_that_ends_the_agent_undoes_what_it_did_unless_it_is_to_be_kept(
    ledger: Ledger,
    store: str,
    form: str,
    guard: AgentMiddleware[Any, Any],
    on_guardrail: str,
    left: list[str],
) -> None:
    turns = (calling(("reserve", "a")), calling(("reserve", "b")), "done")
    run(agent_of(store, *turns, middleware=[guard], on_guardrail=on_guardrail), form)
    assert ledger.landed == ["a"]
    assert ledger.standing == left


@both_forms
def test_a_guardrail_that_raises_undoes_what_the_agent_did(ledger: Ledger, store: str, form: str) -> None:
    limit = ToolCallLimitMiddleware[Any, Any](run_limit=1, exit_behavior="error")
    with pytest.raises(Exception, match="limit"):
        run(agent_of(store, calling(("charge", "a")), calling(("reserve", "b")), "done", middleware=[limit]), form)
    assert (ledger.landed, ledger.standing) == (["a"], [])


@both_forms
def test_without_with_saga_the_first_effect_is_refused_and_names_the_missing_line(ledger: Ledger, form: str) -> None:
    agent = create_agent(
        ScriptedModel(calling(("charge", "a")), "done"), saga_tools(charge), middleware=[SagaMiddleware()]
    )
    with pytest.raises(NoActiveSaga) as raised:
        run(agent, form)
    assert "with_saga(graph)" in raised.value.next
    assert ledger.landed == []


@both_forms
def test_a_plain_scope_around_an_agent_takes_its_effects(ledger: Ledger, store: str, form: str) -> None:
    model = ScriptedModel(calling(("charge", "a")), calling(("reserve", "b")), "done")
    agent = create_agent(model, saga_tools(charge, reserve), middleware=[SagaMiddleware()])

    async def main() -> None:
        async with saga_scope(store=store):
            await agent.ainvoke(ASKED)
            assert ledger.standing == ["a", "b"]
            raise ModelDown

    def plain() -> None:
        with saga_scope(store=store):
            agent.invoke(ASKED)
            assert ledger.standing == ["a", "b"]
            raise ModelDown

    with pytest.raises(ModelDown):
        plain() if form == "sync" else asyncio.run(main())
    assert ledger.undone == ["b", "a"]


@both_forms
def test_a_run_inside_a_scope_is_a_savepoint_of_it(ledger: Ledger, store: str, form: str) -> None:
    failing = with_saga(create_agent(ScriptedModel(calling(("charge", "b")), ModelDown()), saga_tools(charge)))
    passing = with_saga(create_agent(ScriptedModel(calling(("charge", "c")), "done"), saga_tools(charge)))

    async def main() -> None:
        async with saga_scope(store=store):
            await charge("a")
            with pytest.raises(ModelDown):
                await failing.ainvoke(ASKED)
            assert ledger.standing == ["a"]
            await passing.ainvoke(ASKED)
            assert ledger.standing == ["a", "c"]
            raise OSError("no route")

    def plain() -> None:
        with saga_scope(store=store):
            charge.blocking()("a")
            with pytest.raises(ModelDown):
                failing.invoke(ASKED)
            assert ledger.standing == ["a"]
            passing.invoke(ASKED)
            assert ledger.standing == ["a", "c"]
            raise OSError("no route")

    with pytest.raises(OSError, match="no route"):
        plain() if form == "sync" else asyncio.run(main())
    assert ledger.undone == ["b", "c", "a"]


@both_forms
def test_a_store_that_cannot_be_opened_is_told_before_anything_ran(ledger: Ledger, form: str) -> None:
    model = ScriptedModel(calling(("charge", "a")), "done")
    agent = with_saga(create_agent(model, saga_tools(charge)), store="file:/proc/nowhere")
    with pytest.raises(StoreError):
        run(agent, form)
    assert model.shown == []


def test_a_gate_of_the_graph_is_asked_about_every_call(ledger: Ledger, store: str) -> None:
    def never_b(proposal: Proposal) -> Refuse | None:
        return Refuse("b is not for sale") if proposal.args["item"] == "b" else None

    agent = agent_of(store, calling(("charge", "a")), calling(("charge", "b")), "done", gate=Gate(never_b))
    out = run(agent, "sync")
    assert ledger.landed == ["a"]
    assert "b is not for sale" in answers(out)[1][0]
