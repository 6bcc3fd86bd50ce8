"""LangGraph behind this package, as a user would set it up, for the scenarios that every adapter must pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import ToolErrorMiddleware
from langgraph.prebuilt import ToolNode, tools_condition

from saga_core.conformance.adapter import Form, Played, Script
from saga_langgraph import SagaMiddleware, saga_tools, with_saga

from .world import ASKED, Asked, ScriptedModel, StateGraph, Turn, create_agent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import BaseMessage

    from saga_core import Action, AsyncAction, Store

    Tools = Sequence[Action[..., Any] | AsyncAction[..., Any]]


class Agents:
    """`create_agent` with the middleware, whose tools' errors the model is told."""

    name = "langgraph, create_agent"
    forms = frozenset[Form]({"sync", "async", "stream"})

    def play(self, script: Script, actions: Tools, store: Store | str | None, key: str | None) -> Played:
        return _played(with_saga(self.graph(script, actions), store=store, key=key).invoke(ASKED))

    async def play_async(self, script: Script, actions: Tools, store: Store | str | None, key: str | None) -> Played:
        return _played(await with_saga(self.graph(script, actions), store=store, key=key).ainvoke(ASKED))

    async def break_off(self, script: Script, actions: Tools, store: Store | str | None, key: str | None) -> None:
        async for chunk in with_saga(self.graph(script, actions), store=store, key=key).astream(ASKED):
            if "tools" in chunk:
                break

    def graph(self, script: Script, actions: Tools) -> Any:
        told = ToolErrorMiddleware(lambda error, _: str(error))
        return create_agent(_model(script), saga_tools(*actions), middleware=[told, SagaMiddleware()])


class Nodes(Agents):
    """A graph by hand: the tools in a ToolNode, without any middleware."""

    name = "langgraph, ToolNode"

    def graph(self, script: Script, actions: Tools) -> Any:
        model = _model(script)

        def ask(state: Asked) -> dict[str, Any]:
            return {"messages": [model.invoke(state["messages"])]}

        builder = StateGraph(Asked)
        builder.add_node("model", ask)
        builder.add_node("tools", ToolNode(saga_tools(*actions), handle_tool_errors=str))
        builder.set_entry_point("model")
        builder.add_conditional_edges("model", tools_condition)
        builder.add_edge("tools", "model")
        return builder.compile()


def _model(script: Script) -> ScriptedModel:
    def turn(given: Any) -> Turn:
        if isinstance(given, (str, BaseException)):
            return given
        return [(call.tool, dict(call.args)) for call in given]

    return ScriptedModel(*map(turn, script.turns))


def _played(out: Any) -> Played:
    messages: list[BaseMessage] = out["messages"]
    return Played(str(messages[-1].content), [str(each.content) for each in messages if each.type == "tool"])
