"""Every way to run a graph, and every way to leave a stream."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import RunnableLambda

from saga_core.errors import ScopeMisuse
from saga_langgraph import SagaMiddleware, saga_tools, with_saga

from .world import (
    ASKED,
    PATIENCE,
    Asked,
    Ledger,
    ScriptedModel,
    StateGraph,
    Turn,
    calling,
    charge,
    create_agent,
    reserve,
    slow,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_core.runnables import RunnableConfig


class ModelDown(Exception):
    """Asking the model failed."""


def plain_agent(*turns: Turn) -> Any:
    return create_agent(ScriptedModel(*turns), saga_tools(charge, reserve, slow), middleware=[SagaMiddleware()])


def agent_of(store: str, *turns: Turn) -> Any:
    return with_saga(plain_agent(*turns), store=store)


def endless(*_: object) -> list[Turn]:
    return [calling(("charge", f"item {number}")) for number in range(20)]


async def _settled(ledger: Ledger) -> None:
    """Wait until what a dropped generator left behind is undone, in its loop's own time."""
    async with asyncio.timeout(PATIENCE):
        while not ledger.landed or ledger.standing:
            gc.collect()
            await asyncio.sleep(0.01)


def test_the_graph_keeps_its_type_and_the_other_one_is_left_alone(store: str) -> None:
    graph = plain_agent("done")
    wrapped = with_saga(graph, store=store)
    assert isinstance(wrapped, type(graph))
    assert wrapped.__class__ is not graph.__class__
    assert str(wrapped.__class__) == str(graph.__class__)
    assert wrapped.get_graph().to_json() == graph.get_graph().to_json()


def test_a_copy_made_by_with_config_is_wrapped_too(ledger: Ledger, store: str) -> None:
    agent = agent_of(store, calling(("charge", "a")), ModelDown()).with_config(tags=["nightly"])
    with pytest.raises(ModelDown):
        agent.invoke(ASKED)
    assert (ledger.landed, ledger.standing) == (["a"], [])


def test_a_graph_that_is_not_compiled_is_refused() -> None:
    builder = StateGraph(Asked)
    with pytest.raises(TypeError, match=r"call \.compile\(\) first"):
        with_saga(builder)


@pytest.mark.parametrize("mode", ["values", "updates", "messages", "custom", "debug", ["updates", "messages"]], ids=str)
def test_a_stream_that_fails_is_undone_in_every_mode(ledger: Ledger, store: str, mode: Any) -> None:
    with pytest.raises(ModelDown):
        list(agent_of(store, calling(("charge", "a")), ModelDown()).stream(ASKED, stream_mode=mode))
    assert (ledger.landed, ledger.standing) == (["a"], [])


