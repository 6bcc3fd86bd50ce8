"""Inverses: registered, named, versioned handlers that undo, and what they are bound to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, cast

from saga_core import codec, registry
from saga_core.answers import Compensation, Pending, Probed, Undone
from saga_core.errors import DeclarationError
from saga_core.signature import Signature, refuse_unnamed, refuse_unrunnable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from saga_core.types import Co

P = ParamSpec("P")


class Inverse(Generic[P]):
    """A handler that can undo, found by name and version in every process that imports its module.

    Attributes:
        name: The registered name.
        version: The version that `bind` records.
        accepts: Older versions whose recorded arguments this handler takes too.
        keyed: A repeat under the same `current_step().key` has no second effect.
    """

    __slots__ = ("__name__", "accepts", "fn", "keyed", "name", "observe_fn", "probe_fn", "signature", "version")

    def __init__(self, name: str, fn: Callable[P, Any], *, version: int, accepts: tuple[int, ...], keyed: bool) -> None:
        self.name = name
        self.version = version
        self.accepts = accepts
        self.keyed = keyed
        self.fn = fn
        self.__name__ = getattr(fn, "__name__", name)
        self.signature = Signature(fn, what=f"inverse {name!r}")
        self.signature.check(f"inverse {name!r}", result=False)
        self.probe_fn: Callable[..., Any] | None = None
        self.observe_fn: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        return f"<inverse {self.name!r} version {self.version}>"

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Compensation:
        """Return the compensation that runs this handler with these arguments.

        Raises:
            TypeError: The arguments do not fit the handler, or are not JSON.
            ValueError: A number among them is not finite or an argument is too large.
        """
        plain = self.signature.bind(args, kwargs)
        if not (self.signature.keeps(plain) and codec.is_plain(plain)):
            plain = codec.read_back(plain, codec.freeze(plain))
            self.signature.convert(plain)
        return Compensation(self.name, self.version, plain)

    def probe(self, fn: Callable[P, Co[Probed[None]] | Probed[None]], /) -> Callable[P, object]:
        """Declare how to ask the remote whether this undo landed."""
        self.probe_fn = fn
        return fn

    def observe(self, fn: Callable[Concatenate[Pending, P], Co[Undone] | Undone], /) -> object:
        """Declare how to look again at an undo that was accepted and is not settled."""
        self.observe_fn = fn
        return fn

    def fits(self, undo: Compensation) -> str | None:
        """Return why recorded arguments cannot be given to this handler, None if they can."""
        if undo.version != self.version and undo.version not in self.accepts:
            return f"version {undo.version} was recorded; this handler is version {self.version}"
        try:
            self.signature.convert(undo.args)
        except TypeError as wrong:
            return f"the recorded arguments do not fit: {wrong}"
        return None


def inverse(
    name: str, /, *, version: int = 1, accepts: tuple[int, ...] = (), keyed: bool = False
) -> Callable[[Callable[P, Awaitable[Undone] | Undone]], Inverse[P]]:
    """Declare a handler that can undo.

    The handler returns None (undone), `AlreadyUndone`, `Pending` or `Conflict`; raising means "failed, try again": it
    is tried again with the same `current_step().key`, a bounded number of times, then a person is asked.

    Args:
        name: The registered name, the same in every process and release.
        version: Raised when the arguments' meaning changes.
        accepts: Older versions whose recorded arguments this handler takes too.
        keyed: A repeat under the same `current_step().key` has no second effect, so that an undo whose answer was lost
            in a crash may be sent again where no probe can tell.

    Raises:
        DeclarationError: The name is taken, or the arguments could not be recorded.
    """
    refuse_unnamed(name, "inverse")

    def declare(fn: Callable[P, Awaitable[Undone] | Undone]) -> Inverse[P]:
        refuse_unrunnable(fn, f"inverse {name!r}")
        if type(version) is not int:
            raise DeclarationError(f"inverse {name!r}: version= is a {type(version).__qualname__}, not an integer")
        declared: Inverse[P] = Inverse(name, fn, version=version, accepts=accepts, keyed=keyed)
        registry.INVERSES.add(name, cast("Inverse[Any]", declared), fn)
        return declared

    return declare
