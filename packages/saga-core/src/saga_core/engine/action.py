"""Actions: functions declared with their reversibility, recorded when they are called."""

from __future__ import annotations

import copy
import inspect
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, Protocol, Self, TypeVar, overload

from saga_core import registry
from saga_core.declaration import LANDS_WITHIN, Attempt, Call, Declaration
from saga_core.engine.io import ASYNC, SYNC, drive, on_loop_thread
from saga_core.engine.saga import Saga, place
from saga_core.engine.step import run_step
from saga_core.errors import DeclarationError, WrongThread
from saga_core.signature import refuse_unnamed

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from datetime import datetime

    from saga_core.answers import Compensation, Probed, Receipt
    from saga_core.types import Co, Money, NoEffect, Reversibility, Tier

_HELD_OPTIONS = frozenset({"version", "not_landed", "lands_within", "replay", "identity", "money", "hide"})

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")


class _Declared(Generic[P, T]):
    """What actions of both kinds have."""

    def __init__(self, declaration: Declaration, fn: Callable[..., Any]) -> None:
        self._declaration = declaration
        self._fn = fn
        self._label: str | None = None
        self.__name__ = fn.__name__
        self.__qualname__ = fn.__qualname__
        self.__module__ = fn.__module__
        self.__doc__ = fn.__doc__
        self.__annotations__ = fn.__annotations__
        self.__signature__ = declaration.signature.signature

    def __repr__(self) -> str:
        return f"<action {self.name!r} version {self.version}, {self.reversibility}>"

    @property
    def name(self) -> str:
        """The registered name."""
        return self._declaration.name

    @property
    def version(self) -> int:
        """The declared version."""
        return self._declaration.version

    @property
    def reversibility(self) -> Reversibility:
        """The declared class."""
        return self._declaration.reversibility

    def undo(self, fn: Callable[[Call[T]], Compensation], /) -> Callable[[Call[T]], Compensation]:
        """Declare how the undo follows from the recorded call: a pure function that returns `inverse.bind(...)`."""
        self._declaration.set_undo(fn)
        return fn

    @overload
    def probe(self: _Declared[P, Receipt], fn: Callable[[Attempt], Co[Probed[Any]] | Probed[Any]], /) -> object: ...
    @overload
    def probe(self, fn: Callable[[Attempt], Co[Probed[T]] | Probed[T]], /) -> object: ...
    def probe(self, fn: Callable[[Attempt], Any], /) -> object:
        """Declare how to ask the remote whether an attempt landed."""
        self._declaration.probe = fn
        return fn

    def capture(self, fn: Callable[[Attempt], Co[S] | S], /) -> object:
        """Declare what is read before the effect; what it raises reaches the caller, and nothing is called."""
        self._declaration.set_capture(fn)
        return fn

    def prepare(self, fn: Callable[[Mapping[str, Any]], Co[Mapping[str, Any]] | Mapping[str, Any]], /) -> object:
        """Declare how missing arguments are read before the gate, so that it and the log see them explicitly."""
        self._declaration.set_prepare(fn)
        return fn

    def at(self, position: str, /) -> Self:
        """Return the same action with a named position: the step's identity in loops and parallel branches."""
        if not isinstance(position, str):  # pyright: ignore[reportUnnecessaryIsInstance] -- it goes into the log
            raise TypeError(f"a position is text, not a {type(position).__qualname__}")
        placed = copy.copy(self)
        placed._label = position  # noqa: SLF001 -- a copy of its own class
        return placed


