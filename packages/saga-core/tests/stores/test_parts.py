"""A record too long for one frame: its parts are one record, or none."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from saga_core import codec, frame, records
from saga_core.frame import FRAME_HEADER, PART_SIZE
from saga_core.ids import new_saga_id
from saga_core.stores.boot import boot_id
from saga_core.stores.file import FileStore
from saga_core.stores.log import FileLog
from saga_core.stores.system import System

from .disk import restart
from .test_processes import PRELUDE, line_of

Begin: TypeAlias = Callable[[FileStore], FileLog]
OpenOn: TypeAlias = Callable[[System], FileStore]
Spawn: TypeAlias = Callable[..., subprocess.Popen[str]]

EMPTY = len(codec.encode(records.Noted(1, {"text": "x" * PART_SIZE}))) - PART_SIZE


def noted(size: int) -> records.Noted:
    """Return a record whose payload has so many bytes."""
    record = records.Noted(1, {"text": "x" * (size - EMPTY)})
    assert len(codec.encode(record)) == size
    return record


def records_of(store: FileStore, saga: str) -> list[records.Record]:
    reading = store.read(saga)
    assert reading is not None
    assert reading.damage is None
    return reading.records


@pytest.mark.parametrize(
    ("size", "frames"),
    [(PART_SIZE - 1, 1), (PART_SIZE, 1), (PART_SIZE + 1, 2), (2 * PART_SIZE, 2), (5 * PART_SIZE + 7, 6)],
)
def test_a_long_record_comes_back_and_the_log_goes_on_behind_it(
    store: FileStore, begin: Begin, place: Path, size: int, frames: int
) -> None:
    log = begin(store)
    before = log.end
    log.append(noted(size))
    assert log.end == before + size + frames * FRAME_HEADER
    log.sync(log.append(records.Committing(2)))
    assert records_of(store, log.saga)[1:] == [noted(size), records.Committing(2)]
    log.release()
    claimed = store.claim(log.saga)
    assert claimed is not None
    claimed[0].append(records.Committed(3))
    claimed[0].release()
    assert records_of(store, log.saga)[1:] == [noted(size), records.Committing(2), records.Committed(3)]
    found = frame.parse((place / "open" / f"{log.saga}.log").read_bytes(), boot=boot_id()).frames
    assert [one.seq for one in found] == [0, frames, frames + 1, frames + 2]


APPEND = (
    PRELUDE
    + """
from saga_core.stores.system import System
plain = os.pwrite
left = [int(sys.argv[3])]
begun = []

def torn(descriptor, data, offset):
    if begun or len(data) > 1 << 20:
        begun.append(True)
        if len(data) > left[0]:
            plain(descriptor, data[:left[0]], offset)
            os.kill(os.getpid(), 9)
        left[0] -= len(data)
    return plain(descriptor, data, offset)

System.pwrite = staticmethod(torn)
log = store.create(sys.argv[2])
log.append(began(log.saga))
log.append(records.Noted(1, {"text": "x" * (3 << 20)}))
"""
)

WHOLE = FRAME_HEADER + PART_SIZE
CUTS = {
    "in the first head": FRAME_HEADER - 1,
    "behind the first head": FRAME_HEADER,
    "in the first part": WHOLE - 1,
    "behind the first part": WHOLE,
    "in the second head": WHOLE + 5,
    "behind the third part": 3 * WHOLE,
    "in the last payload": 3 * WHOLE + FRAME_HEADER + 1,
}


@pytest.mark.parametrize("is_restarted", [False, True], ids=["same boot", "other boot"])
@pytest.mark.parametrize("cut", CUTS.values(), ids=list(CUTS))
def test_a_process_killed_among_the_parts_leaves_a_torn_tail_that_the_adoption_drops(
    spawn: Spawn, place: Path, monkeypatch: pytest.MonkeyPatch, cut: int, *, is_restarted: bool
) -> None:
    saga = new_saga_id()
    assert spawn(APPEND, place, saga, cut).wait(60) == -9
    if is_restarted:
        restart(monkeypatch)
    store = FileStore(str(place), System())
    path = place / "open" / f"{saga}.log"
    assert [type(record) for record in records_of(store, saga)] == [records.Began]
    claimed = store.claim(saga)
    assert claimed is not None
    log, reading = claimed
    assert len(reading.dropped) == cut
    assert path.read_bytes().endswith(reading.dropped)
    log.append(records.Adopted(2, 1, 2, boot_id(), os.getpid(), "here", "test"))
    log.sync(log.append(noted(PART_SIZE + 1)))
    log.release()
    assert [type(record) for record in records_of(store, saga)] == [records.Began, records.Adopted, records.Noted]


def test_parts_whose_middle_is_lost_are_damage_in_the_same_boot(store: FileStore, begin: Begin, place: Path) -> None:
    log = begin(store)
    start = log.end
    log.append(noted(3 * PART_SIZE))
    log.release()
    path = place / "open" / f"{log.saga}.log"
    data = bytearray(path.read_bytes())
    data[start + WHOLE + FRAME_HEADER + 99] ^= 1
    path.write_bytes(data)
    reading = store.read(log.saga)
    assert reading is not None
    assert reading.damage is not None
    assert len(reading.records) == 1


class Slow(System):
    """A disk that takes a long write in pieces and waits before each for a word."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.let = threading.Semaphore(0)
        self.piece = 0
        self.pwrite = self._pwrite

    def _pwrite(self, descriptor: int, data: bytes, offset: int, /) -> int:
        if not self.piece or len(data) <= self.piece:
            return os.pwrite(descriptor, data, offset)
        self.begun.release()
        assert self.let.acquire(timeout=60)
        return os.pwrite(descriptor, data[: self.piece], offset)


def test_a_reader_beside_the_writer_sees_a_long_record_only_when_it_is_whole(
    open_on: OpenOn, begin: Begin, place: Path
) -> None:
    disk = Slow()
    writer, reader = open_on(disk), FileStore(str(place), System())
    log = begin(writer)
    disk.piece = WHOLE // 3
    thread = threading.Thread(target=log.append, args=(noted(2 * PART_SIZE + 100),))
    thread.start()
    seen = 0
    while thread.is_alive() and disk.begun.acquire(timeout=60):
        assert [type(record) for record in records_of(reader, log.saga)] == [records.Began]
        reading = reader.read(log.saga)
        assert reading is not None
        assert reading.dropped == b""
        seen += 1
        disk.let.release()
        if seen == 4:
            break
    thread.join(60)
    assert seen == 4
    assert records_of(reader, log.saga)[1:] == [noted(2 * PART_SIZE + 100)]


LIVE = (
    PRELUDE
    + """
log = store.create(sys.argv[2])
log.append(began(log.saga))
tell("ready")
for line in sys.stdin:
    log.append(records.Noted(1, {"text": "x" * (5 << 20)}))
    log.sync(log.end)
    tell("synced")
"""
)


def test_a_long_record_that_was_synced_outlives_a_loss_of_power_without_its_journal(
    spawn: Spawn, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is too long for the journal: its file was synced."""
    saga = new_saga_id()
    child = spawn(LIVE, place, saga)
    assert line_of(child) == "ready"
    assert child.stdin is not None
    child.stdin.write("go\n")
    assert line_of(child) == "synced"
    child.kill()
    child.wait()
    for path in (place / "journals").glob("*.j"):
        assert path.stat().st_size < PART_SIZE
    restart(monkeypatch)
    assert records_of(FileStore(str(place), System()), saga)[1:] == [records.Noted(1, {"text": "x" * (5 << 20)})]
