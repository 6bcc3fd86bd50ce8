"""A process that uses the store as the engine does, and keeps its witness informed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from saga_core import records
from saga_core.errors import LogDamaged, SagaError, StoreError
from saga_core.stores.boot import boot_id

from .witness import Promise, Violation, judge

if TYPE_CHECKING:
    from collections.abc import Callable

    from saga_core.records import Record
    from saga_core.stores.file import FileStore
    from saga_core.stores.log import FileLog
    from saga_core.stores.store import Reading

    from .stage import Stage
    from .witness import Witness

TRIALS = 3
"""How often a barrier is tried, as the engine's commit does it."""


class Actor:
    """One process on the machine.

    What fails for good is given up, as a latched saga is; what is tried again is told so. An error that is not the
    store's own is a violation.
    """

    def __init__(self, stage: Stage, witness: Witness, process: str) -> None:
        self._stage = stage
        self._witness = witness
        self._process = process
        self._logs: dict[str, FileLog] = {}
        self._ends: dict[str, list[int]] = {}
        self._store: FileStore | None = None

    @property
    def store(self) -> FileStore:
        """Its store."""
        assert self._store is not None
        return self._store

    def is_owner_of(self, saga: str) -> bool:
        """Tell whether it holds the log."""
        return saga in self._logs

    def open(self) -> bool:
        """Open the store; a second time if the first fails."""
        for _ in range(2):
            try:
                store = self._stage.open(self._process)
            except (SagaError, KeyboardInterrupt):
                continue
            if self._witness.identity not in {"", store.identity}:
                raise Violation(f"the store was {self._witness.identity}, and is {store.identity}")
            self._store = store
            self._witness.identity = store.identity
            self._mark()
            return True
        return False

    def create(self, saga: str) -> None:
        """Begin a saga."""
        if self._store is None:
            return
        self._witness.promises.setdefault(saga, Promise())
        for _ in range(2):
            try:
                self._logs[saga] = self.store.create(saga)
                self._witness.owners[saga] = self
            except (StoreError, KeyboardInterrupt):
                continue
            self._ends[saga] = []
            return

    def append(self, saga: str, *more: Record) -> None:
        """Append records; one that is refused is tried once more, and then the saga is given up."""
        for record in more:
            for trial in range(2):
                log = self._logs.get(saga)
                if log is None:
                    return
                self._witness.attempt(saga, record)
                try:
                    end = log.append(record)
                except StoreError:
                    self._witness.end(saga, "never")
                    self._ends[saga].append(-1)
                    if trial:
                        self._give_up(saga)
                    continue
                except KeyboardInterrupt:
                    self._witness.end(saga, "maybe")
                    self._ends[saga].append(-1)
                    self._give_up(saga)  # the engine reads its log again; here another owner does
                    continue
                self._witness.end(saga, "in")
                self._ends[saga].append(end)
                self._mark()
                break

    def sync(self, *sagas: str) -> None:
        """Bring everything appended so far to the disk."""
        for saga in sagas:
            for _ in range(TRIALS):
                log = self._logs.get(saga)
                if log is None or not self._ends[saga]:
                    return
                try:
                    log.sync(max(self._ends[saga]))
                except (StoreError, KeyboardInterrupt):
                    self._note_durable(saga)
                    continue
                self._witness.prove(saga, len(self._ends[saga]))
                self._note_durable(saga)
                break
            else:
                self._give_up(saga)

    def settle(self, saga: str) -> None:
        """Put a settled saga away."""
        log = self._logs.pop(saga, None)
        if log is None:
            return
        self._witness.settle(saga)
        self._undisturbed(log.settle)
        self._undisturbed(log.release)

    def park(self, saga: str, place: Literal["suspended", "cases"]) -> None:
        """Put a saga where it waits for somebody."""
        log = self._logs.pop(saga, None)
        if log is not None:
            self._undisturbed(lambda: log.park(place))
            self._undisturbed(log.release)

    def release(self, saga: str) -> None:
        """Give a log up where it stands."""
        self._give_up(saga)

    def claim(self, saga: str) -> Reading | None:
        """Take a free log over."""
        if self._store is None:
            return None
        for _ in range(2):
            try:
                claimed = self.store.claim(saga)
            except LogDamaged:
                return None
            except (StoreError, KeyboardInterrupt):
                continue
            if claimed is None:
                return None
            log, reading = claimed
            owner = self._witness.owners.get(saga, self)
            if owner is not self and owner.is_owner_of(saga):
                raise Violation(f"saga {saga} has two owners")
            self._witness.owners[saga] = self
            judge(saga, self._witness.promises.get(saga, Promise()), reading)
            self._logs[saga] = log
            self._ends[saga] = [-1] * len(reading.records)
            self._witness.promises.setdefault(saga, Promise())
            self._witness.take_over(saga, reading.records)
            self._mark()
            look = self._look(saga)
            if look is not None and look.settled:
                raise Violation(f"saga {saga} is settled, and was handed out")
            return reading
        return None

    def _look(self, saga: str) -> Reading | None:
        try:
            return self.store.read(saga)
        except (StoreError, KeyboardInterrupt):
            return None

    def adopt(self, saga: str, number: int) -> bool:
        """Claim a saga and say so in its log, durably."""
        reading = self.claim(saga)
        if reading is None:
            return False
        epoch = 1 + max((one.epoch for one in reading.records if isinstance(one, records.Adopted)), default=1)
        self.append(
            saga,
            records.Adopted(epoch, number, 0, boot_id(), os.getpid(), "here", "the test", reading.dropped),
        )
        self.sync(saga)
        return saga in self._logs

    def take_key(self, key: str, saga: str, generation: int) -> None:
        """Bind a key to a saga whose log is on disk."""
        promise = self._witness.promises.get(saga)
        if saga in self._logs and promise is not None and promise.proven:
            for _ in range(2):
                try:
                    self.store.take_key(key, saga, generation)
                except (StoreError, KeyboardInterrupt):
                    continue
                return

    def tidy(self) -> None:
        """Retire what dead processes left."""
        if self._store is not None:
            self._undisturbed(self.store.tidy)

    def die(self) -> None:
        """Be killed."""
        self._stage.machine.kill(self._process)
        self._stage.waiting.clear()
        self._logs.clear()
        self._store = None

    def end(self) -> None:
        """Give everything up, and close the store."""
        for saga in list(self._logs):
            self._give_up(saga)
        if self._store is not None:
            self._undisturbed(self._store.close)

    def _give_up(self, saga: str) -> None:
        log = self._logs.pop(saga, None)
        if log is not None:
            self._undisturbed(log.release)

    def _undisturbed(self, act: Callable[[], None]) -> None:
        """Do what may be interrupted; the engine's shields do it again then."""
        try:
            act()
        except KeyboardInterrupt:
            act()
        except StoreError:
            return

    def _note_durable(self, saga: str) -> None:
        durable = self._logs[saga].durable
        ends = self._ends[saga]
        self._witness.prove(saga, max((index + 1 for index, end in enumerate(ends) if 0 <= end <= durable), default=0))
        self._mark()

    def _mark(self) -> None:
        self._stage.machine.note("told")
