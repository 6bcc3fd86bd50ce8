"""Stores with one fault each, which the scenarios must find."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import msgspec

from saga_core import codec, records
from saga_core.errors import StoreError
from saga_core.ids import start_date
from saga_core.stores.file import FileStore
from saga_core.stores.store import Reading
from saga_core.stores.system import System

from .harnesses import FileHarness, OutageHarness
from .wrapped import Wrapped, WrappedLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from saga_core.records import Record
    from saga_core.stores.memory import MemoryStore
    from saga_core.stores.store import Backend, Log

_A_MOMENT = 0.02
"""Seconds for which a fault keeps its window open, so that no scheduler can hide it."""

_MEGABYTE = 1 << 20


def memory(store: Wrapped) -> MemoryStore:
    return cast("MemoryStore", store.inner)


class LosingBytes(Wrapped):
    """A torn tail's bytes do not survive its text column."""

    def read(self, saga: str) -> Reading | None:
        reading = super().read(saga)
        if reading is None:
            return None
        return reading._replace(
            records=[
                msgspec.structs.replace(record, dropped=b"") if isinstance(record, records.Adopted) else record
                for record in reading.records
            ]
        )


class CuttingLog(WrappedLog):
    def append(self, record: Record) -> int:
        if isinstance(record, records.Noted) and len(codec.encode(record)) > _MEGABYTE:
            record = records.Noted(record.step, {"text": record.facts["text"][: _MEGABYTE - 100]})
        return super().append(record)


class Cutting(Wrapped):
    """A column takes a megabyte."""

    log = CuttingLog


class MixingLog(WrappedLog):
    def append(self, record: Record) -> int:
        mixing = cast("Mixing", self.store)
        if isinstance(record, records.Began):
            mixing.newest = self.inner
        mixing.newest.append(record)
        return self.inner.durable + 1


class Mixing(Wrapped):
    """What is written comes into the newest saga's history."""

    log = MixingLog
    newest: Log


class StandingStillLog(WrappedLog):
    def append(self, record: Record) -> int:
        super().append(record)
        return 1


class StandingStill(Wrapped):
    """Every position is the same."""

    log = StandingStillLog


class Reordering(Wrapped):
    """The next owner gets the last two records in another order."""

    def claim(self, saga: str) -> tuple[Log, Reading] | None:
        claimed = super().claim(saga)
        if claimed is None:
            return None
        log, reading = claimed
        *rest, one, other = reading.records
        return log, reading._replace(records=[*rest, other, one])


class Inventing(Wrapped):
    """Every saga that is asked for is there."""

    def read(self, saga: str) -> Reading | None:
        return super().read(saga) or Reading(saga, [])


class CreatingAgain(Wrapped):
    """A log that is there is handed to whoever creates it."""

    def create(self, saga: str) -> Log:
        if super().read(saga) is None:
            return super().create(saga)
        memory(self).give_up(saga, "open")
        claimed = self.claim(saga)
        assert claimed is not None
        return claimed[0]


class BufferingLog(WrappedLog):
    held: Record | None = None

    def append(self, record: Record) -> int:
        held, self.held = self.held, record
        position = self.inner.durable if held is None else super().append(held)
        return position + len(codec.encode(record))

    def sync(self, position: int) -> None:
        self._flush()
        super().sync(min(position, self.inner.durable))

    def release(self) -> None:
        self._flush()
        super().release()

    def _flush(self) -> None:
        held, self.held = self.held, None
        if held is not None:
            self.inner.sync(super().append(held))


class Buffering(Wrapped):
    """A record is written with the one behind it."""

    log = BufferingLog


class BufferingFiles(FileHarness):
    """A process that is killed takes the record with it that it holds back."""

    def open(self, place: Path) -> Backend:
        return Buffering(super().open(place))


class HalvingLog(WrappedLog):
    def append(self, record: Record) -> int:
        halving = cast("Halving", self.store)
        if isinstance(record, records.Noted) and len(codec.encode(record)) > _MEGABYTE:
            halving.half = records.Noted(record.step, {"text": record.facts["text"][:_MEGABYTE]})
            halving.seen.wait(5)
            halving.half = None
        return super().append(record)


class Halving(Wrapped):
    """Who reads while a large record is written sees its first part."""

    log = HalvingLog
    half: Record | None = None

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self.seen = threading.Event()

    def read(self, saga: str) -> Reading | None:
        half = self.half
        reading = super().read(saga)
        if reading is None or half is None:
            return reading
        self.seen.set()
        return reading._replace(records=[*reading.records, half])