class Action(_Declared[P, T]):
    """A synchronous action; called like the function that it declares."""

    @overload
    def __call__(self, saga: Saga, /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Record the call, run it, record its outcome and return its result."""
        if self._declaration.reversibility == "read_only":
            return self._plainly(_without_saga(args), kwargs)
        if on_loop_thread() and not self._declaration.hold:
            self._refuse_loop(args)
        return drive(run_step(SYNC, self._declaration, self._fn, self._label, args, kwargs))

    def _refuse_loop(self, args: tuple[Any, ...]) -> None:
        node, _ = place(self._declaration, args)
        if node is not None:
            raise WrongThread(
                f"{self.name!r} is synchronous and was called on an event loop's own thread, which it would block",
                saga_id=node.session.saga_id,
                world="nothing was called",
                next=f"write `await asyncio.to_thread({self.__name__}, ...)`, or declare an `async def`",
            )

    def _plainly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function without a record; an asynchronous one, taken by `blocking`, on the private loop."""
        if inspect.iscoroutinefunction(self._fn):
            return drive(SYNC.ask(self._fn, *args, **kwargs))
        return self._fn(*args, **kwargs)


class AsyncAction(_Declared[P, T]):
    """An asynchronous action; awaited like the function that it declares."""

    @overload
    def __call__(self, saga: Saga, /, *args: P.args, **kwargs: P.kwargs) -> Co[T]: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Co[T]: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return a coroutine that records the call, runs it, records its outcome and returns its result."""
        if self._declaration.reversibility == "read_only":
            return self._fn(*_without_saga(args), **kwargs)
        return run_step(ASYNC, self._declaration, self._fn, self._label, args, kwargs)

    def blocking(self) -> Action[P, T]:
        """Return the same declaration for synchronous callers; the effect runs on a private event loop."""
        return Action(self._declaration, self._fn)


def _without_saga(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return args[1:] if args and isinstance(args[0], Saga) else args


class _Declare(Protocol):
    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, T]], /) -> AsyncAction[P, T]: ...  # pyright: ignore[reportOverlappingOverload] -- a coroutine function is a callable too
    @overload
    def __call__(self, fn: Callable[P, T], /) -> Action[P, T]: ...


class _DeclareHeld(Protocol):
    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, object]], /) -> AsyncAction[P, Receipt]: ...  # pyright: ignore[reportOverlappingOverload] -- a coroutine function is a callable too
    @overload
    def __call__(self, fn: Callable[P, object], /) -> Action[P, Receipt]: ...


def _declare(name: str, reversibility: Reversibility, options: dict[str, Any]) -> Any:
    refuse_unnamed(name, reversibility)

    def declare(fn: Callable[..., Any]) -> Any:
        plain = fn.__func__ if isinstance(fn, staticmethod) else fn
        declaration = Declaration(name, plain, reversibility, **options)
        registry.ACTIONS.add(name, declaration, plain)
        if inspect.iscoroutinefunction(plain):
            return AsyncAction[..., Any](declaration, plain)
        return Action[..., Any](declaration, plain)

    return declare


def compensable(
    name: str,
    /,
    *,
    version: int = 1,
    undo: Callable[[Call[Any]], Compensation] | None = None,
    not_landed: NoEffect = (),
    lands_within: timedelta = LANDS_WITHIN,
    undo_within: timedelta | Callable[[Call[Any]], datetime | None] | None = None,
    resource: Callable[[Attempt], str] | None = None,
    keyed_undo: Callable[[Attempt], Compensation] | None = None,
    replay: bool = False,
    identity: tuple[str, ...] | None = None,
    hide: tuple[str, ...] = (),
    money: Money | None = None,
    timeout: timedelta | None = None,
    tier: Tier = "power",
    outside: Literal["refuse", "allow"] = "refuse",
) -> _Declare:
    """Declare an action whose undo leaves an honest trace, as a refund does.

    Args:
        name: The registered name, the same in every process and release.
        version: Raised when the arguments' meaning changes.
        undo: Derives the compensation from the recorded call; `@action.undo` is the typed place.
        not_landed: Errors of the effect that prove that nothing landed: types, or a predicate.
        lands_within: How long after the last possible send the effect may still land; a probe's "not landed" counts
            only after that.
        undo_within: How long the undo is possible, or a function that says until when.
        resource: Names what the effect changes; steps of one resource wait for each other when they are undone.
        keyed_undo: An undo that needs no result and is harmless where nothing landed; used where no probe can tell.
        replay: A resumed saga sends a step in doubt again under the same key.
        identity: The arguments that make two calls the same; default all.
        hide: Arguments that are kept out of the log.
        money: The paths of the amount, in minor units, and of the currency (or its code) in the arguments.
        timeout: How long the effect may take towards its caller.
        tier: `power`: the intent is on disk before the effect starts; `process`: it survives the death of the process.
        outside: What a call outside a scope does: it is refused, or runs unrecorded.

    Raises:
        DeclarationError: The function cannot be declared like this.
    """
    return _declare(
        name,
        "compensable",
        {
            "version": version,
            "undo": undo,
            "not_landed": not_landed,
            "lands_within": lands_within,
            "undo_within": undo_within,
            "resource": resource,
            "keyed_undo": keyed_undo,
            "replay": replay,
            "identity": identity,
            "hide": hide,
            "money": money,
            "timeout": timeout,
            "tier": tier,
            "outside": outside,
        },
    )


def reversible(
    name: str,
    /,
    *,
    version: int = 1,
    undo: Callable[[Call[Any]], Compensation] | None = None,
    not_landed: NoEffect = (),
    lands_within: timedelta = LANDS_WITHIN,
    undo_within: timedelta | Callable[[Call[Any]], datetime | None] | None = None,
    resource: Callable[[Attempt], str] | None = None,
    keyed_undo: Callable[[Attempt], Compensation] | None = None,
    replay: bool = False,
    identity: tuple[str, ...] | None = None,
    hide: tuple[str, ...] = (),
    money: Money | None = None,
    timeout: timedelta | None = None,
    tier: Tier = "power",
    outside: Literal["refuse", "allow"] = "refuse",
) -> _Declare:
    """Declare an action whose undo restores exactly what its capture read before the effect.

    The arguments are those of `compensable`; a capture is required (`@action.capture`).

    Raises:
        DeclarationError: The function cannot be declared like this.
    """
    return _declare(
        name,
        "reversible",
        {
            "version": version,
            "undo": undo,
            "not_landed": not_landed,
            "lands_within": lands_within,
            "undo_within": undo_within,
            "resource": resource,
            "keyed_undo": keyed_undo,
            "replay": replay,
            "identity": identity,
            "hide": hide,
            "money": money,
            "timeout": timeout,
            "tier": tier,
            "outside": outside,
        },
    )


@overload
def irreversible(
    name: str,
    /,
    *,
    hold: Literal[True],
    version: int = 1,
    not_landed: NoEffect = (),
    lands_within: timedelta = LANDS_WITHIN,
    replay: bool = False,
    identity: tuple[str, ...] | None = None,
    money: Money | None = None,
) -> _DeclareHeld: ...
@overload
def irreversible(
    name: str,
    /,
    *,
    hold: Literal[False] = False,
    version: int = 1,
    not_landed: NoEffect = (),
    money: Money | None = None,
    timeout: timedelta | None = None,
) -> _Declare: ...
def irreversible(name: str, /, *, hold: bool = False, **options: Any) -> Any:
    """Declare an action that cannot be undone: the gate refuses it unless a person approves.

    Args:
        name: The registered name.
        hold: Stage the call and return a `Receipt`; the function is run from the recorded arguments once the saga is
            committed, in order, by whichever process ends it.
        **options: As for `compensable`. Of a held action, `replay` says that the remote knows the key of
            `current_step()`, so that an effect in doubt may be sent again; without it and without a probe such an
            effect is a case.

    Raises:
        DeclarationError: The function cannot be declared like this.
    """
    wrong = sorted(options.keys() - _HELD_OPTIONS) if hold else []
    if wrong:
        raise DeclarationError(
            f"action {name!r}: {wrong[0]}= does not go with hold=True",
            next=f"a held action takes {', '.join(sorted(_HELD_OPTIONS))}",
        )
    return _declare(name, "irreversible", {"hold": hold, **options})


def read_only(name: str, /) -> _Declare:
    """Declare an action that changes nothing: it is called as it is, and makes no step."""
    return _declare(name, "read_only", {})
