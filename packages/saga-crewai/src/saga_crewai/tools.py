"""CrewAI tools made of actions."""

from __future__ import annotations

import importlib
import inspect
from typing import Annotated, Any

from crewai.tools import BaseTool
from crewai.tools.tool_failure import ToolFailure
from crewai.utilities.string_utils import sanitize_tool_name
from pydantic import BaseModel, BeforeValidator, Field, PlainSerializer, PrivateAttr, create_model

from saga_core import Action, AsyncAction, SagaError, current_saga
from saga_core.adapter import Described, describe, may_have_landed, words_of
from saga_core.errors import DeclarationError, OutcomeNotLogged
from saga_crewai.watch import WATCH

__all__ = ["SagaTool", "no_cache", "saga_tools"]


def no_cache(_arguments: object = None, _result: object = None) -> bool:
    """Keep a call out of CrewAI's cache: whether it is a repetition is the saga's business."""
    return False


def _path_of(action: Action[..., Any] | AsyncAction[..., Any]) -> str:
    return f"{action.__module__}:{action.__qualname__}"


def _found(action: object) -> object:
    """Return the action that a checkpoint names; anything else is left to the field's own check."""
    if not isinstance(action, str):
        return action
    module, _, name = action.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


class SagaTool(BaseTool):
    """A CrewAI tool that calls an action; made by `saga_tools`.

    Its body raises no `Exception`, because CrewAI's text protocol would run it up to six times: a call that fails
    returns a `ToolFailure`, whose text says what happened to the world and whose code is one of

    - `saga_refused`: nothing was called;
    - `saga_in_doubt`: it may have taken effect, so the same call is not to be made again;
    - `saga_not_logged`: it took effect, its record could not be written, and the run ends here;
    - `tool_failed`: it had no effect, and may be tried again.

    Attributes:
        action: The action.
    """

    action: Annotated[
        Any,
        BeforeValidator(_found),
        PlainSerializer(_path_of, return_type=str, when_used="json"),
    ] = Field(description="The saga's action that the tool calls.")

    _call: Action[..., Any] = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Take the action's synchronous form: CrewAI calls every tool in a thread without a loop."""
        super().model_post_init(context)
        action: Action[..., Any] | AsyncAction[..., Any] = self.action
        self._call = action.blocking() if isinstance(action, AsyncAction) else action

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._call(*args, **self._restored(kwargs))
        except Exception as error:  # noqa: BLE001 -- every failure is told to the model, and none runs the tool again
            watch = WATCH.get()
            if watch is not None:
                watch.tool_failed()
            return _failure(error, self._call)

    def _restored(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return arguments in the annotated types; CrewAI dumps what it has validated."""
        if all(type(value) in _SCALARS for value in kwargs.values()):
            return kwargs
        valid = self.args_schema.model_validate(kwargs)
        return {name: getattr(valid, name, value) for name, value in kwargs.items()}


_SCALARS = frozenset({str, int, bool, float, type(None)})


def saga_tools(*actions: Action[..., Any] | AsyncAction[..., Any]) -> list[SagaTool]:
    """Return one CrewAI tool for each action, named by its function and described by its docstring.

    Inside `crew_saga` each call is a step of the saga. Outside, an effectful call is refused, and the model reads why.

    Raises:
        DeclarationError: Two actions have one name, one of them is no action, or its annotations cannot be read.
    """
    tools = [_tool_of(described) for described in describe(*actions)]
    names: set[str] = set()
    for tool in tools:
        name = sanitize_tool_name(tool.name)
        if name in names:
            raise DeclarationError(
                f"two of the tools are named {name!r}: the model could not tell them apart",
                world="no tool was made",
                next="rename one of the functions; the name under which an action is registered may stay",
            )
        names.add(name)
    return tools


def _tool_of(described: Described) -> SagaTool:
    action, name, signature = described
    result = signature.return_annotation
    return SagaTool(
        name=name,
        description=action.__doc__ or f"Calls {name}.",
        args_schema=_arguments(name, signature),
        result_schema=result if isinstance(result, type) and issubclass(result, BaseModel) else None,
        cache_function=no_cache,
        action=action,
    )


def _arguments(name: str, signature: inspect.Signature) -> type[BaseModel]:
    """Return what CrewAI's own `@tool` would make of the signature."""
    fields: dict[str, Any] = {
        each.name: (each.annotation, ... if each.default is each.empty else each.default)
        for each in signature.parameters.values()
        if each.kind is not each.VAR_KEYWORD
    }
    return create_model("".join(name.split()).title(), **fields)


def _failure(error: Exception, action: Action[..., Any]) -> ToolFailure:
    """Say to the model what happened to the world."""
    words = words_of(error)
    code, is_retryable = "saga_refused", False
    if isinstance(error, OutcomeNotLogged):
        code = "saga_not_logged"
    elif may_have_landed(error):
        code = "saga_in_doubt"
    elif isinstance(error, SagaError) and _is_ours(error):
        pass
    elif current_saga() is None and action.reversibility != "read_only":
        words, code = f"{words} No saga was open: what it did is not recorded.", "saga_in_doubt"
    else:
        words, code, is_retryable = f"{words} It had no effect.", "tool_failed", True
    return ToolFailure(message=words, code=code, retryable=is_retryable, details={"error": type(error).__qualname__})


def _is_ours(error: SagaError) -> bool:
    """Tell whether the engine refused the call, rather than a connector that is a SagaError too."""
    return type(error).__module__ == SagaError.__module__
