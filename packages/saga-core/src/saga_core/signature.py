"""A function's parameters, bound and converted the way the log needs them."""

from __future__ import annotations

import types
import typing
from typing import TYPE_CHECKING, Any

import msgspec

from saga_core.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

_FREE: tuple[Any, ...] = (Any, object)
_ANYTHING: tuple[tuple[Any, ...], ...] = ((str, Any), (str, object), (Any,), (object,))
_JSON = frozenset({str, int, bool, float, dict, list, type(None)})
_EXACT = {kind: frozenset({kind}) for kind in (str, int, bool, float, dict, list)}
_MUTABLE = frozenset({dict, list})
_NONE: frozenset[type] = frozenset()


def _model(tp: Any, value: Any) -> Any:
    validate = getattr(tp, "model_validate", None)
    if validate is None:
        raise NotImplementedError(tp)
    return validate(value)


def _can_restore(annotation: Any) -> bool:
    """Tell whether a value of the annotation comes back from JSON as what it was."""
    if annotation in _FREE or isinstance(annotation, typing.TypeVar):
        return True
    try:
        found = msgspec.inspect.type_info(annotation)
    except (TypeError, NotImplementedError):
        return False
    return all(_is_known(part) for part in _parts(found))


def _parts(found: msgspec.inspect.Type) -> list[msgspec.inspect.Type]:
    parts: list[msgspec.inspect.Type] = [found]
    for name in ("item_type", "key_type", "value_type"):
        inner = getattr(found, name, None)
        if isinstance(inner, msgspec.inspect.Type):
            parts += _parts(inner)
    inner_types = getattr(found, "types", None) or getattr(found, "item_types", None) or ()
    for inner in inner_types:
        parts += _parts(inner)
    return parts


def _is_known(found: msgspec.inspect.Type) -> bool:
    return not isinstance(found, msgspec.inspect.CustomType) or hasattr(found.cls, "model_validate")


def refuse_unrunnable(fn: Any, what: str) -> None:
    """Refuse what a call does not run to one answer.

    Raises:
        DeclarationError: It is no function, or a generator.
    """
    import inspect  # noqa: PLC0415 -- only who declares something pays for it

    if not inspect.isroutine(fn):
        raise DeclarationError(
            f"{what} is put on a {type(fn).__qualname__}, not on a function",
            next="declare a function or a static method",
        )
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise DeclarationError(
            f"{what} is a generator: it has no one result to record or to derive an undo from",
            next="return the whole result, or make each part an action of its own",
        )


def refuse_unnamed(name: object, decorator: str) -> None:
    """Refuse a declaration without its registered name.

    Raises:
        DeclarationError: It has none.
    """
    if not isinstance(name, str) or not name or any(letter in "@#/" or letter.isspace() for letter in name):
        raise DeclarationError(
            f"@{decorator} needs the registered name, without blanks, '@', '#' and '/'",
            next=f'write @{decorator}("billing.charge") with a name that lasts',
        )