def test_a_stream_that_is_read_to_its_end_is_kept(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        async for _ in agent_of(store, calling(("charge", "b")), "done").astream(ASKED):
            pass

    list(agent_of(store, calling(("charge", "a")), "done").stream(ASKED))
    asyncio.run(main())
    assert ledger.standing == ["a", "b"]


def test_a_stream_that_is_closed_is_undone_when_close_returns(ledger: Ledger, store: str) -> None:
    stream = agent_of(store, *endless()).stream(ASKED)
    next(chunk for chunk in stream if "tools" in chunk)
    assert ledger.standing == ["item 0"]
    stream.close()
    assert ledger.standing == []


def test_a_stream_that_is_dropped_is_undone(ledger: Ledger, store: str) -> None:
    for chunk in agent_of(store, *endless()).stream(ASKED):
        if "tools" in chunk:
            break
    gc.collect()
    assert (ledger.landed, ledger.standing) == (["item 0"], [])


def test_an_async_stream_that_is_closed_is_undone_when_aclose_returns(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        stream = agent_of(store, *endless()).astream(ASKED)
        async for chunk in stream:
            if "tools" in chunk:
                break
        assert ledger.standing == ["item 0"]
        await stream.aclose()
        assert ledger.standing == []

    asyncio.run(main())


def test_an_async_stream_that_is_dropped_is_undone(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        async for chunk in agent_of(store, *endless()).astream(ASKED):
            if "tools" in chunk:
                break
        await _settled(ledger)

    asyncio.run(main())
    assert ledger.standing == []


def test_an_async_stream_that_its_loop_outlives_not_is_undone(ledger: Ledger, store: str) -> None:
    kept: list[Any] = []

    async def main() -> None:
        kept.append(agent_of(store, *endless()).astream(ASKED))
        async for chunk in kept[0]:
            if "tools" in chunk:
                return

    asyncio.run(main())
    assert (ledger.landed, ledger.standing) == (["item 0"], [])


def test_a_stream_whose_steps_run_in_different_tasks_is_one_saga(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        stream = agent_of(store, calling(("charge", "a")), calling(("reserve", "b")), ModelDown()).astream(ASKED)
        with pytest.raises(ModelDown):
            while True:
                await asyncio.create_task(anext(stream))

    asyncio.run(main())
    assert (ledger.landed, ledger.undone) == (["a", "b"], ["b", "a"])


def test_a_stream_that_another_thread_reads_is_one_saga(ledger: Ledger, store: str) -> None:
    stream = agent_of(store, calling(("charge", "a")), calling(("reserve", "b")), ModelDown()).stream(ASKED)
    raised: list[BaseException] = []

    def read() -> None:
        try:
            list(stream)
        except ModelDown as error:
            raised.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    thread.join(PATIENCE)
    assert len(raised) == 1
    assert (ledger.landed, ledger.undone) == (["a", "b"], ["b", "a"])


def test_the_events_of_a_run_are_streamed_and_its_error_undoes_it(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        agent = agent_of(store, calling(("charge", "a")), ModelDown())
        with pytest.raises(ModelDown):
            async for _ in agent.astream_events(ASKED, version="v2"):
                pass

    asyncio.run(main())
    assert (ledger.landed, ledger.standing) == (["a"], [])


def test_events_that_nobody_listens_to_any_more_undo_the_run(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        events = agent_of(store, *endless()).astream_events(ASKED, version="v2")
        async for event in events:
            if event["event"] == "on_tool_end":
                break
        await events.aclose()
        await _settled(ledger)

    asyncio.run(main())
    assert ledger.standing == []


@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
def test_a_typed_event_stream_keeps_a_run_that_answers_and_undoes_one_that_fails(ledger: Ledger, store: str) -> None:
    run = agent_of(store, calling(("charge", "a")), "done").stream_events(ASKED, version="v3")
    assert run.output["messages"][-1].content == "done"
    run = agent_of(store, calling(("charge", "b")), ModelDown()).stream_events(ASKED, version="v3")
    with pytest.raises(ModelDown):
        _ = run.output
    assert (ledger.landed, ledger.standing) == (["a", "b"], ["a"])


@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
def test_a_typed_event_stream_that_is_left_is_undone(ledger: Ledger, store: str) -> None:
    with agent_of(store, *endless()).stream_events(ASKED, version="v3") as run:
        for _ in run.values:
            if ledger.landed:
                break
    assert ledger.landed
    assert ledger.standing == []


@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
def test_a_typed_event_stream_that_is_dropped_is_undone(ledger: Ledger, store: str) -> None:
    run = agent_of(store, *endless()).stream_events(ASKED, version="v3")
    for _ in run.values:
        if ledger.landed:
            break
    del run  # it is part of a cycle: what the collector finds is undone in the background
    asyncio.run(_settled(ledger))
    assert ledger.landed


def by_item(store: str) -> Any:
    """A graph that charges for what it is asked, and fails if that is the item `bad`."""

    async def pay(state: dict[str, Any], config: RunnableConfig) -> dict[str, Any]:
        await saga_tools(charge)[0].ainvoke({"item": state["item"]}, config)
        if state["item"] == "bad":
            raise ModelDown
        return {}

    def pay_plainly(state: dict[str, Any], config: RunnableConfig) -> dict[str, Any]:
        saga_tools(reserve)[0].invoke({"item": state["item"]}, config)
        if state["item"] == "bad":
            raise ModelDown
        return {}

    builder = StateGraph(dict)
    builder.add_node("pay", RunnableLambda(pay_plainly, pay))
    builder.set_entry_point("pay")
    return with_saga(builder.compile(), store=store)


@pytest.mark.parametrize("form", ["sync", "async"])
def test_of_a_batch_the_run_that_fails_is_undone_and_the_others_are_kept(ledger: Ledger, store: str, form: str) -> None:
    given = [{"item": "a"}, {"item": "bad"}, {"item": "b"}]
    graph = by_item(store)
    if form == "sync":
        ended = graph.batch(given, return_exceptions=True)
    else:
        ended = asyncio.run(graph.abatch(given, return_exceptions=True))
    assert isinstance(ended[1], ModelDown)
    assert sorted(ledger.landed) == ["a", "b", "bad"]
    assert sorted(ledger.standing) == ["a", "b"]


@pytest.mark.parametrize("form", ["sync", "async"])
def test_a_graph_inside_a_chain_is_undone_by_its_own_error_and_kept_against_the_chains(
    ledger: Ledger, store: str, form: str
) -> None:
    def broken(_: object) -> object:
        raise OSError("no route")

    def play(chain: Any) -> None:
        chain.invoke({}) if form == "sync" else asyncio.run(chain.ainvoke({}))

    asked = RunnableLambda[Any, Any](lambda _: ASKED)
    with pytest.raises(ModelDown):
        play(asked | agent_of(store, calling(("charge", "a")), ModelDown()))
    assert ledger.standing == []
    with pytest.raises(OSError, match="no route"):
        play(asked | agent_of(store, calling(("charge", "b")), "done") | RunnableLambda(broken))
    assert ledger.standing == ["b"]


def test_a_run_inside_a_running_loop_is_undone(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        with pytest.raises(ModelDown):
            agent_of(store, calling(("charge", "a")), calling(("reserve", "b")), ModelDown()).invoke(ASKED)

    asyncio.run(main())
    assert (ledger.landed, ledger.undone) == (["a", "b"], ["b", "a"])


def test_a_graph_that_is_wrapped_twice_is_one_saga(ledger: Ledger, store: str) -> None:
    agent = with_saga(with_saga(plain_agent(calling(("charge", "a")), ModelDown())), store=store)
    with pytest.raises(ModelDown):
        agent.invoke(ASKED)
    assert ledger.lines()[1:] == [["undo", "a", ledger.lines()[1][2]]]


class Tracer(BaseCallbackHandler):
    """Counts the beginnings of runs, and remembers how the outermost ended."""

    def __init__(self) -> None:
        self.begun = 0
        self.errors: list[BaseException] = []

    def on_chain_start(self, *_: Any, **__: Any) -> None:
        self.begun += 1

    def on_chain_error(self, error: BaseException, *, parent_run_id: Any = None, **_: Any) -> None:
        if parent_run_id is None:
            self.errors.append(error)


def test_the_users_own_callbacks_hear_what_they_heard_before(ledger: Ledger, store: str) -> None:
    def heard(wrap: Callable[[Any], Any]) -> tuple[int, int]:
        tracers = Tracer(), Tracer()
        agent = wrap(plain_agent("hello", ModelDown())).with_config(callbacks=[tracers[0]])
        agent.invoke(ASKED, {"callbacks": [tracers[1]]})
        with pytest.raises(ModelDown) as raised:
            agent.invoke(ASKED, {"callbacks": [tracers[1]]})
        assert [tracer.errors for tracer in tracers] == [[raised.value], [raised.value]]
        return tracers[0].begun, tracers[1].begun

    assert heard(lambda graph: with_saga(graph, store=store)) == heard(lambda graph: graph)


@pytest.mark.parametrize("form", ["sync", "async"])
def test_an_agent_that_a_tool_runs_belongs_to_the_run_around_it(ledger: Ledger, store: str, form: str) -> None:
    inner = with_saga(plain_agent(calling(("reserve", "b")), "inner done"))

    def delegate(item: str) -> str:
        """Have somebody else see to it."""
        inner.invoke(ASKED)
        return item

    async def adelegate(item: str) -> str:
        """Have somebody else see to it."""
        await inner.ainvoke(ASKED)
        return item

    adelegate.__name__ = "delegate"
    model = ScriptedModel(calling(("charge", "a")), calling(("delegate", "b")), ModelDown())
    tools = [*saga_tools(charge), delegate if form == "sync" else adelegate]
    outer = with_saga(create_agent(model, tools, middleware=[SagaMiddleware()]), store=store)
    with pytest.raises(ModelDown):
        outer.invoke(ASKED) if form == "sync" else asyncio.run(outer.ainvoke(ASKED))
    assert (ledger.landed, ledger.undone) == (["a", "b"], ["b", "a"])


def test_an_inner_graph_with_terms_of_its_own_is_refused(ledger: Ledger, store: str) -> None:
    inner = with_saga(plain_agent(calling(("reserve", "b")), "done"), key="mine")

    def delegate(item: str) -> str:
        """Have somebody else see to it."""
        return str(inner.invoke(ASKED)) + item

    model = ScriptedModel(calling(("delegate", "b")), "done")
    with pytest.raises(ScopeMisuse, match="inside another one's run"):
        with_saga(create_agent(model, [delegate]), store=store).invoke(ASKED)
    assert ledger.landed == []
