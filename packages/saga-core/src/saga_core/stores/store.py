"""What the engine asks of a store; `saga_core.conformance.store` holds the scenarios that prove one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from saga_core.records import Record
    from saga_core.stores.permits import Permits
    from saga_core.stores.tombstone import Tombstone


class Reading(NamedTuple):
    """A saga's history as found.

    Attributes:
        saga: The saga's id.
        records: The good records in order.
        damage: Why no action may follow from this log, in words; None for a sound one.
        settled: The saga has left the open ones; nothing acts on it any more.
        dropped: The bytes of a torn tail behind the last good record, which the next owner cuts off.
    """

    saga: str
    records: list[Record]
    damage: str | None = None
    settled: bool = False
    dropped: bytes = b""

    def damaged(self, why: str) -> Reading:
        """Return this reading of a log in whose name nothing may be done, so that nothing is cut off either."""
        return self._replace(damage=why, dropped=b"")


class Log(Protocol):
    """One saga's log in the hands of its only owner.

    `append` is called under the owner's own lock, `sync` and `durable` from any thread.
    """

    @property
    def saga(self) -> str:
        """The saga's id."""
        ...

    @property
    def store(self) -> Backend:
        """Where it lies."""
        ...

    @property
    def durable(self) -> int:
        """The position up to which every record is known to be on disk."""
        ...

    def append(self, record: Record) -> int:
        """Write a record and return the position behind it: from here it survives the death of this process.

        Raises:
            StoreError: It could not be written; the log takes no further record but a retry of the same.
        """
        ...

    def sync(self, position: int) -> None:
        """Return when everything below `position` is on disk; blocks.

        Raises:
            StoreError: That is not proven, or so much was never written.
        """
        ...

    def sync_soon(self) -> None:
        """Ask that what was written goes to disk within about ten milliseconds; never blocks, never raises."""
        ...

    def release(self) -> None:
        """Give the log up where it stands: whoever locks it next may go on. Idempotent."""
        ...

    def park(self, place: Literal["suspended", "cases"]) -> None:
        """Give the log up until somebody claims it by its name: a run that resumes it, or a person."""
        ...

    def settle(self) -> None:
        """Move the log from the open ones to the done ones and give it up."""
        ...


class Store(Protocol):
    """A place for logs, as users hold it; made by `open_store`.

    Attributes:
        url: Names the place; `open_store` takes it again.
    """

    url: str

    def close(self) -> None:
        """Give up what the store itself holds; logs in use stay usable."""
        ...


@runtime_checkable
class Backend(Store, Protocol):
    """A store as the engine uses it."""

    @property
    def permits(self) -> Permits:
        """What people and ledgers allow."""
        ...

    def create(self, saga: str) -> Log:
        """Return the empty log of a new saga, owned by the caller.

        Raises:
            StoreError: The saga has a log, or the place is missing, read-only, full or not fit for logs.
        """
        ...

    def claim(self, saga: str) -> tuple[Log, Reading] | None:
        """Take a free log over, or return None when it has an owner, is settled or is gone.

        The records are read after ownership is certain. A torn tail is not part of them; it is cut off by the first
        append. A damaged log is never handed out.

        Raises:
            LogDamaged: It is damaged.
        """
        ...

    def read(self, saga: str) -> Reading | None:
        """Return a saga's history without owning it, or None if there is none; may race with a writer."""
        ...

    def owner(self, saga: str) -> str | None:
        """Return who owns a saga's log, in words (`pid 17, for 3 s`), or None if it is free."""
        ...

    def sync_later(self, wanted: Sequence[tuple[Log, int]], done: Callable[[list[BaseException | None]], None]) -> None:
        """Call `done` once, from here or another thread, when `sync` has returned or raised for each; never blocks.

        Args:
            wanted: Logs of this store and their positions.
            done: Is given the problem of each, in their order, None where it is on disk.
        """
        ...

    def open_sagas(self) -> Iterator[str]:
        """Yield the ids of the sagas that are not settled, oldest first."""
        ...

    def due_sagas(self) -> Iterator[str]:
        """Yield those of them that have an owner or may need recovery: all that are not parked."""
        ...

    def parked_sagas(self, place: Literal["suspended", "cases"]) -> Iterator[str]:
        """Yield those of them that wait for a run to resume them, or of which only open cases are left."""
        ...

    def tidy(self) -> None:
        """Clear up what processes that are gone left behind; nothing that anybody could miss."""
        ...

    def done_sagas(self) -> Iterator[str]:
        """Yield the ids of the settled sagas, newest first."""
        ...

    def tombstone(self, saga: str) -> Tombstone | None:
        """Return what stays of a saga that was erased, or dropped when its time was over; None for any other."""
        ...

    def erased_sagas(self) -> Iterator[str]:
        """Yield the ids of the erased sagas whose tombstones are kept, newest day first."""
        ...

    def key_holder(self, key: str) -> tuple[str, int] | None:
        """Return the newest saga of a key and its generation."""
        ...

    def take_key(self, key: str, saga: str, generation: int) -> bool:
        """Bind a key to a saga whose log is on disk; False if another took that generation first. Durable at return."""
        ...
