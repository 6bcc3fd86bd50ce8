"""One log over a disk that fails: what is proven to be on it, and what is left when something goes wrong.

Where the disk matters here it takes no journal, so that each log is synced by itself.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from saga_core import codec, records
from saga_core.errors import StoreError, StoreFull
from saga_core.frame import parse
from saga_core.ids import new_saga_id
from saga_core.stores.boot import boot_id
from saga_core.stores.file import FileStore
from saga_core.stores.log import FileLog
from saga_core.stores.system import System

from .disk import FilesOnly

Begin: TypeAlias = Callable[[FileStore], FileLog]
OpenOn: TypeAlias = Callable[[System], FileStore]


def file_of(place: Path, log: FileLog) -> Path:
    return place / "open" / f"{log.saga}.log"


def history_of(store: FileStore, saga: str) -> list[records.Record]:
    reading = store.read(saga)
    assert reading is not None
    assert reading.damage is None
    return reading.records


class Platter(FilesOnly):
    """A disk below the page cache: written pages are dirty until a sync, and a failed sync marks them clean.

    So do ext4, XFS and Btrfs (Rebello et al., "Can Applications Recover from fsync Failures?", USENIX ATC 2020).
    """

    def __init__(self) -> None:
        self.on_disk: dict[int, bytearray] = {}
        self.dirty: list[tuple[int, int, bytes]] = []
        self.failures = 0
        self.pwrite = self._pwrite
        self.sync_data = self._sync_data

    def _pwrite(self, descriptor: int, data: bytes, offset: int, /) -> int:
        self.dirty.append((os.fstat(descriptor).st_ino, offset, bytes(data)))
        return os.pwrite(descriptor, data, offset)

    def _sync_data(self, _: int, /) -> None:
        dirty, self.dirty = self.dirty, []
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        for inode, offset, data in dirty:
            file = self.on_disk.setdefault(inode, bytearray())
            file.extend(bytes(max(0, offset + len(data) - len(file))))
            file[offset : offset + len(data)] = data

    def after_power_loss(self, path: Path) -> list[records.Record]:
        parsed = parse(bytes(self.on_disk[path.stat().st_ino]), boot="the next boot")
        assert parsed.damage is None
        return [codec.decode(frame.payload) for frame in parsed.frames]


class ForgetfulPlatter(Platter):
    """The negative control: a store over it believes that it wrote the unproven bytes again."""

    def write_all(self, descriptor: int, data: bytes, offset: int) -> None:
        if os.fstat(descriptor).st_size == 0:
            super().write_all(descriptor, data, offset)


@pytest.mark.parametrize("failures", [1, 3])
def test_a_record_whose_sync_failed_is_on_disk_after_the_next_good_one(
    open_on: OpenOn, begin: Begin, place: Path, failures: int
) -> None:
    disk = Platter()
    log = begin(open_on(disk))
    log.sync(log.append(records.ScopeOpened("1", "", "a", 1)))

    lost = records.ScopeOpened("2", "", "b", 2)
    position = log.append(lost)
    disk.failures = failures
    for _ in range(failures):
        with pytest.raises(StoreError, match="could not be synced") as caught:
            log.sync(position)
        assert isinstance(caught.value.__cause__, OSError)
        assert log.durable < position
    later = records.ScopeOpened("3", "", "c", 3)
    log.sync(log.append(later))
    assert disk.after_power_loss(file_of(place, log))[-2:] == [lost, later]


def test_without_writing_again_the_record_would_be_lost(open_on: OpenOn, begin: Begin, place: Path) -> None:
    """The negative control of the test above: a plain second sync proves nothing."""
    disk = ForgetfulPlatter()
    log = begin(open_on(disk))
    log.sync(log.append(records.ScopeOpened("1", "", "a", 1)))
    position = log.append(records.ScopeOpened("2", "", "b", 2))
    disk.failures = 1
    with pytest.raises(StoreError):
        log.sync(position)
    log.sync(position)
    assert log.durable == position
    assert [type(record) for record in disk.after_power_loss(file_of(place, log))] == [
        records.Began,
        records.ScopeOpened,
    ]


def test_what_the_last_owner_did_not_prove_is_on_disk_after_the_next_owners_sync(
    open_on: OpenOn, begin: Begin, place: Path
) -> None:
    disk = Platter()
    store = open_on(disk)
    log = begin(store)
    log.sync(log.append(records.ScopeOpened("1", "", "a", 1)))
    disk.failures = 1
    unproven = records.ScopeOpened("2", "", "b", 2)
    position = log.append(unproven)
    with pytest.raises(StoreError):
        log.sync(position)
    log.release()

    claimed = store.claim(log.saga)
    assert claimed is not None
    adopted = records.Adopted(2, 1, 2, boot_id(), os.getpid(), "here", "test")
    claimed[0].sync(claimed[0].append(adopted))
    assert disk.after_power_loss(file_of(place, log))[-2:] == [unproven, adopted]
    claimed[0].release()


class Clumsy(FilesOnly):
    """A disk that plays a queue of faults: an errno, or a number of bytes after which a write stops."""

    def __init__(self) -> None:
        self.faults: list[int | BaseException] = []
        self.stuck = False
        self.pwrite = self._pwrite
        self.truncate = self._truncate

    def _pwrite(self, descriptor: int, data: bytes, offset: int, /) -> int:
        if not self.faults:
            return os.pwrite(descriptor, data, offset)
        fault = self.faults.pop(0)
        if isinstance(fault, OSError):
            raise fault
        if isinstance(fault, BaseException):
            os.pwrite(descriptor, data, offset)
            raise fault
        return os.pwrite(descriptor, data[:fault], offset)

    def _truncate(self, descriptor: int, size: int, /) -> None:
        if self.stuck:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.ftruncate(descriptor, size)


FULL: BaseException = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_short_write_is_completed(open_on: OpenOn, begin: Begin) -> None:
    disk = Clumsy()
    store = open_on(disk)
    log = begin(store)
    disk.faults = [5, 1, 7]
    log.append(records.Noted(1, {"text": "x" * 100}))
    assert history_of(store, log.saga)[1:] == [records.Noted(1, {"text": "x" * 100})]
    assert disk.faults == []


@pytest.mark.parametrize("faults", [[FULL], [9, FULL]], ids=["at once", "in the middle"])
@pytest.mark.parametrize("is_stuck", [False, True], ids=["truncates", "cannot truncate"])
def test_a_record_that_does_not_fit_leaves_nothing_and_its_retry_stands_once(
    open_on: OpenOn, begin: Begin, faults: list[int | BaseException], *, is_stuck: bool
) -> None:
    disk = Clumsy()
    store = open_on(disk)
    log = begin(store)
    disk.faults, disk.stuck = list(faults), is_stuck
    with pytest.raises(StoreError, match="No space left") as caught:
        log.append(records.ScopeOpened("1", "", "x" * 100, 1))
    assert caught.value.saga_id == log.saga
    if is_stuck:
        with pytest.raises(StoreError, match="could not be written"):
            log.append(records.Committing(2))
    disk.stuck = False
    log.append(records.Committing(2))
    log.append(records.Noted(1, {"text": "y"}))
    assert history_of(store, log.saga)[1:] == [records.Committing(2), records.Noted(1, {"text": "y"})]


def test_a_process_that_dies_with_half_a_record_written_leaves_a_torn_tail(open_on: OpenOn, begin: Begin) -> None:
    disk = Clumsy()
    store = open_on(disk)
    log = begin(store)
    disk.faults, disk.stuck = [20, FULL], True
    with pytest.raises(StoreError):
        log.append(records.Committing(2))
    log.release()
    claimed = store.claim(log.saga)
    assert claimed is not None
    assert len(claimed[1].dropped) == 20
    claimed[0].release()


def test_an_interrupt_behind_a_whole_write_keeps_the_record(open_on: OpenOn, begin: Begin) -> None:
    """Python raises KeyboardInterrupt as soon as the call has returned: whoever reads the file sees the record."""
    disk = Clumsy()
    store = open_on(disk)
    log = begin(store)
    disk.faults = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        log.append(records.Committing(2))
    position = log.append(records.Committed(3))
    log.sync(position)
    assert log.durable == position
    assert history_of(store, log.saga)[1:] == [records.Committing(2), records.Committed(3)]


def test_a_full_disk_opens_no_saga_and_leaves_no_file(open_on: OpenOn, place: Path) -> None:
    disk = Clumsy()
    store = open_on(disk)
    disk.faults = [FULL]
    with pytest.raises(StoreFull):
        store.create(new_saga_id())
    assert list((place / "open").iterdir()) == []


def test_a_saga_is_created_once(store: FileStore, begin: Begin) -> None:
    log = begin(store)
    with pytest.raises(StoreError, match="exists"):
        store.create(log.saga)
    assert len(history_of(store, log.saga)) == 1


def test_a_log_deleted_under_its_owner_takes_nothing_more(store: FileStore, begin: Begin, place: Path) -> None:
    log = begin(store)
    file_of(place, log).unlink()
    position = log.append(records.Committing(1))
    for _ in range(2):
        with pytest.raises(StoreError, match="deleted"):
            log.sync(position)
    with pytest.raises(StoreError, match="deleted"):
        log.append(records.Committed(2))


class Gated(FilesOnly):
    """A disk whose syncs of files wait until they are let through."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.let = threading.Semaphore(0)
        self.syncs = 0
        self.failures = 0
        self.sync_data = self._sync_data

    def _sync_data(self, descriptor: int, /) -> None:
        self.syncs += 1
        self.begun.release()
        assert self.let.acquire(timeout=30)
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.fdatasync(descriptor)