class Signature:
    """The parameters of one declared function.

    Attributes:
        names: The parameters' names in order.
        is_open: The function takes further arguments by name.
    """

    __slots__ = (
        "_defaults",
        "_fn",
        "_hints",
        "_kept",
        "_kept_result",
        "_known",
        "_placed",
        "_required",
        "is_open",
        "names",
        "signature",
    )

    def __init__(self, fn: Callable[..., Any], *, what: str) -> None:
        """Read the parameters.

        Raises:
            DeclarationError: A parameter cannot be recorded by name.
        """
        import inspect  # noqa: PLC0415 -- as above

        self._fn = fn
        self.signature = inspect.signature(fn)
        names: list[str] = []
        self._defaults: dict[str, Any] = {}
        self.is_open = False
        for parameter in self.signature.parameters.values():
            if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL}:
                raise DeclarationError(
                    f"{what}: parameter {parameter.name!r} has no name that a record could carry",
                    next="make it an ordinary or a keyword-only parameter",
                )
            if parameter.kind is parameter.VAR_KEYWORD:
                self.is_open = True
                continue
            names.append(parameter.name)
            if parameter.default is not parameter.empty:
                self._defaults[parameter.name] = parameter.default
        if names[:1] == ["self"]:
            raise DeclarationError(
                f"{what}: a method's 'self' cannot be recorded",
                next="declare a function or a static method that finds the object by itself",
            )
        self.names = tuple(names)
        self._known: AbstractSet[str] = frozenset(names)
        self._required = self._known - self._defaults.keys()
        self._placed = tuple(
            parameter.name
            for parameter in self.signature.parameters.values()
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        )
        self._hints: dict[str, Any] | None = None
        self._kept: dict[str, frozenset[type]] = {}
        self._kept_result = _NONE

    def hints(self) -> dict[str, Any]:
        """Return the annotations, resolved at first use."""
        if self._hints is None:
            try:
                self._hints = typing.get_type_hints(self._fn)
            except NameError:
                return {}
            self._kept = {name: _kept(annotation) - _MUTABLE for name, annotation in self._hints.items()}
            self._kept_result = _kept(self._hints.get("return", Any))
        return self._hints

    def check(self, what: str, *, hidden: tuple[str, ...] = (), result: bool = True) -> None:
        """Refuse annotations whose values could not come back from the log.

        Raises:
            DeclarationError: One of them cannot.
        """
        hints = self.hints()
        for name in self.names:
            if name not in hidden and not _can_restore(hints.get(name, Any)):
                raise DeclarationError(
                    f"{what}: values of parameter {name!r} ({hints[name]!r}) cannot be recorded as JSON",
                    next=f"take JSON, a TypedDict, a dataclass, a msgspec or a pydantic type, or hide=({name!r},)",
                )
        if result and not _can_restore(hints.get("return", Any)):
            raise DeclarationError(
                f"{what}: its result ({hints['return']!r}) cannot be restored from JSON",
                next="return JSON, a TypedDict, a dataclass, a msgspec or a pydantic type",
            )

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return all arguments by name, defaults filled in.

        Raises:
            TypeError: They do not fit, with Python's own words.
        """
        if not self.is_open and len(args) <= len(self._placed):
            given = {**dict(zip(self._placed, args, strict=False)), **kwargs} if args else kwargs
            if len(given) == len(args) + len(kwargs):
                if self._known == given.keys():
                    return given
                if self._required <= given.keys() <= self._known:
                    return {name: given[name] if name in given else self._defaults[name] for name in self.names}
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        named = dict(bound.arguments)
        if self.is_open:
            last = next(reversed(self.signature.parameters))
            named.update(named.pop(last, {}))
        return named

    def convert(self, recorded: Mapping[str, Any]) -> dict[str, Any]:
        """Return recorded arguments in the annotated types.

        Raises:
            TypeError: The recorded arguments do not fit these parameters any more.
        """
        if self._known == recorded.keys() and self.keeps(recorded):
            return dict(recorded)
        if not self.is_open and not recorded.keys() <= set(self.names):
            raise TypeError(f"no parameter for {', '.join(sorted(recorded.keys() - set(self.names)))}")
        if not recorded.keys() >= self._required:
            raise TypeError(f"nothing recorded for {', '.join(sorted(self._required - recorded.keys()))}")
        hints = self.hints()
        return {name: restore(value, hints.get(name, Any)) for name, value in recorded.items()}

    def keeps(self, recorded: Mapping[str, Any]) -> bool:
        """Tell whether each argument is text, a number, a truth value or None, and of its annotated type."""
        kept = self._kept
        for name, value in recorded.items():  # noqa: SIM110 -- each undo that is bound comes by here
            if type(value) not in kept.get(name, _NONE):
                return False
        return True

    def restore_result(self, value: Any) -> Any:
        """Return a recorded result in the annotated type."""
        if type(value) in self._kept_result:
            return value
        return restore(value, self.hints().get("return", Any))


def _kept(annotation: Any) -> frozenset[type]:
    """Return the types of which JSON's values are in the annotated type as they stand."""
    if annotation in _FREE:
        return _JSON
    kind = typing.get_origin(annotation) if typing.get_args(annotation) in _ANYTHING else annotation
    return next((kept for exact, kept in _EXACT.items() if exact is kind), _NONE)


def restore(value: Any, annotation: Any) -> Any:
    """Return a recorded value in the annotated type.

    Raises:
        TypeError: It does not fit.
    """
    if type(value) is annotation and annotation in _EXACT:
        return value
    if annotation in _FREE or isinstance(annotation, typing.TypeVar):
        return value
    if annotation is None or annotation is types.NoneType:
        return None
    try:
        return msgspec.convert(value, annotation, strict=False, dec_hook=_model)
    except msgspec.ValidationError as wrong:
        raise TypeError(str(wrong)) from None
    except TypeError:
        return value
