"""LangChain tools made from actions."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, cast

from langchain_core.tools import StructuredTool

from saga_core import Action, AsyncAction
from saga_core.adapter import Described, describe
from saga_langgraph.answer import REFUSALS, answer
from saga_langgraph.body import body

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    Tool = Action[..., Any] | AsyncAction[..., Any]


def saga_tools(*actions: Tool) -> list[StructuredTool]:
    """Return the actions as tools; name, description and arguments are the functions'.

    A sync action serves `invoke` and, on a thread, `ainvoke`; an async one both. A call that was refused is answered
    with the reason, as a tool error that the model reads, and the run goes on. Any other error passes.

    Raises:
        DeclarationError: Two of them have one name.
        ValueError: One of them has no docstring to describe it.
    """
    return [_tool(described) for described in describe(*actions)]


class _SagaTool(StructuredTool):
    """Enters the run's saga by itself, under SagaMiddleware or without it."""

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        call = _call_of(input)
        try:
            with body(config, call.get("id")):
                return super().invoke(input, config, **kwargs)
        except REFUSALS as error:
            if call:
                return answer(call, error)
            raise

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        call = _call_of(input)
        try:
            with body(config, call.get("id")):
                return await super().ainvoke(input, config, **kwargs)
        except REFUSALS as error:
            if call:
                return answer(call, error)
            raise


def _call_of(given: Any) -> dict[str, Any]:
    call = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    return call if call.get("type") == "tool_call" else {}


def _tool(described: Described) -> StructuredTool:
    action = described.action
    if isinstance(action, AsyncAction):
        return _SagaTool.from_function(_function(action.blocking(), described), _function(action, described))
    return _SagaTool.from_function(_function(action, described))


def _function(action: Tool, described: Described) -> Any:
    """Return the action as a function whose annotations LangChain can read without its module."""

    def function(*args: Any, **kwargs: Any) -> Any:
        return action(*args, **kwargs)

    call: Any = function
    signature = described.signature
    functools.update_wrapper(call, action)
    del call.__wrapped__  # LangChain would look for the names in it, and an action has no globals
    call.__annotations__ = {each.name: each.annotation for each in signature.parameters.values()}
    call.__signature__ = signature
    return call