class HandingOutTwice(Wrapped):
    """An owner is no obstacle."""

    def claim(self, saga: str) -> tuple[Log, Reading] | None:
        if super().owner(saga) is not None:
            memory(self).give_up(saga, "open")
        return super().claim(saga)


class WritingOnLog(WrappedLog):
    def append(self, record: Record) -> int:
        try:
            return super().append(record)
        except StoreError:
            claimed = self.store.inner.claim(self.saga)
            if claimed is None:
                raise
            position = claimed[0].append(record)
            claimed[0].release()
            return position


class WritingOn(Wrapped):
    """Who gave a log up can still write."""

    log = WritingOnLog


class FreeingTwiceLog(WrappedLog):
    def release(self) -> None:
        super().release()
        memory(self.store).give_up(self.saga, "open")


class FreeingTwice(Wrapped):
    """A log is freed whoever has it now."""

    log = FreeingTwiceLog


class LookingFirst(Wrapped):
    """It looks whether a log is free, and takes it a moment later."""

    def claim(self, saga: str) -> tuple[Log, Reading] | None:
        if super().owner(saga) is not None:
            return None
        time.sleep(_A_MOMENT)
        memory(self).give_up(saga, "open")
        return super().claim(saga)


class Lockless(System):
    @staticmethod
    def flock(descriptor: int, how: int, /) -> None:
        """Lock nothing."""


class LocklessFiles(FileHarness):
    """Each process knows its own owners."""

    def open(self, place: Path) -> Backend:
        return FileStore(os.path.realpath(place / "saga"), Lockless())


class SpreadingLog(WrappedLog):
    def append(self, record: Record) -> int:
        if isinstance(record, records.Adopted):
            for saga in list(self.store.inner.due_sagas()):
                if (claimed := self.store.inner.claim(saga)) is not None:
                    claimed[0].append(record)
                    claimed[0].release()
        return super().append(record)


class Spreading(Wrapped):
    """Who takes one saga over takes all of them over."""

    log = SpreadingLog


class SettlingIntoNowhere(Wrapped):
    """A settled saga is in no listing any more, nor to be read."""

    def read(self, saga: str) -> Reading | None:
        reading = super().read(saga)
        return None if reading is None or reading.settled else reading


class ListingAsTheyCame(Wrapped):
    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self.created: list[str] = []

    def create(self, saga: str) -> Log:
        self.created.append(saga)
        return super().create(saga)

    def open_sagas(self) -> Iterator[str]:
        return iter(sorted(super().open_sagas(), key=self.created.index))


class LosingParked(Wrapped):
    """What is parked is listed nowhere."""

    def parked_sagas(self, place: Literal["suspended", "cases"]) -> Iterator[str]:
        return iter([saga for saga in super().parked_sagas(place) if not saga])


class TidyingAway(Wrapped):
    """What waits is settled."""

    def tidy(self) -> None:
        for saga in list(super().parked_sagas("suspended")):
            if (claimed := super().claim(saga)) is not None:
                claimed[0].settle()


class HidingLog(WrappedLog):
    def settle(self) -> None:
        hiding = cast("Hiding", self.store)
        hiding.hidden = self.saga
        hiding.seen.wait(5)
        super().settle()
        hiding.hidden = ""


class Hiding(Wrapped):
    """A saga that is put away is copied, and nowhere meanwhile."""

    log = HidingLog
    hidden = ""

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self.seen = threading.Event()

    def read(self, saga: str) -> Reading | None:
        if saga == self.hidden:
            self.seen.set()
            return None
        return super().read(saga)


class ErasingWithoutTrace(FileHarness):
    """An erased saga has no tombstone."""

    def erase(self, store: Backend, saga: str) -> None:
        Path(store.url.removeprefix("file:"), "done", start_date(saga), f"{saga}.log").unlink()


class BelievingLog(WrappedLog):
    def sync(self, position: int) -> None:
        pass


class Believing(Wrapped):
    """Whatever is asked for is called synced."""

    log = BelievingLog


class ServingOneLog(WrappedLog):
    def sync(self, position: int) -> None:
        turn = cast("ServingOne", self.store).turn
        if turn.acquire(blocking=False):
            time.sleep(_A_MOMENT)
            super().sync(position)
            turn.release()


class ServingOne(Wrapped):
    """Who comes while another one is served is sent away, unserved."""

    log = ServingOneLog

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self.turn = threading.Lock()


