"""What a framework needs to make a tool of an action, and what a tool says to a model."""

from __future__ import annotations

import inspect
import sys
import typing
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from saga_core.adapter.doubt import may_have_landed
from saga_core.engine.action import Action, AsyncAction
from saga_core.errors import DeclarationError, GateRefused, OutcomeNotLogged, SagaError

if TYPE_CHECKING:
    AnyAction: TypeAlias = Action[..., Any] | AsyncAction[..., Any]


class Described(NamedTuple):
    """An action as a model is shown it.

    Attributes:
        action: The action.
        name: The function's name, which is the tool's.
        signature: The function's parameters and result; its annotations are types, not text.
    """

    action: AnyAction
    name: str
    signature: inspect.Signature


def describe(*actions: AnyAction) -> list[Described]:
    """Return what each action's tool is made of, in the order given.

    Raises:
        DeclarationError: One of them is no action, its annotations cannot be read, or two have one name.
    """
    found: dict[str, Described] = {}
    for action in actions:
        if not isinstance(action, (Action, AsyncAction)):  # pyright: ignore[reportUnnecessaryIsInstance] -- a plain function would run unrecorded
            raise DeclarationError(
                f"a {type(action).__qualname__} is no action",
                world="no tool was made",
                next='declare the function: @compensable("billing.charge")',
            )
        name = action.__name__
        if name in found:
            raise DeclarationError(
                f"two actions are named {name!r}: the model could not tell them apart",
                world="no tool was made",
                next="rename one of the functions; the registered names may stay",
            )
        found[name] = Described(action, name, _signature(action))
    return list(found.values())


def _signature(action: AnyAction) -> inspect.Signature:
    module = sys.modules.get(action.__module__)
    try:
        hints = typing.get_type_hints(action, globalns=dict(vars(module)) if module else {}, include_extras=True)
    except NameError as unknown:
        raise DeclarationError(
            f"{action.name!r} has an annotation that cannot be read: {unknown}",
            world="no tool was made",
            next="import what the annotations name at run time, in the module that declares the action",
        ) from unknown
    plain = action.__signature__
    parameters = [each.replace(annotation=hints.get(each.name, Any)) for each in plain.parameters.values()]
    return plain.replace(parameters=parameters, return_annotation=hints.get("return", Any))


def words_of(error: Exception) -> str:
    """Return what a model is told of a call that raised: what happened to the world, and what not to do.

    How to approve a refused call is for people, and is left out.
    """
    told = str(error.args[0]) if isinstance(error, SagaError) and error.args else str(error)
    parts = [told.strip() or type(error).__qualname__]
    if isinstance(error, GateRefused):
        parts.append("Nothing was called")
    elif isinstance(error, OutcomeNotLogged):
        parts.append("It took effect; no further call is made")
    elif may_have_landed(error):
        parts.append("It may have taken effect all the same: do not call it again with the same arguments")
    elif isinstance(error, SagaError):
        parts += [error.world, error.next]
    return " ".join(f"{part.rstrip('.')}." for part in parts if part)
