"""What a store's author supplies so that the scenarios can be played on it."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from saga_core.stores.store import Backend

Ability: TypeAlias = Literal["processes", "power", "erasure"]
"""What a store or its harness need not have: other processes that open the same place, a loss of power that can be
played, and erased sagas."""


class Harness(Protocol):
    """A store as its users would set it up.

    A place is an empty folder of its own, which a store that keeps its records elsewhere takes for a name.

    Where the store has the ability `processes`, another process makes itself the same harness: its class stands at the
    top level of a module, and its attributes can be pickled.
    """

    @property
    def name(self) -> str:
        """The store, and the way in which it is set up, if there are several."""
        ...

    @property
    def abilities(self) -> AbstractSet[Ability]:
        """What it can do; scenarios that need more are not for it."""
        ...

    def open(self, place: Path) -> Backend:
        """Return the store of a place.

        Called again, it returns another object over the same place, as another process would have it; the same one
        where the store lives in one object.
        """
        ...

    def lose_power(self, place: Path) -> None:
        """Let everything go that is not durable, and whatever used the place with it; needs the ability `power`.

        Nothing that was opened before is touched again.
        """
        ...

    def erase(self, store: Backend, saga: str) -> None:
        """Erase a settled saga; needs the ability `erasure`."""
        ...
