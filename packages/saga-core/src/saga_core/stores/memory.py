"""The store for tests: nothing outlives the process, everything else is as with files."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeAlias

from saga_core import codec
from saga_core.errors import StoreError
from saga_core.stores.store import Reading

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Generator, Iterator, Sequence

    from saga_core.records import Record
    from saga_core.stores.permits import Permits
    from saga_core.stores.store import Log
    from saga_core.stores.tombstone import Tombstone

Place: TypeAlias = Literal["open", "suspended", "cases", "done"]


class _MemoryLog:
    """A list of encoded records; the codec is passed as with files, so that what fits here fits there."""

    def __init__(self, store: MemoryStore, saga: str, payloads: list[bytes]) -> None:
        self.saga = saga
        self.store = store
        self._payloads = payloads
        self._released = False

    @property
    def durable(self) -> int:
        return len(self._payloads)

    def append(self, record: Record) -> int:
        if self._released:
            raise StoreError(f"the log of saga {self.saga} was given up", saga_id=self.saga)
        self._payloads.append(codec.encode(record))
        return len(self._payloads)

    def sync(self, position: int) -> None:
        if position > len(self._payloads):
            raise StoreError(
                f"the log of saga {self.saga} ends at {len(self._payloads)}: nothing at {position} is proven",
                saga_id=self.saga,
            )

    def sync_soon(self) -> None:
        pass

    def release(self) -> None:
        self._give_up("open")

    def park(self, place: Literal["suspended", "cases"]) -> None:
        self._give_up(place)

    def settle(self) -> None:
        self._give_up("done")

    def _give_up(self, place: Place) -> None:
        if not self._released:
            self._released = True
            self.store.give_up(self.saga, place)


class MemoryStore:
    """Sagas in this process's memory."""

    url = "memory:"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._logs: dict[str, list[bytes]] = {}
        self._owned: set[str] = set()
        self._places: dict[str, Place] = {}
        self._keys: dict[str, tuple[str, int]] = {}
        self._permits: Permits | None = None

    def close(self) -> None:
        pass

    @property
    def permits(self) -> Permits:
        with self._lock:
            if self._permits is None:
                self._permits = _permits()
            return self._permits

    def create(self, saga: str) -> Log:
        with self._lock:
            if saga in self._logs:
                raise StoreError(f"saga {saga} has a log already", saga_id=saga, world="nothing was opened")
            payloads = self._logs[saga] = []
            self._owned.add(saga)
            self._places[saga] = "open"
        return _MemoryLog(self, saga, payloads)

    def claim(self, saga: str) -> tuple[Log, Reading] | None:
        with self._lock:
            if saga not in self._logs or saga in self._owned or self._places[saga] == "done":
                return None
            self._owned.add(saga)
            self._places[saga] = "open"
            payloads = self._logs[saga]
        return _MemoryLog(self, saga, payloads), Reading(saga, [codec.decode(payload) for payload in payloads])

    def read(self, saga: str) -> Reading | None:
        with self._lock:
            payloads = list(self._logs.get(saga, ()))
            settled = self._places.get(saga) == "done"
        return Reading(saga, [codec.decode(payload) for payload in payloads], settled=settled) if payloads else None

    def owner(self, saga: str) -> str | None:
        return "this process" if saga in self._owned else None

    def open_sagas(self) -> Iterator[str]:
        return iter(self._in_place("open", "suspended", "cases"))

    def due_sagas(self) -> Iterator[str]:
        return iter(self._in_place("open"))

    def parked_sagas(self, place: Literal["suspended", "cases"]) -> Iterator[str]:
        return iter(self._in_place(place))

    def done_sagas(self) -> Iterator[str]:
        return reversed(self._in_place("done"))

    def _in_place(self, *places: Place) -> list[str]:
        with self._lock:
            return sorted(saga for saga in self._logs if self._places[saga] in places)

    def sync_later(self, wanted: Sequence[tuple[Log, int]], done: Callable[[list[BaseException | None]], None]) -> None:
        done([_problem(log, position) for log, position in wanted])

    def tidy(self) -> None:
        pass

    def tombstone(self, saga: str) -> Tombstone | None:  # noqa: ARG002 -- the protocol's parameter; nothing is erased here
        return None

    def erased_sagas(self) -> Iterator[str]:
        return iter(())

    def key_holder(self, key: str) -> tuple[str, int] | None:
        return self._keys.get(key)

    def take_key(self, key: str, saga: str, generation: int) -> bool:
        with self._lock:
            held = self._keys.get(key)
            if (held[1] if held else 0) != generation - 1:
                return False
            self._keys[key] = (saga, generation)
            return True

    def give_up(self, saga: str, place: Place) -> None:
        """Free a log; called by the log itself."""
        with self._lock:
            self._owned.discard(saga)
            self._places[saga] = place


def _permits() -> Permits:
    import sqlite3  # noqa: PLC0415 -- a store that nobody is asked in never pays for it

    from saga_core.stores.permits import SCHEMA, Permits  # noqa: PLC0415 -- as above

    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.executescript(SCHEMA)
    lock = threading.RLock()

    @contextmanager
    def change() -> Generator[sqlite3.Connection]:
        with lock:
            connection.execute("begin")
            try:
                yield connection
            except BaseException:
                connection.execute("rollback")
                raise
            connection.execute("commit")

    @contextmanager
    def look() -> Generator[sqlite3.Connection | None]:
        with lock:
            yield connection

    return Permits(change, look)


def _problem(log: Log, position: int) -> BaseException | None:
    try:
        log.sync(position)
    except StoreError as problem:
        return problem
    return None
