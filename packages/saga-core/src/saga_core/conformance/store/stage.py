"""The stage on which a scenario is played: the harness, its place, and what is in hands there."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar, cast

from saga_core import codec, ids
from saga_core.conformance.expectation import expect
from saga_core.conformance.store.other import PATIENCE, Other
from saga_core.conformance.store.sample import began, expect_history
from saga_core.stores.store import Backend

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from saga_core.conformance.store.harness import Harness
    from saga_core.records import Record
    from saga_core.stores.store import Log, Reading

T = TypeVar("T")

_PAUSE = 0.005


@dataclass
class Stage:
    """What a scenario plays with.

    Attributes:
        harness: The harness.
        place: The place of the store.
        stores: What was opened there.
        logs: The logs that this process may own there.
        others: The other processes.
        written: The records of each saga, encoded, in order: what it is read against.
    """

    harness: Harness
    place: Path
    stores: list[Backend] = field(default_factory=list[Backend])
    logs: list[Log] = field(default_factory=list["Log"])
    others: list[Other] = field(default_factory=list[Other])
    written: dict[str, list[bytes]] = field(default_factory=dict[str, list[bytes]])

    def open(self) -> Backend:
        """Return the store, as one more process would have it."""
        store = self.harness.open(self.place)
        expect(isinstance(cast("object", store), Backend), f"{type(store).__qualname__} should answer all of `Backend`")
        self.stores.append(store)
        return store

    def create(self, store: Backend, saga: str | None = None) -> Log:
        """Return the log of a new saga, without a record."""
        log = store.create(ids.new_saga_id() if saga is None else saga)
        self.logs.append(log)
        return log

    def begin(self, store: Backend, saga: str | None = None) -> Log:
        """Return the log of a new saga that has begun."""
        log = self.create(store, saga)
        self.write(log, began(log.saga))
        return log

    def write(self, log: Log, record: Record) -> int:
        """Append a record, remember it, and return the position behind it."""
        position = log.append(record)
        self.written.setdefault(log.saga, []).append(codec.encode(record))
        return position

    def expect(self, reading: Reading | None, saga: str, *, settled: bool | None = False) -> None:
        """Check that a history holds what was written to the saga."""
        expect_history(reading, self.written[saga], settled=settled)

    def claim(self, store: Backend, saga: str) -> tuple[Log, Reading]:
        """Take over a log that is free, or will be when the store has noticed that its owner is gone."""
        until = time.monotonic() + PATIENCE
        while (claimed := store.claim(saga)) is None:
            expect(time.monotonic() < until, f"a free log should be handed out; its owner is {store.owner(saga)}")
            time.sleep(_PAUSE)
        self.logs.append(claimed[0])
        return claimed

    def start(self) -> Other:
        """Start another process, which has the same store."""
        other = Other(self.harness, self.place)
        self.others.append(other)
        return other

    def lose_power(self) -> Backend:
        """Return the store as it is found after a loss of power."""
        self.logs.clear()
        self.stores.clear()
        self.harness.lose_power(self.place)
        return self.open()

    def clear(self) -> None:
        """Give everything up."""
        for other in self.others:
            other.kill()
        for log in self.logs:
            log.release()
        for store in self.stores:
            store.close()


def together(*works: Callable[[], T]) -> list[T]:
    """Do all at once, each on a thread of its own, and return what they return.

    Raises:
        BaseException: What the first of them raised.
    """
    gate = threading.Barrier(len(works))
    results: dict[int, T] = {}
    problems: list[BaseException] = []

    def run(number: int, work: Callable[[], T]) -> None:
        try:
            gate.wait()
            results[number] = work()
        except BaseException as problem:  # noqa: BLE001 -- it is raised where all ends are waited for
            problems.append(problem)

    threads = [threading.Thread(target=run, args=each, daemon=True) for each in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        expect(not thread.is_alive(), "the store's calls should return; one hangs")
    for problem in problems:
        raise problem
    return [results[number] for number in range(len(works))]


def expect_listed(found: Sequence[str], wanted: Sequence[str], what: str) -> None:
    """Check a listing.

    Raises:
        AssertionError: It lists others, or in another order.
    """
    expect(list(found) == list(wanted), f"{what} should be [{', '.join(wanted)}]; listed are [{', '.join(found)}]")
