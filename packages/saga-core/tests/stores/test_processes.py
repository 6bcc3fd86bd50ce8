"""Ownership and survival among real processes: killed, stopped, racing and forked."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from saga_core import ids, records
from saga_core.stores.file import FileStore
from saga_core.stores.log import FileLog

Begin: TypeAlias = Callable[[FileStore], FileLog]
Spawn: TypeAlias = Callable[..., subprocess.Popen[str]]

PRELUDE = """
import os, sys, threading
from saga_core import ids, records
from saga_core.clock import SYSTEM
from saga_core.errors import SagaForked, StoreError
from saga_core.stores import open_store
from saga_core.stores.boot import boot_id

def began(saga):
    return records.Began(saga, "pay", None, SYSTEM.wall(), SYSTEM.up(), boot_id(), os.getpid(), "here", {})

def tell(*words):
    print(*words, flush=True)

store = open_store(sys.argv[1])
"""

APPEND = (
    PRELUDE
    + """
log = store.create(sys.argv[2])
log.append(began(log.saga))
text = "x" * int(sys.argv[3])
number = 0
while True:
    number += 1
    log.append(records.Noted(number, {"text": text}))
    tell(number)
"""
)

OWN = (
    PRELUDE
    + """
log = store.create(sys.argv[2])
log.append(began(log.saga))
tell("owns")
sys.stdin.readline()
"""
)

CLAIM = (
    PRELUDE
    + """
tell("ready")
for line in sys.stdin:
    claimed = store.claim(line.strip())
    tell("won" if claimed else "lost")
    sys.stdin.readline()
    if claimed:
        claimed[0].release()
    tell("free")
"""
)


def line_of(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def say(child: subprocess.Popen[str], words: str = "") -> None:
    assert child.stdin is not None
    child.stdin.write(words + "\n")
    child.stdin.flush()


@pytest.mark.parametrize("size", [10, 300_000], ids=["small records", "large records"])
def test_kill_9_loses_no_acknowledged_record_and_frees_the_log_at_once(
    store: FileStore, spawn: Spawn, place: Path, size: int
) -> None:
    dice = random.Random(size)
    for _ in range(8):
        saga = ids.new_saga_id()
        child = spawn(APPEND, place, saga, size)
        for _ in range(dice.randint(1, 40)):
            assert line_of(child)
        child.kill()
        assert child.stdout is not None
        rest = child.stdout.read().split("\n")[:-1]
        child.wait()
        acknowledged = int(rest[-1]) if rest else 0

        claimed = store.claim(saga)
        assert claimed is not None
        log, reading = claimed
        noted = [record.step for record in reading.records if isinstance(record, records.Noted)]
        assert noted == list(range(1, len(noted) + 1))
        assert len(noted) >= acknowledged
        log.append(records.Adopted(2, 1, 2, "boot", 1, "here", "test", reading.dropped))
        log.release()
        after = store.read(saga)
        assert after is not None
        assert after.damage is None
        assert len(after.records) == len(reading.records) + 1


def test_of_two_processes_that_claim_one_log_one_wins(
    store: FileStore, begin: Begin, spawn: Spawn, place: Path
) -> None:
    log = begin(store)
    log.release()
    children = [spawn(CLAIM, place) for _ in range(2)]
    assert [line_of(child) for child in children] == ["ready", "ready"]
    for _ in range(10):
        for child in children:
            say(child, log.saga)
        assert sorted(line_of(child) for child in children) == ["lost", "won"]
        for child in children:
            say(child)
        assert [line_of(child) for child in children] == ["free", "free"]


def test_a_stopped_owner_keeps_its_log_and_is_named(store: FileStore, spawn: Spawn, place: Path) -> None:
    saga = ids.new_saga_id()
    child = spawn(OWN, place, saga)
    assert line_of(child) == "owns"
    os.kill(child.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
    assert store.claim(saga) is None
    owner = store.owner(saga)
    assert owner is not None
    assert owner.startswith(f"pid {child.pid}, for ")
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert store.owner(saga) is None
    claimed = store.claim(saga)
    assert claimed is not None
    claimed[0].release()


FORK = (
    PRELUDE
    + """
log = store.create(sys.argv[2])
log.append(began(log.saga))
log.sync(log.append(records.Committing(1)))
told = threading.Event()
store.sync_later([(log, log.append(records.Committing(2)))], lambda problems: told.set())
told.wait()
log.sync_soon()

def refused(action):
    try:
        action()
    except SagaForked:
        return "forked"
    return "done"

ended, end = os.pipe()
pid = os.fork()
if not pid:
    os.close(end)
    answers = [refused(lambda: log.append(records.Committed(3))), refused(lambda: log.sync(10**9))]
    log.release()
    log.settle()
    own = store.create(ids.new_saga_id())
    told = threading.Event()
    store.sync_later([(own, own.append(began(own.saga)))], lambda problems: told.set() if problems == [None] else None)
    answers.append("synced" if told.wait(30) else "never")
    own.settle()
    tell("child", *answers)
    os.read(ended, 1)
    os._exit(0)
