"""What a request may say: checked against the parameter types of the installed stripe package, so none is made up."""

import re
import typing
from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import Any, Literal, NotRequired, Required, Union, cast, get_args, get_origin
from urllib.parse import parse_qsl

from stripe import RequestOptions

from saga_connectors.testing.stripe.failure import Failure

Values = dict[str, Any]

_OF_THE_CLIENT = frozenset(RequestOptions.__annotations__)


def decoded(form: str) -> Values:
    """Return the nested values of a form, `created[gte]=1&expand[0]=x` style."""
    values: Values = {}
    for name, value in parse_qsl(form, keep_blank_values=True):
        first, *rest = re.findall(r"[^\[\]]+|(?<=\[)(?=\])", name)
        place, key = values, first
        for inner in rest:
            place = place.setdefault(key, {})
            key = inner or str(len(place))
        place[key] = value
    return {name: _listed(value) for name, value in values.items()}


def checked(given: Values, params: type) -> Values:
    """Return the values converted to their types.

    Raises:
        Failure: A parameter is unknown, missing or of the wrong kind. Nothing was executed.
    """
    values = _fields(given, params, "")
    for name in sorted(params.__required_keys__ - _OF_THE_CLIENT):  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType, reportUnknownVariableType]
        if name not in values:
            raise _wrong(f"Missing required param: {name}.", "parameter_missing", cast("str", name))
    return values


@cache
def _hints(params: type) -> Mapping[str, Any]:
    # Two names of the package's annotations exist only for type checkers.
    names = {**vars(typing), "StripeContext": str}
    hints = typing.get_type_hints(params, localns=names, include_extras=True)
    return {name: hint for name, hint in hints.items() if name not in _OF_THE_CLIENT}


def _fields(given: Values, params: type, path: str) -> Values:
    hints = _hints(params)
    values: Values = {}
    for name, value in given.items():
        inner = f"{path}[{name}]" if path else name
        if name not in hints:
            raise _wrong(f"Received unknown parameter: {inner}", "parameter_unknown", inner)
        values[name] = _converted(value, hints[name], inner)
    return values


def _converted(value: Any, hint: Any, path: str) -> Any:
    kinds = _kinds(hint)
    if isinstance(value, dict):
        given = cast("Values", value)
        typed = [kind for kind in kinds if _is_typed(kind)]
        if typed:
            return _fields(given, typed[0], path)
        if any(get_origin(kind) is dict for kind in kinds):
            return given
        raise _wrong(f"Invalid object at {path}", None, path)
    if isinstance(value, list):
        inner = [get_args(kind)[0] for kind in kinds if get_origin(kind) is list]
        if not inner:
            raise _wrong(f"Invalid array at {path}", None, path)
        return [_converted(item, inner[0], path) for item in cast("list[Any]", value)]
    return _scalar(value, kinds, path)


def _scalar(value: str, kinds: list[Any], path: str) -> Any:
    literals = [choice for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)]
    if value in literals:
        return value
    if bool in kinds and value in ("true", "false"):
        return value == "true"
    if int in kinds:
        if re.fullmatch(r"-?\d+", value):
            return int(value)
        raise _wrong(f"Invalid integer: {value}", "parameter_invalid_integer", path)
    # The package writes a closed choice as `Literal[...] | str`; Stripe accepts only what is listed.
    if str in kinds and not literals:
        return value
    if literals:
        raise _wrong(f"Invalid {path}: must be one of {', '.join(map(str, literals))}", None, path)
    raise _wrong(f"Invalid value at {path}", None, path)


def _is_typed(kind: Any) -> bool:
    # The package takes TypedDict from typing_extensions, which typing.is_typeddict does not know.
    return hasattr(kind, "__required_keys__")


def _kinds(hint: Any) -> list[Any]:
    origin = get_origin(hint)
    if origin in (NotRequired, Required):
        return _kinds(get_args(hint)[0])
    if origin in (Union, UnionType):
        return [kind for part in get_args(hint) for kind in _kinds(part)]
    return [hint]


def _listed(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    inner = {name: _listed(item) for name, item in cast("Values", value).items()}
    return list(inner.values()) if inner and all(name.isdigit() for name in inner) else inner


def _wrong(message: str, code: str | None, param: str) -> Failure:
    return Failure(message, code=code, param=param, is_validation=True)
