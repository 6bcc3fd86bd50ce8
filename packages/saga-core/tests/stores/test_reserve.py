"""A full disk: nothing new begins, and what was done can still be undone and written down."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from saga_core import compensable, inverse, records, saga_scope
from saga_core.errors import StoreError, StoreFull
from saga_core.ids import new_saga_id
from saga_core.stores.file import FileStore
from saga_core.stores.log import FileLog
from saga_core.stores.reserve import SIZE
from saga_core.stores.system import System

Begin: TypeAlias = Callable[[FileStore], FileLog]


class Small(System):
    """A disk that is full from some moment on, but for what is freed on it."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.pwrite = self._pwrite
        self.truncate = self._truncate
        self.preallocate = self._preallocate

    def _take(self, size: int) -> None:
        if self.left is not None:
            if size > self.left:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.left -= size

    def _pwrite(self, descriptor: int, data: bytes | memoryview, offset: int, /) -> int:
        self._take(max(0, offset + len(data) - os.fstat(descriptor).st_size))
        return os.pwrite(descriptor, data, offset)

    def _truncate(self, descriptor: int, size: int, /) -> None:
        if self.left is not None:
            self.left += max(0, os.fstat(descriptor).st_size - size)
        os.ftruncate(descriptor, size)

    def _preallocate(self, descriptor: int, size: int, /) -> None:
        self._take(max(0, size - os.fstat(descriptor).st_size))
        os.posix_fallocate(descriptor, 0, size)


def store_on(disk: Small, place: Path) -> FileStore:
    return FileStore(str(place), disk)


def test_what_ends_something_is_written_into_the_reserve_and_what_begins_something_is_not(
    place: Path, begin: Begin
) -> None:
    disk = Small()
    store = store_on(disk, place)
    log = begin(store)
    assert (place / "reserve").stat().st_size == SIZE
    disk.left = 0
    with pytest.raises(StoreError, match="No space left"):
        log.append(records.ScopeOpened("1", "", "inner", 1))
    assert (place / "reserve").stat().st_size == SIZE, "nothing new may use it up"
    log.append(records.UnwindBegan("", "the disk is full", 2))
    log.sync(log.append(records.RolledBack(3)))
    assert (place / "reserve").stat().st_size == 0
    reading = store.read(log.saga)
    assert reading is not None
    assert reading.damage is None
    assert [type(record) for record in reading.records] == [records.Began, records.UnwindBegan, records.RolledBack]


def test_no_saga_begins_before_the_reserve_is_there_again(place: Path, begin: Begin) -> None:
    disk = Small()
    store = store_on(disk, place)
    log = begin(store)
    disk.left = 0
    log.append(records.UnwindBegan("", "the disk is full", 2))
    for _ in range(2):
        with pytest.raises(StoreFull):
            store.create(new_saga_id())
    disk.left = 1 << 30
    begin(store)
    assert (place / "reserve").stat().st_size == SIZE


def test_where_even_the_reserve_is_used_up_the_error_says_so(place: Path, begin: Begin) -> None:
    disk = Small()
    log = begin(store_on(disk, place))
    disk.left = -SIZE
    with pytest.raises(StoreError, match="No space left"):
        log.append(records.RolledBack(3))


LEDGER: list[str] = []


@inverse("reserve.remove", keyed=True)
def remove(name: str) -> None:
    LEDGER.remove(name)


@compensable("reserve.add", undo=lambda call: remove.bind(name=call.args["name"]))
def add(name: str) -> None:
    LEDGER.append(name)


def test_a_saga_that_meets_a_full_disk_undoes_what_it_did(place: Path) -> None:
    disk = Small()
    store = store_on(disk, place)
    with pytest.raises(StoreError), saga_scope(store=store) as saga:
        add("a")
        add("b")
        disk.left = 0
        add("c")
    assert LEDGER == []
    assert saga.report.state == "rolled_back"
    reading = store.read(saga.id)
    assert reading is not None
    assert reading.settled
