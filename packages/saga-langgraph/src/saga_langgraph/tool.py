"""LangChain tools made from actions."""

from __future__ import annotations

import functools
import inspect
import sys
import typing
from typing import TYPE_CHECKING, Any, cast

from langchain_core.tools import StructuredTool

from saga_core import Action, AsyncAction
from saga_core.errors import DeclarationError
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
    names = [action.__name__ for action in actions]
    for name in names:
        if names.count(name) > 1:
            raise DeclarationError(
                f"two tools would be named {name!r}, and the model could not tell them apart",
                world="nothing was built",
                next="rename one of the functions",
            )
    return [_tool(action) for action in actions]


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


def _tool(action: Tool) -> StructuredTool:
    if isinstance(action, AsyncAction):
        return _SagaTool.from_function(_function(action.blocking()), _function(action))
    return _SagaTool.from_function(_function(action))


def _function(action: Tool) -> Any:
    """Return the action as a function whose annotations LangChain can read without its module."""

    def function(*args: Any, **kwargs: Any) -> Any:
        return action(*args, **kwargs)

    call: Any = function
    hints = typing.get_type_hints(action, globalns=vars(sys.modules[action.__module__]), include_extras=True)
    signature = inspect.signature(action)
    functools.update_wrapper(call, action)
    del call.__wrapped__  # LangChain would look for the names in it, and an action has no globals
    call.__annotations__ = hints
    call.__signature__ = signature.replace(
        parameters=[each.replace(annotation=hints.get(each.name, Any)) for each in signature.parameters.values()]
    )
    return call
