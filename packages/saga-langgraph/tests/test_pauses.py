"""Runs that wait for a person, and what becomes of their effects."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl
from langgraph.types import Command, interrupt

from saga_core import saga_scope
from saga_core.errors import ScopeMisuse
from saga_langgraph import SagaMiddleware, saga_tools, with_saga

from .world import ASKED, Ledger, ScriptedModel, Turn, calling, charge, create_agent

THREAD: Any = {"configurable": {"thread_id": "order-7"}}

both_forms = pytest.mark.parametrize("form", ["sync", "async"])


def ask(question: str) -> str:
    """Ask a person."""
    return str(interrupt(question))


def agent(*turns: Turn, checkpointer: Any = None) -> Any:
    return create_agent(
        ScriptedModel(*turns), [*saga_tools(charge), ask], middleware=[SagaMiddleware()], checkpointer=checkpointer
    )


def run(graph: Any, given: Any, form: str, config: Any = THREAD) -> Any:
    return graph.invoke(given, config) if form == "sync" else asyncio.run(graph.ainvoke(given, config))


ASKING: tuple[str, dict[str, Any]] = ("ask", {"question": "ship?"})


@both_forms
def test_what_a_run_did_before_it_was_interrupted_stands_while_it_waits(ledger: Ledger, store: str, form: str) -> None:
    graph = with_saga(agent(calling(("charge", "a")), [ASKING], checkpointer=InMemorySaver()), store=store)
    out = run(graph, ASKED, form)
    assert out["__interrupt__"]
    assert ledger.standing == ["a"]


@both_forms
def test_a_resumed_run_repeats_nothing_and_keeps_all(ledger: Ledger, store: str, form: str) -> None:
    turns = (calling(("charge", "a")), [ASKING], calling(("charge", "b")), "done")
    graph = with_saga(agent(*turns, checkpointer=InMemorySaver()), store=store)
    run(graph, ASKED, form)
    out = run(graph, Command(resume="yes"), form)
    assert out["messages"][-1].content == "done"
    assert ledger.landed == ["a", "b"]
    assert ledger.undone == []


@both_forms
def test_a_run_that_fails_after_it_was_resumed_is_undone_from_its_beginning(
    ledger: Ledger, store: str, form: str
) -> None:
    turns = (calling(("charge", "a")), [ASKING], calling(("charge", "b")), OSError("gone"))
    graph = with_saga(agent(*turns, checkpointer=InMemorySaver()), store=store)
    run(graph, ASKED, form)
    with pytest.raises(OSError, match="gone"):
        run(graph, Command(resume="yes"), form)
    assert ledger.undone == ["b", "a"]


@both_forms
def test_a_thread_that_has_answered_begins_a_new_saga(ledger: Ledger, store: str, form: str) -> None:
    turns = (calling(("charge", "a")), "done", calling(("charge", "a")), OSError("gone"))
    graph = with_saga(agent(*turns, checkpointer=InMemorySaver()), store=store)
    run(graph, ASKED, form)
    with pytest.raises(OSError, match="gone"):
        run(graph, ASKED, form)
    assert ledger.landed == ["a", "a"]
    assert ledger.standing == ["a"]


@both_forms
def test_an_interrupted_run_that_nothing_can_resume_is_undone_and_says_so(
    ledger: Ledger, store: str, form: str
) -> None:
    graph = with_saga(agent(calling(("charge", "a")), [ASKING]), store=store)
    with pytest.raises((ScopeMisuse, RuntimeError)):
        run(graph, ASKED, form, {})
    assert ledger.standing == []


@both_forms
def test_a_run_interrupted_inside_a_scope_is_that_scopes_business(ledger: Ledger, store: str, form: str) -> None:
    graph = with_saga(agent(calling(("charge", "a")), [ASKING], checkpointer=InMemorySaver()))

    async def inside() -> None:
        async with saga_scope(store=store):
            await graph.ainvoke(ASKED, THREAD)
            assert ledger.standing == ["a"]
            raise OSError("no")

    with pytest.raises(OSError, match="no"):
        if form == "async":
            asyncio.run(inside())
        else:
            with saga_scope(store=store):
                graph.invoke(ASKED, THREAD)
                raise OSError("no")
    assert ledger.standing == []


class Unread(ConnectionError):
    """The checkpoints are out of reach."""


class Moody(InMemorySaver):
    """A checkpointer whose database is away when it is asked for the newest checkpoint, as long as it is."""

    is_away = False

    def get_tuple(self, config: Any) -> Any:
        if self.is_away:
            raise Unread
        return super().get_tuple(config)

    async def aget_tuple(self, config: Any) -> Any:
        return self.get_tuple(config)


@both_forms
def test_a_paused_run_waits_on_while_its_checkpoint_cannot_be_read(ledger: Ledger, store: str, form: str) -> None:
    saver = Moody()
    graph = with_saga(agent(calling(("charge", "a")), [ASKING], "done", checkpointer=saver), store=store)
    run(graph, ASKED, form)
    saver.is_away = True
    with pytest.raises(Unread):
        run(graph, Command(resume="yes"), form)
    assert ledger.standing == ["a"]
    saver.is_away = False
    assert run(graph, Command(resume="yes"), form)["messages"][-1].content == "done"
    assert (ledger.landed, ledger.undone) == (["a"], [])


@both_forms
def test_a_run_that_is_drained_waits_and_goes_on(ledger: Ledger, store: str, form: str) -> None:
    control = RunControl()

    def drain() -> str:
        """Ask the run to stop."""
        control.request_drain()
        return "asked"

    model = ScriptedModel(calling(("charge", "a")), [("drain", {})], calling(("charge", "b")), "done")
    plain = create_agent(
        model, [*saga_tools(charge), drain], middleware=[SagaMiddleware()], checkpointer=InMemorySaver()
    )
    graph = with_saga(plain, store=store)

    def go(given: Any, **options: Any) -> Any:
        if form == "sync":
            return graph.invoke(given, THREAD, **options)
        return asyncio.run(graph.ainvoke(given, THREAD, **options))

    with pytest.raises(GraphDrained):
        go(ASKED, control=control)
    assert ledger.standing == ["a"]
    assert go(None)["messages"][-1].content == "done"
    assert (ledger.landed, ledger.undone) == (["a", "b"], [])
