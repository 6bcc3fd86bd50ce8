"""Nodes and tasks that call actions."""

from __future__ import annotations

import asyncio
import inspect
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypedDict

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.func import entrypoint, task  # pyright: ignore[reportMissingTypeStubs] -- partly untyped
from langgraph.runtime import Runtime
from langgraph.types import RetryPolicy, Send

from saga_core import NoActiveSaga, StepMismatch, saga_scope
from saga_langgraph import SagaMiddleware, saga_node, saga_tools, with_saga

from .world import (
    ASKED,
    PATIENCE,
    Asked,
    Ledger,
    ScriptedModel,
    StateGraph,
    calling,
    charge,
    create_agent,
    reserve,
    slow,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class Order(TypedDict):
    items: list[str]
    item: str
    receipt: str


Change = dict[str, Any]
"""What a node returns: a part of the state."""


class Unstable(Exception):
    """Passes when the node is run again."""


AGAIN = RetryPolicy(initial_interval=0.01, jitter=False, retry_on=Unstable)

both_forms = pytest.mark.parametrize("form", ["sync", "async"])


def graph_of(*nodes: Callable[..., Any], store: str | None, retry: RetryPolicy | None = None) -> Any:
    """Return a graph of nodes in a row."""
    builder = StateGraph(Order)
    names = [node.__name__ for node in nodes]
    for name, node in zip(names, nodes, strict=True):
        builder.add_node(name, node, retry_policy=retry)
    builder.set_entry_point(names[0])
    for one, other in pairwise(names):
        builder.add_edge(one, other)
    graph = builder.compile()
    return graph if store is None else with_saga(graph, store=store)


def run(graph: Any, form: str, **state: Any) -> Any:
    return graph.invoke(state) if form == "sync" else asyncio.run(graph.ainvoke(state))


@saga_node
def keep(state: Order) -> Change:
    """Reserve the item."""
    return {"receipt": reserve(state["item"])}


@saga_node
async def pay(state: Order) -> Change:
    """Charge for the item."""
    return {"receipt": await charge(state["item"] + " paid")}


def keep_only(state: Order) -> Change:
    """Reserve the item and say nothing, so that nodes may run at once."""
    reserve(state["item"])
    return {}


def fail(state: Order) -> Change:
    raise OSError(f"no route for {state['receipt']}")


def test_a_node_keeps_its_name_its_signature_and_whether_it_is_async() -> None:
    assert (pay.__name__, pay.__doc__) == ("pay", "Charge for the item.")
    assert list(inspect.signature(pay).parameters) == ["state"]
    assert inspect.iscoroutinefunction(pay)
    assert not inspect.iscoroutinefunction(keep)


@both_forms
def test_effects_of_nodes_are_kept_with_the_run(ledger: Ledger, store: str, form: str) -> None:
    out = run(graph_of(keep, store=store), form, item="a")
    assert out["receipt"] == "a"
    assert ledger.standing == ["a"]


@both_forms
def test_effects_of_nodes_are_undone_when_a_later_node_fails(ledger: Ledger, store: str, form: str) -> None:
    nodes = (keep, fail) if form == "sync" else (keep, pay, fail)
    with pytest.raises(OSError, match="no route") as raised:
        run(graph_of(*nodes, store=store), form, item="a")
    assert ledger.undone == list(reversed(ledger.landed))
    assert len(ledger.landed) == len(nodes) - 1
    assert "rolled back" in raised.value.__notes__[-1]


def test_a_node_is_given_what_langgraph_injects(ledger: Ledger, store: str) -> None:
    seen: list[object] = []

    @saga_node
    def keep_with(state: Order, config: RunnableConfig, runtime: Runtime[None]) -> Change:
        seen.extend((config.get("tags"), runtime.execution_info is not None))
        return {"receipt": reserve(state["item"])}

    graph_of(keep_with, store=store).invoke({"item": "a"}, {"tags": ["nightly"]})
    assert seen == [["nightly"], True]
    assert ledger.standing == ["a"]


@both_forms
@pytest.mark.parametrize("scope", ["with_saga", "saga_scope"])
def test_a_node_that_is_run_again_does_not_repeat_the_effect_that_landed(
    ledger: Ledger, store: str, form: str, scope: str
) -> None:
    tries: list[str] = []

    @saga_node
    def keep_two(state: Order) -> Change:
        receipt = reserve(state["item"])
        tries.append(receipt)
        if len(tries) < 3:
            raise Unstable
        return {"receipt": receipt + reserve("b")}

    async def on_loop() -> Any:
        async with saga_scope(store=store):
            return await graph_of(keep_two, store=None, retry=AGAIN).ainvoke({"item": "a"})

    if scope == "with_saga":
        out = run(graph_of(keep_two, store=store, retry=AGAIN), form, item="a")
    elif form == "async":
        out = asyncio.run(on_loop())
    else:
        with saga_scope(store=store):
            out = graph_of(keep_two, store=None, retry=AGAIN).invoke({"item": "a"})
    assert tries == ["a", "a", "a"]
    assert out["receipt"] == "ab"
    assert ledger.landed == ["a", "b"]


def test_a_node_that_is_run_again_and_asks_for_something_else_is_refused(ledger: Ledger, store: str) -> None:
    items = iter("ab")

    @saga_node
    def keep_any(state: Order) -> Change:
        reserve(next(items))
        raise Unstable

    with pytest.raises(StepMismatch):
        graph_of(keep_any, store=store, retry=AGAIN).invoke({"item": "a"})
    assert ledger.landed == ["a"]
    assert ledger.standing == []


@both_forms
def test_the_same_node_run_at_once_for_many_items_has_an_effect_for_each(ledger: Ledger, store: str, form: str) -> None:
    def spread(state: Order) -> list[Send]:
        return [Send("keep", {"item": item}) for item in state["items"]]

    builder = StateGraph(Order)
    builder.add_node("keep", saga_node(keep_only))
    builder.set_conditional_entry_point(spread, ["keep"])
    run(with_saga(builder.compile(), store=store), form, items=["a", "a", "b"])
    assert sorted(ledger.standing) == ["a", "a", "b"]


@both_forms
def test_a_node_of_a_subgraph_belongs_to_the_run(ledger: Ledger, store: str, form: str) -> None:
    builder = StateGraph(Order)
    builder.add_node("inner", graph_of(keep, store=None))
    builder.add_node("fail", fail)
    builder.set_entry_point("inner")
    builder.add_edge("inner", "fail")
    with pytest.raises(OSError, match="no route"):
        run(with_saga(builder.compile(), store=store), form, item="a")
    assert (ledger.landed, ledger.undone) == (["a"], ["a"])


@both_forms
def test_an_agent_that_is_a_node_belongs_to_the_run(ledger: Ledger, store: str, form: str) -> None:
    def broken(state: Any) -> Any:
        raise OSError(f"no route after {len(state['messages'])} messages")

    model = ScriptedModel(calling(("charge", "a")), calling(("reserve", "b")), "done")
    agent = create_agent(model, saga_tools(charge, reserve), middleware=[SagaMiddleware()])
    builder = StateGraph(Asked)
    builder.add_node("work", agent)
    builder.add_node("broken", broken)
    builder.set_entry_point("work")
    builder.add_edge("work", "broken")
    graph = with_saga(builder.compile(), store=store)
    with pytest.raises(OSError, match="no route"):
        graph.invoke(ASKED) if form == "sync" else asyncio.run(graph.ainvoke(ASKED))
    assert (ledger.landed, ledger.undone) == (["a", "b"], ["b", "a"])


def test_a_node_that_lands_after_its_sibling_failed_is_undone(ledger: Ledger, store: str) -> None:
    @saga_node
    def order(state: Order) -> Change:
        slow(state["item"])
        return {}

    async def broken(_: Order) -> Change:
        await asyncio.to_thread(ledger.begun["a"].wait, PATIENCE)
        asyncio.get_running_loop().call_later(0.2, ledger.gates["a"].set)
        raise OSError("no route")

    builder = StateGraph(Order)
    builder.add_node("order", order)
    builder.add_node("broken", broken)
    builder.set_entry_point("order")
    builder.set_entry_point("broken")
    with pytest.raises(OSError, match="no route"):
        asyncio.run(with_saga(builder.compile(), store=store).ainvoke({"item": "a"}))
    assert (ledger.landed, ledger.undone) == (["a"], ["a"])


@both_forms
def test_a_node_without_a_saga_is_refused_and_told_the_missing_line(ledger: Ledger, form: str) -> None:
    with pytest.raises(NoActiveSaga) as raised:
        run(graph_of(keep, store=None), form, item="a")
    assert "with_saga(graph)" in raised.value.next
    assert ledger.landed == []


@both_forms
def test_tasks_of_the_functional_api_belong_to_the_run(ledger: Ledger, store: str, form: str) -> None:
    @task
    @saga_node
    def keep_one(item: str) -> str:
        return reserve(item)

    @entrypoint()
    def workflow(items: list[str]) -> list[str]:
        kept = [each.result() for each in [keep_one(item) for item in items]]
        if "bad" in kept:
            raise OSError("no route")
        return kept

    @entrypoint()
    async def aworkflow(items: list[str]) -> list[str]:
        kept = [await keep_one(item) for item in items]
        if "bad" in kept:
            raise OSError("no route")
        return kept

    plain: Any = workflow if form == "sync" else aworkflow  # pyright: ignore[reportUnknownVariableType]
    graph = with_saga(plain, store=store)

    def play(items: list[str]) -> Any:
        return graph.invoke(items) if form == "sync" else asyncio.run(graph.ainvoke(items))

    assert play(["a", "a"]) == ["a", "a"]
    with pytest.raises(OSError, match="no route"):
        play(["b", "bad"])
    assert sorted(ledger.standing) == ["a", "a"]
    assert sorted(ledger.undone) == ["b", "bad"]
