"""Tools of the SDK made from actions."""

from __future__ import annotations

import inspect
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from agents import UserError, function_tool
from agents.tool_context import ToolContext

from saga_core import Action, AsyncAction, SagaError
from saga_core.adapter import Described, Session, describe, words_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from agents import FunctionTool, Tool

_CONTEXT = "_context"
"""The parameter through which the SDK hands over the call; no parameter of a tool can begin with an underscore."""


def saga_tools(*actions: Action[..., Any] | AsyncAction[..., Any]) -> list[Tool]:
    """Return one tool per action, named by its function, with the schema of its parameters and its docstring.

    A synchronous action runs in a worker thread. A call is a step of the scope that is open where the agent runs, at
    the place that the SDK's call id names: the same call run again is answered from the log. What the engine refuses is
    the tool's result, in words for the model; other errors take the SDK's way. The schema is strict where the SDK can
    make it so; a parameter such as `dict[str, Any]` leaves it open.

    Raises:
        DeclarationError: One of them is no action, or two have the same name.
    """
    return [_tool(described) for described in describe(*actions)]


def _tool(described: Described) -> FunctionTool:
    action = described.action
    wrapped = _asynchronous(action) if isinstance(action, AsyncAction) else _synchronous(action)
    placed = _with_context(wrapped, described)
    try:
        return function_tool(placed)
    except UserError:  # a strict schema lists every key; where a parameter's keys are open, there is none
        return function_tool(placed, strict_mode=False)


def _asynchronous(action: AsyncAction[..., Any]) -> Callable[..., Any]:
    async def call(_context: ToolContext[Any], *args: Any, **kwargs: Any) -> Any:
        with _body(_context):
            try:
                return await action(*args, **kwargs)
            except SagaError as refusal:
                return words_of(refusal)

    return call


def _synchronous(action: Action[..., Any]) -> Callable[..., Any]:
    def call(_context: ToolContext[Any], *args: Any, **kwargs: Any) -> Any:
        with _body(_context):
            try:
                return action(*args, **kwargs)
            except SagaError as refusal:
                return words_of(refusal)

    return call


def _with_context(call: Callable[..., Any], described: Described) -> Callable[..., Any]:
    """Give the function the action's name and parameters, behind the one that the SDK fills in."""
    action, name, signature = described
    context = inspect.Parameter(_CONTEXT, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=ToolContext[Any])
    call.__name__ = name
    call.__qualname__ = action.__qualname__
    call.__module__ = action.__module__
    call.__doc__ = action.__doc__
    call.__annotations__ = {_CONTEXT: ToolContext[Any]} | {
        each.name: each.annotation for each in signature.parameters.values()
    }
    shown = signature.replace(parameters=[context, *signature.parameters.values()])
    call.__signature__ = shown  # pyright: ignore[reportFunctionMemberAccess] -- what inspect.signature looks for
    return call


def _body(context: ToolContext[Any]) -> AbstractContextManager[object]:
    return Session.body_here(context.tool_call_id) or nullcontext()