class AnsweringEarly(Wrapped):
    """It answers when it was asked."""

    def sync_later(self, wanted: Sequence[tuple[Log, int]], done: Callable[[list[BaseException | None]], None]) -> None:
        done([None for _ in wanted])
        super().sync_later(wanted, lambda _: None)


class AnsweringBackwards(Wrapped):
    def sync_later(self, wanted: Sequence[tuple[Log, int]], done: Callable[[list[BaseException | None]], None]) -> None:
        super().sync_later(wanted, lambda problems: done(problems[::-1]))


class AnsweringTwice(Wrapped):
    def sync_later(self, wanted: Sequence[tuple[Log, int]], done: Callable[[list[BaseException | None]], None]) -> None:
        def both(problems: list[BaseException | None]) -> None:
            done(problems)
            done(problems)

        super().sync_later(wanted, both)


class AnsweringTheBusy(Wrapped):
    """Who asks while another one is served is told that all is well."""

    is_busy = False

    def sync_later(self, wanted: Sequence[tuple[Log, int]], done: Callable[[list[BaseException | None]], None]) -> None:
        if self.is_busy:
            done([None for _ in wanted])
            return
        self.is_busy = True
        time.sleep(_A_MOMENT)

        def answer(problems: list[BaseException | None]) -> None:
            self.is_busy = False
            done(problems)

        super().sync_later(wanted, answer)


class RaisingLog(WrappedLog):
    is_free = False

    def release(self) -> None:
        self.is_free = True
        super().release()

    def sync_soon(self) -> None:
        if self.is_free:
            raise StoreError("the log was given up")
        super().sync_soon()


class Raising(Wrapped):
    """Asked lazily for a log that was given up, it raises."""

    log = RaisingLog


class ForgettingLog(WrappedLog):
    end = 0

    @property
    def durable(self) -> int:
        return self.end

    def append(self, record: Record) -> int:
        self.end = super().append(record)
        return self.end

    def sync(self, position: int) -> None:
        pass


class Forgetting(Wrapped):
    """It leaves to the operating system when a record comes to the disk."""

    log = ForgettingLog

    def sync_later(self, wanted: Sequence[tuple[Log, int]], done: Callable[[list[BaseException | None]], None]) -> None:
        done([None for _ in wanted])


class LosingMoved(OutageHarness):
    """A file that was moved has neither its old name on the disk nor its new one, and nobody made a journal."""

    def lose_power(self, place: Path) -> None:
        moved = [path.name for folder in ("done/*", "suspended", "cases") for path in place.glob(f"saga/{folder}/*")]
        super().lose_power(place)
        for name in (*moved, "*.j"):
            for path in place.rglob(name):
                path.unlink()


class DroppingJournals(Wrapped):
    """Who closes the store deletes its journal, and leaves the logs to the operating system."""

    def close(self) -> None:
        store = cast("FileStore", self.inner)
        journals = Path(store.url.removeprefix("file:"), "journals")
        for path in journals.glob("*.j"):
            store.system.unlink(str(path))
        store.system.sync_dir(str(journals))


class LosingKeys(OutageHarness):
    """The keys are not synced."""

    def lose_power(self, place: Path) -> None:
        super().lose_power(place)
        for path in place.glob("saga/control.db*"):
            path.unlink()


class GivingKeysTwice(Wrapped):
    """Whoever asks for the newest generation has it."""

    def take_key(self, key: str, saga: str, generation: int) -> bool:
        holder = super().key_holder(key)
        return (holder is not None and holder[1] == generation) or super().take_key(key, saga, generation)


class FoldingKeys(Wrapped):
    """A collation that takes small and capital letters for the same."""

    def key_holder(self, key: str) -> tuple[str, int] | None:
        return super().key_holder(key.casefold())

    def take_key(self, key: str, saga: str, generation: int) -> bool:
        return super().take_key(key.casefold(), saga, generation)


class LookingForKeys(Wrapped):
    """It looks whether a generation is free, and gives it a moment later."""

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self.holders: dict[str, tuple[str, int]] = {}

    def key_holder(self, key: str) -> tuple[str, int] | None:
        return self.holders.get(key)

    def take_key(self, key: str, saga: str, generation: int) -> bool:
        holder = self.holders.get(key)
        if (0 if holder is None else holder[1]) != generation - 1:
            return False
        time.sleep(_A_MOMENT)
        self.holders[key] = (saga, generation)
        return True


class KeysOfEachProcess(FileHarness):
    """Keys are kept in memory."""

    def open(self, place: Path) -> Backend:
        return LookingForKeys(super().open(place))
