"""Declared actions and inverses by name: how another process finds what the log names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from saga_core.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from saga_core.declaration import Declaration
    from saga_core.inverse import Inverse

D = TypeVar("D")


class Registry(Generic[D]):
    """Names and what was declared under them in this process."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._declared: dict[str, tuple[D, str]] = {}

    def add(self, name: str, declared: D, fn: Callable[..., Any]) -> None:
        """Register; a module that is loaded again replaces its own declaration.

        Raises:
            DeclarationError: Another function has the name.
        """
        origin = f"{fn.__module__}:{fn.__qualname__}"
        taken = self._declared.get(name)
        if taken is not None and taken[1] != origin:
            raise DeclarationError(
                f"{self._what} {name!r} is declared twice: by {taken[1]} and by {origin}",
                world="nothing was called",
                next="give one of them another name: the log finds the undo by it",
            )
        self._declared[name] = (declared, origin)

    def get(self, name: str) -> D | None:
        """Return what is declared under the name."""
        found = self._declared.get(name)
        return None if found is None else found[0]


ACTIONS: Registry[Declaration] = Registry("action")
INVERSES: Registry[Inverse[Any]] = Registry("inverse")
