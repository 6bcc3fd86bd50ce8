"""The simulated disk against the real one, and what it says may survive."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saga_core.stores.system import System

from .content import SECTOR, Change, Content, doubt, outcome, picks
from .machine import Fault, Machine
from .simdisk import SimDisk
from .survivors import Doubts, kills, losses, parse, revive

if TYPE_CHECKING:
    from collections.abc import Callable

_PATHS = ("a", "b", "d/a", "d/e/b", "d", "d/e", "a/x", "nowhere/a")
_paths = st.sampled_from(_PATHS)
_flags = st.sampled_from(
    (
        os.O_RDONLY,
        os.O_RDWR,
        os.O_RDWR | os.O_CREAT,
        os.O_RDWR | os.O_CREAT | os.O_EXCL,
        os.O_RDWR | os.O_TRUNC,
    )
)
_numbers = st.integers(0, 3)
_locks = st.sampled_from((fcntl.LOCK_EX, fcntl.LOCK_SH, fcntl.LOCK_UN))
_acts = st.one_of(
    st.tuples(st.just("open"), _paths, _flags),
    st.tuples(st.just("pwrite"), _numbers, st.binary(max_size=700), st.integers(0, 1500)),
    st.tuples(st.just("pread"), _numbers, st.integers(0, 2000), st.integers(0, 1500)),
    st.tuples(st.just("truncate"), _numbers, st.integers(0, 1500)),
    st.tuples(st.just("flock"), _numbers, _locks),
    st.tuples(st.just("fstat"), _numbers),
    st.tuples(st.just("close"), _numbers),
    st.tuples(st.sampled_from(("stat", "listdir", "mkdir", "unlink", "exists")), _paths),
    st.tuples(st.sampled_from(("rename", "link")), _paths, _paths),
)


class _Player:
    """Does the same on any table of calls, and says what came of it in words that do not depend on the table."""

    def __init__(self, system: System, root: str) -> None:
        self._system = system
        self._root = root
        self._open: list[int] = []
        self._inodes: dict[int, int] = {}

    def play(self, act: tuple[Any, ...]) -> object:
        try:
            return self._do(*act)
        except OSError as error:
            return errno.errorcode[error.errno or 0]

    def _do(self, name: str, *args: Any) -> object:
        at = self._at
        match name, args:
            case "open", (path, flags):
                self._open.append(self._system.open(at(path), flags | os.O_CLOEXEC, 0o600))
                return None
            case "pwrite" | "pread" | "truncate" | "fstat" | "close" | "flock", (int(number), *rest):
                if not self._open:
                    return "nothing is open"
                descriptor: int = self._open[number % len(self._open)]
                if name == "close":
                    self._open.remove(descriptor)
                if name == "flock":
                    rest = [rest[0] | fcntl.LOCK_NB]
                found = getattr(self._system, name)(descriptor, *rest)
                return self._told(found) if name == "fstat" else found
            case "stat", (path,):
                return self._told(self._system.stat(at(path)))
            case "listdir", (path,):
                return sorted(self._system.listdir(at(path)))
            case _:
                return getattr(self._system, name)(*map(at, args))

    def _told(self, found: os.stat_result) -> object:
        number = self._inodes.setdefault(found.st_ino, len(self._inodes))
        is_file = found.st_mode & 0o170000 == 0o100000
        return (number, found.st_nlink, found.st_size) if is_file else "a directory"

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}"

    def end(self) -> None:
        for descriptor in self._open:
            self._system.close(descriptor)


@settings(max_examples=300, deadline=None)
@given(st.lists(_acts, max_size=40))
def test_the_simulated_disk_answers_as_the_real_one_does(acts: list[tuple[Any, ...]]) -> None:
    """But for what only another user, another file system or a full disk would see."""
    machine = Machine("boot-1")
    with tempfile.TemporaryDirectory() as root:
        real, simulated = _Player(System(), root), _Player(SimDisk(machine, "a"), "")
        for player in (real, simulated):
            player.play(("mkdir", "d"))
            player.play(("mkdir", "d/e"))
        for act in acts:
            if act[0] in {"open", "unlink", "rename", "link"} and _is_folder(Path(root), act):
                continue  # the store does none of this to a directory, and systems differ in what they say
            assert (act, simulated.play(act)) == (act, real.play(act))
        real.end()
        simulated.end()
    assert machine.descriptors == {}


def _is_folder(root: Path, act: tuple[Any, ...]) -> bool:
    return any((root / path).is_dir() for path in act[1:] if isinstance(path, str))


def machine_with(*acts: Callable[[SimDisk], object]) -> Machine:
    """Return a watched machine on which this was done."""
    machine = Machine("boot-1")
    machine.is_watched = True
    machine.mark("start")
    disk = SimDisk(machine, "a")
    for act in acts:
        act(disk)
    machine.mark("end")
    return machine


def after_loss(machine: Machine) -> set[tuple[tuple[str, bytes], ...]]:
    """Return every image that may come back: the files in the root, with their bytes."""
    doubts = Doubts()
    moment = machine.moments[-1]
    found: set[tuple[tuple[str, bytes], ...]] = set()
    for survivor in losses(moment, doubts, 10_000, random.Random(0)):
        assert parse(survivor.text) == survivor
        back = revive(moment, moment, survivor, doubts)
        names = {name: number for name, number in back.folders[1].items() if number in back.files}
        found.add(tuple(sorted((name, bytes(back.files[number].data)) for name, number in names.items())))
    return found


def written(*parts: bytes, name: str = "a") -> Callable[[SimDisk], object]:
    """Return what writes a file part by part, and proves none of it."""

    def act(disk: SimDisk) -> None:
        descriptor = disk.open(f"/{name}", os.O_RDWR | os.O_CREAT)
        at = 0
        for part in parts:
            disk.write_all(descriptor, part, at)
            at += len(part)

    return act


def synced(disk: SimDisk) -> None:
    disk.sync_data(max(disk.machine.descriptors))


def sync_fails(disk: SimDisk) -> None:
    disk.machine.fault = Fault("eio", disk.machine.calls)
    with pytest.raises(OSError, match="Input/output"):
        disk.sync_data(max(disk.machine.descriptors))
    disk.machine.fault = None


def named(disk: SimDisk) -> None:
    disk.sync_dir("/")


def test_nothing_that_was_not_synced_is_sure_to_survive_and_any_part_of_it_may() -> None:
    first, second = b"x" * SECTOR, b"y" * SECTOR
    zeros = bytes(SECTOR)
    found = after_loss(machine_with(written(first, second)))
    sizes = {b"", first, zeros, first + second, first + zeros, zeros + second, zeros + zeros}
    assert found == {(), *((("a", data),) for data in sizes)}


def test_what_a_sync_proved_survives_under_a_name_that_a_sync_proved() -> None:
    data = b"x" * 700
    assert after_loss(machine_with(written(data), synced)) == {(), (("a", data),)}
    assert after_loss(machine_with(written(data), synced, named)) == {(("a", data),)}


def test_an_append_may_tear_but_leaves_the_proven_bytes_of_its_sector() -> None:
    machine = machine_with(written(b"x" * 500), synced, named, lambda disk: _append(disk, b"y" * 600))
    sizes = {500, 1100}
    for ((_, data),) in after_loss(machine):
        assert data[:500] == b"x" * 500
        assert len(data) in sizes
        assert data[500:512] in {b"", bytes(12), b"y" * 12}


def _append(disk: SimDisk, data: bytes) -> None:
    descriptor = max(disk.machine.descriptors)
    disk.write_all(descriptor, data, disk.fstat(descriptor).st_size)


def test_after_a_failed_sync_only_what_is_written_again_can_be_proven() -> None:
    data = b"x" * 600
    retried = after_loss(machine_with(written(data), named, sync_fails, synced))
    assert ((("a", data)),) in retried
    assert len(retried) > 1, "a sync alone proves nothing"
    again = machine_with(written(data), named, sync_fails, written(data), synced)
    assert after_loss(again) == {(("a", data),)}


def test_a_rename_takes_its_bytes_along_or_not_at_all() -> None:
    machine = machine_with(written(b"1"), synced, named, written(b"2", name="b"), synced)
    SimDisk(machine, "a").rename("/b", "/a")
    assert after_loss(machine) == {(("a", b"1"),), (("a", b"1"), ("b", b"2")), (("a", b"2"),)}


def test_an_unlinked_file_is_gone_only_when_its_directory_is_synced() -> None:
    def gone(disk: SimDisk) -> None:
        disk.unlink("/a")

    assert after_loss(machine_with(written(b"1"), synced, named, gone)) == {(), (("a", b"1"),)}
    assert after_loss(machine_with(written(b"1"), synced, named, gone, named)) == {()}


def test_a_kill_keeps_the_page_cache_frees_the_locks_and_may_cut_a_write() -> None:
    def locked(disk: SimDisk) -> None:
        descriptor = disk.open("/a", os.O_RDWR | os.O_CREAT)
        disk.flock(descriptor, fcntl.LOCK_EX)
        disk.write_all(descriptor, b"abcdef", 0)

    machine = machine_with(locked)
    *_, before, moment, _ = machine.moments
    found: set[bytes] = set()
    for survivor in kills(moment):
        back = revive(moment, before, survivor, Doubts())
        assert back.boot == machine.boot
        disk = SimDisk(back, "b")
        descriptor = disk.open("/a", os.O_RDWR)
        disk.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found.add(disk.read_all(descriptor))
    assert found == {b"abcdef", b"a", b"abc", b"abcde"}


def test_a_lock_is_its_open_files_and_goes_with_its_process() -> None:
    machine = Machine("boot-1")
    first, second = SimDisk(machine, "a"), SimDisk(machine, "b")
    mine = first.open("/a", os.O_RDWR | os.O_CREAT)
    first.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
    other = second.open("/a", os.O_RDWR)
    with pytest.raises(BlockingIOError):
        second.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
    machine.kill("a")
    second.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


@given(
    st.lists(st.tuples(st.integers(0, 1500), st.binary(min_size=1, max_size=900)), max_size=6),
    st.integers(1, 60),
    st.integers(),
)
def test_every_outcome_is_made_of_bytes_that_were_there(writes: list[tuple[int, bytes]], limit: int, seed: int) -> None:
    """Each byte is one that a prefix of the changes had at its place, or a zero of a length that came alone."""
    changes = tuple(Change("write", at, data) for at, data in writes)
    state = bytearray(b"p" * 600)
    prefixes = [bytes(state)]
    for at, data in writes:
        state.extend(bytes(max(0, at + len(data) - len(state))))
        state[at : at + len(data)] = data
        prefixes.append(bytes(state))
    found = doubt(Content(bytes(state), prefixes[0], changes))
    chosen = picks(found, limit, random.Random(seed))
    assert len(chosen) == len(set(chosen))
    outcomes = {outcome(found, pick) for pick in chosen}
    if found.outcomes <= limit:
        assert {prefixes[0], prefixes[-1]} <= outcomes
    for data in outcomes:
        assert len(data) in {len(prefix) for prefix in prefixes}
        for at, byte in enumerate(data):
            assert byte in {0, *(prefix[at] for prefix in prefixes if at < len(prefix))}