def in_threads(count: int, work: Callable[[], object]) -> tuple[list[threading.Thread], list[BaseException]]:
    """Start threads; return them and what they raise."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except StoreError as error:
            raised.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads, raised


def opened_gated(open_on: OpenOn) -> tuple[Gated, FileStore]:
    disk = Gated()
    disk.let.release()  # the store's own files
    disk.let.release()
    store = open_on(disk)
    disk.syncs = 0
    while disk.begun.acquire(blocking=False):
        pass
    return disk, store


def test_one_sync_serves_everybody_whose_bytes_preceded_it(open_on: OpenOn, begin: Begin) -> None:
    disk, store = opened_gated(open_on)
    log = begin(store)
    early = log.append(records.Committing(1))
    first, raised = in_threads(1, lambda: log.sync(early))
    assert disk.begun.acquire(timeout=30)
    covered, covered_raised = in_threads(4, lambda: log.sync(early))
    late = log.append(records.Committed(2))
    behind, behind_raised = in_threads(4, lambda: log.sync(late))
    disk.let.release()
    for thread in [*first, *covered]:
        thread.join(30)
    assert disk.begun.acquire(timeout=30)
    assert log.durable == early
    disk.let.release()
    for thread in behind:
        thread.join(30)
    assert log.durable == late
    assert disk.syncs == 2
    assert raised == covered_raised == behind_raised == []


def test_a_failed_sync_is_tried_again_by_each_who_waits_and_told_to_the_first(open_on: OpenOn, begin: Begin) -> None:
    """Who waits behind a failed sync writes the bytes again and syncs himself: his own answer is never a guess."""
    disk, store = opened_gated(open_on)
    log = begin(store)
    position = log.append(records.Committing(1))
    disk.failures = 1
    leading, raised = in_threads(1, lambda: log.sync(position))
    assert disk.begun.acquire(timeout=30)
    behind, behind_raised = in_threads(3, lambda: log.sync(position))
    for _ in range(2):
        disk.let.release()
    for thread in [*leading, *behind]:
        thread.join(30)
    assert [type(error.__cause__) for error in raised] == [OSError]
    assert behind_raised == []
    assert disk.syncs == 2
    assert log.durable == position


def test_the_descriptor_is_closed_only_behind_the_sync_that_uses_it(open_on: OpenOn, begin: Begin) -> None:
    disk, store = opened_gated(open_on)
    log = begin(store)
    position = log.append(records.Committing(1))
    syncing, raised = in_threads(1, lambda: log.sync(position))
    assert disk.begun.acquire(timeout=30)
    releasing, _ = in_threads(1, log.release)
    assert store.owner(log.saga) is not None
    disk.let.release()
    for thread in [*syncing, *releasing]:
        thread.join(30)
    assert raised == []
    assert log.durable == position
    assert store.owner(log.saga) is None
    with pytest.raises(StoreError, match="given up"):
        log.append(records.Committed(2))


class BadDirectory(FilesOnly):
    """A disk whose directories cannot be synced for a while."""

    def __init__(self) -> None:
        self.failures = 0

    def sync_dir(self, path: str) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync_dir(path)


def test_a_name_whose_directory_failed_to_sync_is_never_called_durable(open_on: OpenOn, begin: Begin) -> None:
    """The kernel may believe the entry clean after the failure, so a later good sync proves nothing about it."""
    disk = BadDirectory()
    store = open_on(disk)
    before, beside = begin(store), begin(store)
    disk.failures = 1
    for log in (before, before, beside):
        with pytest.raises(StoreError, match="could not be synced"):
            log.sync(log.append(records.Committing(1)))
    later = begin(store)
    position = later.append(records.Committing(1))
    later.sync(position)
    assert later.durable == position


def test_the_first_sync_of_a_log_brings_its_name_to_the_disk(open_on: OpenOn, begin: Begin, place: Path) -> None:
    synced: list[str] = []

    class Noting(FilesOnly):
        def sync_dir(self, path: str) -> None:
            synced.append(path)
            super().sync_dir(path)

    store = open_on(Noting())
    log, other = begin(store), begin(store)
    synced.clear()
    log.sync(log.append(records.Committing(1)))
    log.sync(log.append(records.Committing(2)))
    other.sync(other.append(records.Committing(1)))
    assert synced == [str(place / "open")]