sys.stdin.readline()
log.append(records.Committing(4))
if sys.argv[3] == "parent first":
    log.release()
    tell("released")
    sys.stdin.readline()
os.close(end)
tell(os.waitpid(pid, 0)[1])
sys.stdin.readline()
"""
)


def test_a_forked_child_takes_nothing_from_the_parent(store: FileStore, spawn: Spawn, place: Path) -> None:
    saga = ids.new_saga_id()
    parent = spawn(FORK, place, saga, "child first")
    assert line_of(parent) == "child forked forked synced"
    assert store.claim(saga) is None
    say(parent)
    assert line_of(parent) == "0"
    assert store.claim(saga) is None, "the end of the child freed the parent's lock"
    reading = store.read(saga)
    assert reading is not None
    assert reading.records[1:] == [records.Committing(1), records.Committing(2), records.Committing(4)]
    assert list(store.open_sagas()) == [saga]


def test_a_living_child_does_not_hold_what_the_parent_gave_up(store: FileStore, spawn: Spawn, place: Path) -> None:
    saga = ids.new_saga_id()
    parent = spawn(FORK, place, saga, "parent first")
    assert line_of(parent).startswith("child")
    say(parent)
    assert line_of(parent) == "released"
    claimed = store.claim(saga)
    assert claimed is not None
    claimed[0].release()
    say(parent)
    assert line_of(parent) == "0"


STORM = (
    PRELUDE
    + """
import signal
log = store.create(sys.argv[2])
log.append(began(log.saga))

def forever(work):
    def run():
        while True:
            work()
    threading.Thread(target=run, daemon=True).start()

def live():
    other = store.create(ids.new_saga_id())
    other.sync(other.append(began(other.saga)))
    other.settle()

forever(lambda: log.append(records.Committing(1)))
forever(lambda: log.sync(log.append(records.Committing(2))))
forever(log.sync_soon)
forever(live)
number = 0
for _ in range(40):
    pid = os.fork()
    if not pid:
        signal.alarm(20)
        try:
            log.append(records.Committing(3))
        except SagaForked:
            pass
        else:
            os._exit(9)
        own = store.create(ids.new_saga_id())
        told = threading.Event()
        store.sync_later([(own, own.append(began(own.saga)))], lambda problems: told.set())
        own.sync(own.append(records.RolledBack(1)))
        told.wait()
        own.settle()
        os._exit(0 if open_store(sys.argv[1]) is store and len(os.listdir("/proc/self/fd")) < 12 else 8)
    tell(os.waitpid(pid, 0)[1])
tell("end")
"""
)


def test_a_fork_in_the_midst_of_everything_leaves_a_child_that_works(
    store: FileStore, spawn: Spawn, place: Path
) -> None:
    """Whatever lock another thread held when the process forked, the child neither hangs nor keeps a descriptor."""
    saga = ids.new_saga_id()
    parent = spawn(STORM, place, saga)
    answers = [line_of(parent) for _ in range(41)]
    assert answers == ["0"] * 40 + ["end"]
    parent.kill()
    parent.wait()
    reading = store.read(saga)
    assert reading is not None
    assert reading.damage is None


FULL = (
    PRELUDE
    + """
import resource
from saga_core.errors import StoreFull
first = store.create(ids.new_saga_id())
first.sync(first.append(began(first.saga)))
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
logs = [first]
try:
    while True:
        logs.append(store.create(ids.new_saga_id()))
except StoreFull as full:
    tell(len(logs), "half" in str(full))
for log in logs[1:]:
    log.sync(log.append(began(log.saga)))
logs.pop().settle()
logs.append(store.create(ids.new_saga_id()))
tell("goes on")
"""
)


def test_past_half_of_the_descriptors_no_saga_opens_and_the_running_ones_go_on(spawn: Spawn, place: Path) -> None:
    """The journal takes one of them."""
    child = spawn(FULL, place)
    assert line_of(child) == "19 True"
    assert line_of(child) == "goes on"


LIMITED = (
    PRELUDE
    + """
import resource
log = store.create(sys.argv[2])
log.append(began(log.saga))
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
number = 0
try:
    while True:
        number += 1
        log.append(records.Noted(number, {"text": "x" * 100}))
except StoreError as error:
    tell("refused", number)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
log.append(records.Noted(number, {"text": "x" * 100}))
log.append(records.Noted(number + 1, {"text": "x" * 100}))
tell("written")
sys.stdin.readline()
"""
)


def test_a_write_that_the_kernel_takes_half_of_is_taken_back(store: FileStore, spawn: Spawn, place: Path) -> None:
    saga = ids.new_saga_id()
    child = spawn(LIMITED, place, saga)
    refused = int(line_of(child).removeprefix("refused "))
    assert line_of(child) == "written"
    reading = store.read(saga)
    assert reading is not None
    assert [record.step for record in reading.records if isinstance(record, records.Noted)] == [
        *range(1, refused),
        refused,
        refused + 1,
    ]
