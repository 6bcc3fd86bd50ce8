"""Whose a journal is, among real processes: ended, killed, stopped and forked."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from saga_core.stores import copies
from saga_core.stores.file import FileStore
from saga_core.stores.system import System

from .disk import Witness, held_by, journals
from .test_processes import PRELUDE, line_of, say

Spawn: TypeAlias = Callable[..., subprocess.Popen[str]]
OpenOn: TypeAlias = Callable[[System], FileStore]

WRITE = (
    PRELUDE
    + """
def write(count):
    logs = [store.create(ids.new_saga_id()) for _ in range(count)]
    told = threading.Event()
    store.sync_later([(log, log.append(began(log.saga))) for log in logs], lambda problems: told.set())
    told.wait()
    return logs

logs = write(int(sys.argv[2]))
tell("ready")
sys.stdin.readline()
"""
)


def pids(place: Path) -> list[int]:
    """Return the processes whose journals lie in a store."""
    names = [copies.name_of(path.stem) for path in journals(place)]
    return sorted(name.pid for name in names if name is not None)


def sagas_in(path: Path) -> set[str]:
    return {copy.saga for copy in held_by(path)}


@pytest.fixture
def disk() -> Witness:
    return Witness()


@pytest.fixture
def store(open_on: OpenOn, disk: Witness) -> FileStore:
    return open_on(disk)


def test_a_process_that_ends_leaves_no_journal(spawn: Spawn, place: Path) -> None:
    child = spawn(WRITE, place, 3)
    assert line_of(child) == "ready"
    assert pids(place) == [child.pid]
    say(child)
    assert child.wait(60) == 0
    assert journals(place) == []
    assert len(list(place.glob("open/*.log"))) == 3


def test_a_process_with_many_sagas_leaves_its_journal_to_the_next(
    store: FileStore, disk: Witness, spawn: Spawn, place: Path
) -> None:
    """It ends at once, however many files there are to sync."""
    child = spawn(WRITE, place, 65)
    assert line_of(child) == "ready"
    say(child)
    assert child.wait(60) == 0
    (left,) = journals(place)
    assert len(sagas_in(left)) == 65
    store.tidy()
    assert journals(place) == []
    assert disk.wrongs == []


def test_a_killed_process_leaves_its_journal_and_whoever_tidies_brings_its_logs_to_the_disk(
    store: FileStore, disk: Witness, spawn: Spawn, place: Path
) -> None:
    child = spawn(WRITE, place, 5)
    assert line_of(child) == "ready"
    child.kill()
    child.wait()
    (left,) = journals(place)
    whole = {path: path.read_bytes() for path in place.glob("open/*.log")}
    store.tidy()
    assert journals(place) == []
    assert disk.wrongs == []
    assert {call.path for call in disk.calls if call.name == "sync"} >= set(map(str, whole))
    assert {path: path.read_bytes() for path in whole} == whole
    assert left not in journals(place)


def test_the_journal_of_a_killed_process_stays_while_a_log_of_it_cannot_be_synced(
    store: FileStore, disk: Witness, spawn: Spawn, place: Path
) -> None:
    child = spawn(WRITE, place, 2)
    assert line_of(child) == "ready"
    child.kill()
    child.wait()
    left = journals(place)
    disk.bad_syncs = {".log"}
    store.tidy()
    assert journals(place) == left
    disk.bad_syncs = set()
    store.tidy()
    assert journals(place) == []
    assert disk.wrongs == []


@pytest.mark.parametrize("is_stopped", [False, True], ids=["running", "stopped"])
def test_the_journal_of_a_live_process_is_left_alone(
    store: FileStore, spawn: Spawn, place: Path, *, is_stopped: bool
) -> None:
    child = spawn(WRITE, place, 2)
    assert line_of(child) == "ready"
    if is_stopped:
        os.kill(child.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
    before = journals(place)
    store.tidy()
    assert journals(place) == before
    assert pids(place) == [child.pid]


def test_a_journal_of_another_boot_is_not_tidied_away(store: FileStore, spawn: Spawn, place: Path) -> None:
    """It is replayed, by whoever opens the store next."""
    child = spawn(WRITE, place, 2)
    assert line_of(child) == "ready"
    child.kill()
    child.wait()
    (left,) = journals(place)
    name = copies.name_of(left.stem)
    assert name is not None
    other = left.with_name(f"{name._replace(boot='another-boot')}{copies.SUFFIX}")
    left.rename(other)
    store.tidy()
    assert journals(place) == [other]


FORK = (
    WRITE
    + """
pid = os.fork()
if not pid:
    tell("child of", os.getppid())
    sys.stdin.readline()
    write(1)
    tell("wrote")
    sys.stdin.readline()
    os._exit(0)
os.waitpid(pid, 0)
tell("alone")
sys.stdin.readline()
for log in logs:
    log.sync(log.append(records.Committing(1)))
tell("goes on")
sys.stdin.readline()
"""
)


def test_a_forked_child_makes_its_own_journal_and_neither_holds_nor_deletes_the_parents(
    store: FileStore, spawn: Spawn, place: Path
) -> None:
    parent = spawn(FORK, place, 2)
    assert line_of(parent) == "ready"
    (of_parent,) = journals(place)
    say(parent)
    assert line_of(parent) == f"child of {parent.pid}"
    say(parent)
    assert line_of(parent) == "wrote"
    assert len(pids(place)) == 2
    assert parent.pid in pids(place)
    (of_child,) = set(journals(place)) - {of_parent}
    assert sagas_in(of_parent).isdisjoint(sagas_in(of_child))
    say(parent)
    assert line_of(parent) == "alone"
    store.tidy()
    assert journals(place) == [of_parent], "the child is gone, the parent lives"
    say(parent)
    assert line_of(parent) == "goes on"
    assert journals(place) == [of_parent]
    assert len(held_by(of_parent)) == 4


ORPHAN = (
    WRITE
    + """
pid = os.fork()
if not pid:
    tell("child")
    sys.stdin.readline()
    os._exit(0)
sys.stdin.readline()
"""
)


def test_a_child_that_outlives_its_parent_does_not_hold_the_parents_journal(
    store: FileStore, disk: Witness, spawn: Spawn, place: Path
) -> None:
    parent = spawn(ORPHAN, place, 2)
    assert line_of(parent) == "ready"
    say(parent)
    assert line_of(parent) == "child"
    parent.kill()
    parent.wait()
    assert pids(place) == [parent.pid]
    store.tidy()
    assert journals(place) == []
    assert disk.wrongs == []
    say(parent)
