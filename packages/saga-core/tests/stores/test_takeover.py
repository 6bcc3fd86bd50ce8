"""Taking a log over: torn tails, other boots, copies, and a file that moves between lock and look."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from saga_core import frame, records
from saga_core.errors import LogDamaged
from saga_core.stores import fork
from saga_core.stores.boot import boot_id
from saga_core.stores.file import FileStore
from saga_core.stores.log import FileLog
from saga_core.stores.system import System

Begin: TypeAlias = Callable[[FileStore], FileLog]


def left_behind(store: FileStore, begin: Begin, place: Path, *more: records.Record, sync: bool = True) -> Path:
    """Return the free file of a saga with a few records."""
    log = begin(store)
    position = log.append(records.ScopeOpened("1", "", "a", 1))
    if sync:
        log.sync(position)
    for record in more:
        log.append(record)
    log.release()
    return place / "open" / f"{log.saga}.log"


def age(path: Path) -> None:
    """Make a log one of an earlier boot."""
    data = path.read_bytes()
    header = frame.parse(data, boot="").header
    assert header is not None
    with path.open("r+b") as file:
        file.write(header._replace(boot="an earlier boot").pack())


def adopted(dropped: bytes = b"") -> records.Adopted:
    return records.Adopted(2, 1, 2, boot_id(), os.getpid(), "here", "test", dropped)


@pytest.mark.parametrize("is_old", [False, True], ids=["same boot", "other boot"])
def test_a_torn_tail_is_kept_in_the_adoption_and_the_log_goes_on_without_glue(
    store: FileStore, begin: Begin, place: Path, *, is_old: bool
) -> None:
    path = left_behind(store, begin, place, records.Noted(1, {"text": "x" * 50}))
    whole = path.read_bytes()
    if is_old:
        age(path)
    os.truncate(path, len(whole) - 7)

    claimed = store.claim(path.stem)
    assert claimed is not None
    log, reading = claimed
    good = len(whole) - len(reading.dropped) - 7
    assert reading.dropped == whole[good : len(whole) - 7]
    assert len(reading.records) == 2
    assert path.stat().st_size == len(whole) - 7, "a claim changes nothing"
    written = [adopted(reading.dropped), records.UnwindBegan("", "test", 3), records.RolledBack(4)]
    for record in written:
        log.append(record)
    log.sync(log.append(records.Parked(5)))
    log.release()

    after = store.read(path.stem)
    assert after is not None
    assert after.damage is None
    assert after.dropped == b""
    assert after.records[2:] == [*written, records.Parked(5)]


def test_a_claim_that_writes_nothing_leaves_the_torn_tail(store: FileStore, begin: Begin, place: Path) -> None:
    path = left_behind(store, begin, place)
    os.truncate(path, path.stat().st_size - 1)
    torn = path.read_bytes()
    for _ in range(2):
        claimed = store.claim(path.stem)
        assert claimed is not None
        claimed[0].release()
    assert path.read_bytes() == torn


@pytest.mark.parametrize("size", [0, 10, frame.FILE_HEADER - 1])
def test_a_file_without_its_header_is_an_empty_log_that_can_be_put_away(
    store: FileStore, begin: Begin, place: Path, size: int
) -> None:
    path = left_behind(store, begin, place)
    os.truncate(path, size)
    reading = store.read(path.stem)
    assert reading is not None
    assert reading.records == []
    claimed = store.claim(path.stem)
    assert claimed is not None
    assert claimed[1].records == []
    log = claimed[0]
    log.sync(log.append(records.RolledBack(1)))
    log.settle()
    after = store.read(path.stem)
    assert after is not None
    assert after.records == [records.RolledBack(1)]


def test_a_damaged_log_is_not_handed_out_and_stays_as_it_is(store: FileStore, begin: Begin, place: Path) -> None:
    path = left_behind(store, begin, place)
    data = bytearray(path.read_bytes())
    data[frame.FILE_HEADER + 40] ^= 1
    path.write_bytes(data)
    for _ in range(2):
        with pytest.raises(LogDamaged, match="offset 160") as caught:
            store.claim(path.stem)
        assert caught.value.saga_id == path.stem
    reading = store.read(path.stem)
    assert reading is not None
    assert reading.damage is not None
    assert path.read_bytes() == bytes(data)
    assert store.owner(path.stem) is None
    assert list(store.open_sagas()) == [path.stem]


def test_a_record_of_a_newer_release_is_damage(store: FileStore, begin: Begin, place: Path) -> None:
    path = left_behind(store, begin, place)
    data = path.read_bytes()
    parsed = frame.parse(data, boot=boot_id())
    assert parsed.header is not None
    unknown, _ = frame.build(frame.seal_of(parsed.header.salt), parsed.crc, 99, 1, 2, 0, b"\x91\x63")
    path.write_bytes(data + unknown)
    with pytest.raises(LogDamaged, match="newer release"):
        store.claim(path.stem)


def test_a_restored_copy_is_damage(store: FileStore, begin: Begin, place: Path) -> None:
    """Its records may be older than what was done since."""
    path = left_behind(store, begin, place)
    shutil.copy(path, place / "copy")
    (place / "copy").rename(path)
    with pytest.raises(LogDamaged, match="restored copy"):
        store.claim(path.stem)


def test_a_log_of_another_store_is_damage(store: FileStore, begin: Begin, place: Path, tmp_path: Path) -> None:
    path = left_behind(store, begin, place)
    elsewhere = FileStore(str(tmp_path / "other"), System())
    moved = tmp_path / "other" / "open" / path.name
    path.rename(moved)
    with pytest.raises(LogDamaged, match="store"):
        elsewhere.claim(path.stem)


@pytest.mark.parametrize("copied", ["open", "done"])
def test_a_saga_in_both_places_is_damage(store: FileStore, begin: Begin, place: Path, copied: str) -> None:
    path = left_behind(store, begin, place)
    claimed = store.claim(path.stem)
    assert claimed is not None
    claimed[0].settle()
    (settled,) = (place / "done").glob("*/*.log")
    if copied == "open":
        shutil.copy(settled, path)
    else:
        settled.rename(path)
        shutil.copy(path, settled)
    reading = store.read(path.stem)
    assert reading is not None
    assert reading.damage is not None
    with pytest.raises(LogDamaged, match="restored copy"):
        store.claim(path.stem)


def test_a_log_with_a_second_name_is_not_handed_out(store: FileStore, begin: Begin, place: Path) -> None:
    path = left_behind(store, begin, place)
    os.link(path, place / "second")
    with pytest.raises(LogDamaged, match="2 names"):
        store.claim(path.stem)
    (place / "second").unlink()
    claimed = store.claim(path.stem)
    assert claimed is not None
    claimed[0].release()


class Interposed(System):
    """Lets something happen between the opening of a log and the lock on it."""

    def __init__(self) -> None:
        self.between: list[Callable[[], object]] = []
        self.flock = self._flock

    def _flock(self, descriptor: int, operation: int, /) -> None:
        if self.between:
            self.between.pop()()
        super().flock(descriptor, operation)


def test_a_log_that_settles_between_open_and_lock_is_not_claimed(place: Path, begin: Begin) -> None:
    """The lock is granted on a file that is no longer an open saga: look behind the lock."""
    disk = Interposed()
    claimer, owner = FileStore(str(place), disk), FileStore(str(place), System())
    log = begin(owner)
    log.append(records.RolledBack(1))
    held = len(fork.descriptors)
    disk.between = [log.settle]
    assert claimer.claim(log.saga) is None
    assert disk.between == []
    assert len(fork.descriptors) == held - 1, "the lock on the moved file was kept"


def test_a_log_that_is_replaced_between_open_and_lock_is_looked_at_again(place: Path, begin: Begin) -> None:
    disk = Interposed()
    claimer, owner = FileStore(str(place), disk), FileStore(str(place), System())
    log = begin(owner)
    path = place / "open" / f"{log.saga}.log"

    def replace() -> None:
        log.release()
        path.rename(place / "aside")
        shutil.copy(place / "aside", path)

    disk.between = [replace]
    with pytest.raises(LogDamaged, match="restored copy"):
        claimer.claim(log.saga)


def test_a_readers_probe_does_not_cost_the_claimer_its_log(store: FileStore, begin: Begin, place: Path) -> None:
    path = left_behind(store, begin, place)
    prober = System()
    descriptor = prober.open(str(path), os.O_RDONLY)
    prober.flock(descriptor, 1)

    class Patient(System):
        def __init__(self) -> None:
            self.tries = 0
            self.flock = self._flock

        def _flock(self, descriptor_: int, operation: int, /) -> None:
            self.tries += 1
            if self.tries == 3:
                os.close(descriptor)
            super().flock(descriptor_, operation)

    disk = Patient()
    claimed = FileStore(str(place), disk).claim(path.stem)
    assert claimed is not None
    assert disk.tries == 3
    claimed[0].release()


def test_a_reader_beside_a_writer_in_the_middle_of_a_record_sees_whole_records(
    store: FileStore, begin: Begin, place: Path
) -> None:
    log = begin(store)
    log.append(records.Noted(1, {"text": "x" * 50}))
    path = place / "open" / f"{log.saga}.log"
    for cut in range(1, 60):
        size = path.stat().st_size
        os.truncate(path, size - 1)
        reading = store.read(log.saga)
        assert reading is not None
        assert reading.damage is None
        assert reading.dropped == b""
        assert len(reading.records) == 1, cut
