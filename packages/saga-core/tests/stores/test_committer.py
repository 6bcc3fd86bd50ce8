"""The thread that syncs for others."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from saga_core import records
from saga_core.errors import StoreError
from saga_core.stores.file import FileStore
from saga_core.stores.log import FileLog
from saga_core.stores.system import System

from .disk import FilesOnly, sync_later

Begin: TypeAlias = Callable[[FileStore], FileLog]
OpenOn: TypeAlias = Callable[[System], FileStore]


class Counted(FilesOnly):
    """Takes no journal. Counts the syncs of files, can hold the first of them, and tells of each."""

    def __init__(self) -> None:
        self.synced: list[int] = []
        self.told = threading.Semaphore(0)
        self.hold: threading.Event | None = None
        self.failures = 0
        self.sync_data = self._sync_data

    def _sync_data(self, descriptor: int, /) -> None:
        self.synced.append(descriptor)
        if self.hold is not None:
            assert self.hold.wait(30)
        try:
            if self.failures:
                self.failures -= 1
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            os.fdatasync(descriptor)
        finally:
            self.told.release()


class Answers:
    """Collects what waiters are told."""

    def __init__(self, count: int) -> None:
        self.errors: list[BaseException | None] = []
        self.threads: set[str] = set()
        self._left = count
        self.complete = threading.Event()

    def __call__(self, problems: list[BaseException | None]) -> None:
        self.errors += problems
        self.threads.add(threading.current_thread().name)
        self._left -= len(problems)
        if not self._left:
            self.complete.set()


def fresh(open_on: OpenOn) -> tuple[Counted, FileStore]:
    disk = Counted()
    store = open_on(disk)
    disk.synced.clear()
    while disk.told.acquire(blocking=False):
        pass
    return disk, store


def committers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "saga-committer"]


def test_what_gathers_during_a_sync_is_served_by_one_sync_of_each_log(open_on: OpenOn, begin: Begin) -> None:
    disk, store = fresh(open_on)
    disk.hold = threading.Event()
    first, second, third = begin(store), begin(store), begin(store)
    answers = Answers(13)
    sync_later(first, first.append(records.Committing(1)), answers)
    while not disk.synced:
        os.sched_yield()
    for _ in range(6):
        for log in (second, third):
            sync_later(log, log.append(records.Committing(1)), answers)
    disk.hold.set()
    assert answers.complete.wait(30)
    assert answers.errors == [None] * 13
    assert answers.threads == {"saga-committer"}
    assert len(disk.synced) == 3


def test_a_failure_reaches_those_who_wait_for_that_log_and_nobody_else(open_on: OpenOn, begin: Begin) -> None:
    disk, store = fresh(open_on)
    bad, good = begin(store), begin(store)
    disk.failures = 1
    failed, served = Answers(1), Answers(1)
    sync_later(bad, bad.append(records.Committing(1)), failed)
    assert failed.complete.wait(30)
    sync_later(good, good.append(records.Committing(1)), served)
    assert served.complete.wait(30)
    assert isinstance(failed.errors[0], StoreError)
    assert served.errors == [None]


def test_a_waiter_that_raises_does_not_end_the_thread(
    open_on: OpenOn, begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    _, store = fresh(open_on)
    log = begin(store)

    def broken(_: list[BaseException | None]) -> None:
        raise SystemExit("a bug of the caller")

    answers = Answers(1)
    position = log.append(records.Committing(1))
    sync_later(log, position, broken)
    sync_later(log, position, answers)
    assert answers.complete.wait(30)
    assert "could not be told" in caplog.text


def test_a_lazy_request_is_served_soon_and_once(open_on: OpenOn, begin: Begin) -> None:
    disk, store = fresh(open_on)
    log = begin(store)
    position = log.append(records.Committing(1))
    asked = time.monotonic()
    for _ in range(100):
        log.sync_soon()
    assert disk.told.acquire(timeout=30)
    assert time.monotonic() - asked >= 0.005, "an ordinary sync had no time to come first"
    store.close()  # the thread has ended: whatever it was going to do is done
    assert log.durable == position
    assert len(disk.synced) == 1


def test_an_ordinary_sync_in_time_makes_the_lazy_one_needless(open_on: OpenOn, begin: Begin) -> None:
    disk, store = fresh(open_on)
    log = begin(store)
    position = log.append(records.Committing(1))
    log.sync_soon()
    log.sync(position)
    store.close()
    assert len(disk.synced) == 1


def test_a_lazy_sync_that_fails_is_logged_and_made_good_by_the_next_barrier(
    open_on: OpenOn, begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    disk, store = fresh(open_on)
    log = begin(store)
    position = log.append(records.Committing(1))
    disk.failures = 1
    log.sync_soon()
    store.close()
    assert "could not be synced" in caplog.text
    log.sync(position)
    assert log.durable == position


def test_the_thread_ends_with_the_store_and_begins_again_with_the_next_request(open_on: OpenOn, begin: Begin) -> None:
    before = len(committers())
    _, store = fresh(open_on)
    assert len(committers()) == before
    log = begin(store)
    for _ in range(2):
        answers = Answers(1)
        sync_later(log, log.append(records.Committing(1)), answers)
        store.close()
        assert answers.errors == [None], "close serves what was asked for"
        assert len(committers()) == before


WITHOUT_THREADS = """
import os, sys, threading
from saga_core import ids, records
from saga_core.stores import open_store
store = open_store(sys.argv[1])
log = store.create(ids.new_saga_id())
position = log.append(records.Committing(1))
threading.stack_size(2**45)
try:
    threading.Thread(target=print).start()
except RuntimeError as error:
    print(error, flush=True)
def done(problems):
    print("told", *problems, threading.current_thread().name, flush=True)
store.sync_later([(log, position)], done)
log.append(records.Committed(2))
log.sync_soon()
print(log.durable > position, flush=True)
"""


def test_where_no_thread_can_be_started_the_caller_syncs_himself(
    spawn: Callable[..., subprocess.Popen[str]], place: Path
) -> None:
    """As at the end of the interpreter, or at the limit of the process."""
    child = spawn(WITHOUT_THREADS, place)
    assert child.stdout is not None
    assert child.stdout.read().splitlines() == ["can't start new thread", "told None MainThread", "True"]
