"""A store that is another one, call for call: what a fault changes one call of."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from saga_core.conformance.store import Ability, Harness
    from saga_core.records import Record
    from saga_core.stores.permits import Permits
    from saga_core.stores.store import Backend, Log, Reading
    from saga_core.stores.tombstone import Tombstone


class WrappedLog:
    """A log of a wrapped store."""

    def __init__(self, store: Wrapped, inner: Log) -> None:
        self.store = store
        self.inner = inner
        self.saga = inner.saga

    @property
    def durable(self) -> int:
        return self.inner.durable

    def append(self, record: Record) -> int:
        return self.inner.append(record)

    def sync(self, position: int) -> None:
        self.inner.sync(position)

    def sync_soon(self) -> None:
        self.inner.sync_soon()

    def release(self) -> None:
        self.inner.release()

    def park(self, place: Literal["suspended", "cases"]) -> None:
        self.inner.park(place)

    def settle(self) -> None:
        self.inner.settle()


class Wrapped:
    """The store, which hands its own logs out."""

    log: ClassVar[Callable[[Wrapped, Log], WrappedLog]] = WrappedLog

    def __init__(self, inner: Backend) -> None:
        self.inner = inner
        self.url = inner.url

    def close(self) -> None:
        self.inner.close()

    @property
    def permits(self) -> Permits:
        return self.inner.permits

    def create(self, saga: str) -> Log:
        return type(self).log(self, self.inner.create(saga))

    def claim(self, saga: str) -> tuple[Log, Reading] | None:
        claimed = self.inner.claim(saga)
        return None if claimed is None else (type(self).log(self, claimed[0]), claimed[1])

    def read(self, saga: str) -> Reading | None:
        return self.inner.read(saga)

    def owner(self, saga: str) -> str | None:
        return self.inner.owner(saga)

    def sync_later(self, wanted: Sequence[tuple[Log, int]], done: Callable[[list[BaseException | None]], None]) -> None:
        self.inner.sync_later([(unwrapped(log), position) for log, position in wanted], done)

    def open_sagas(self) -> Iterator[str]:
        return self.inner.open_sagas()

    def due_sagas(self) -> Iterator[str]:
        return self.inner.due_sagas()

    def parked_sagas(self, place: Literal["suspended", "cases"]) -> Iterator[str]:
        return self.inner.parked_sagas(place)

    def tidy(self) -> None:
        self.inner.tidy()

    def done_sagas(self) -> Iterator[str]:
        return self.inner.done_sagas()

    def tombstone(self, saga: str) -> Tombstone | None:
        return self.inner.tombstone(saga)

    def erased_sagas(self) -> Iterator[str]:
        return self.inner.erased_sagas()

    def key_holder(self, key: str) -> tuple[str, int] | None:
        return self.inner.key_holder(key)

    def take_key(self, key: str, saga: str, generation: int) -> bool:
        return self.inner.take_key(key, saga, generation)


def unwrapped(log: Log) -> Log:
    """Return the real log."""
    return log.inner if isinstance(log, WrappedLog) else log


class WrappedHarness:
    """A harness whose stores are wrapped."""

    def __init__(self, inner: Harness, fault: Callable[[Backend], Backend] = Wrapped) -> None:
        self.name = f"{inner.name}, {getattr(fault, '__name__', '')}"
        self.abilities: frozenset[Ability] = frozenset(inner.abilities)
        self._inner = inner
        self._fault = fault
        self._wrapped: dict[int, tuple[Backend, Backend]] = {}

    def open(self, place: Path) -> Backend:
        store = self._inner.open(place)
        if id(store) not in self._wrapped:
            self._wrapped[id(store)] = (store, self._fault(store))
        return self._wrapped[id(store)][1]

    def lose_power(self, place: Path) -> None:
        self._inner.lose_power(place)

    def erase(self, store: Backend, saga: str) -> None:
        self._inner.erase(store.inner if isinstance(store, Wrapped) else store, saga)
