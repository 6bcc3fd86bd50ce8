"""Packing, dropping and erasing on a simulated disk: whenever the power goes or the process dies, nothing is lost."""

from __future__ import annotations

import os
import random
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from saga_core import codec, frame, records
from saga_core.errors import LogDamaged
from saga_core.ids import new_saga_id
from saga_core.stores import fork, packing, tombstone
from saga_core.stores.archive import Archive
from saga_core.stores.pack import Draft
from saga_core.stores.retention import collect
from saga_core.stores.tombstone import Tombstone

from .machine import Machine
from .simdisk import SimDisk
from .survivors import Doubts, kills, losses, revive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STORE = "ab" * 16
DAY, DROPPED = "2026-06-20", "2026-01-01"
NOW = int(datetime(2026, 6, 30, 12, tzinfo=UTC).timestamp()) * 1_000_000_000
LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
STATES_A_MOMENT = 60
RUNNING: list[Machine] = []
"""Whose process is running now: the last one."""


def on(archive: Archive, run: Callable[[Archive], None]) -> None:
    """Run a process on the machine of an archive."""
    assert isinstance(archive.system, SimDisk)
    RUNNING.append(archive.system.machine)
    run(archive)


def saga_of(day: str) -> str:
    milliseconds = int(datetime.fromisoformat(day + "T12:00:00+00:00").timestamp()) * 1000
    return "".join(LETTERS[milliseconds >> 5 * place & 31] for place in reversed(range(10))) + new_saga_id()[10:]


class Scene:
    """A machine with settled sagas on its platter, and what must be kept of them.

    Attributes:
        machine: The machine.
        archive: What a process there sees.
        kept: The bytes of each saga that must never be lost.
        gone: Sagas of which nothing may be left in the end.
    """

    def __init__(self) -> None:
        self.machine = Machine("boot-1")
        disk = SimDisk(self.machine, "a")
        disk.mkdir("/store")
        disk.mkdir("/store/done")
        self.archive = Archive(disk, "/store/done", STORE)
        self.kept: dict[str, bytes] = {}
        self.gone: set[str] = set()

    def settle(self, day: str) -> str:
        """Put a saga away; it is on the platter."""
        disk, saga = self.archive.system, saga_of(day)
        if not disk.exists(f"/store/done/{day}"):
            disk.mkdir(f"/store/done/{day}")
        path = self.archive.log_path(saga)
        descriptor = disk.open(path, os.O_RDWR | os.O_CREAT)
        header = frame.FileHeader(saga, STORE, "boot-1", disk.fstat(descriptor).st_ino, os.urandom(16))
        seal = frame.seal_of(header.salt)
        first, crc = frame.build(
            seal, seal.seed, 1, 1, 0, 0, codec.encode(records.Began(saga, "pay", None, 1, 1, "boot-1", 1, "here", {}))
        )
        second, _ = frame.build(seal, crc, 17, 1, 1, 0, codec.encode(records.Committed(1)))
        disk.write_all(descriptor, header.pack() + first + second, 0)
        disk.sync_data(descriptor)
        disk.close(descriptor)
        for folder in (os.path.dirname(path), "/store/done", "/store", "/"):  # noqa: PTH120 -- of another machine
            disk.sync_dir(folder)
        self.kept[saga] = disk.read_file(path)
        return saga


class LostError(Exception):
    """A saga that was there is in no file any more, and nothing says why."""


def gc(archive: Archive) -> None:
    collect(archive, now=NOW)


def erasing(scene: Scene, saga: str) -> Callable[[Archive], None]:
    """Return what erases a saga of an archive: the part of it that is about `done/`."""
    scene.gone.add(saga)
    kept = scene.kept.pop(saga)

    def erase(archive: Archive) -> None:
        if not archive.is_erased(saga) and archive.tombstone(saga) is None:
            if bytes_of(archive, saga) != kept:
                raise LostError
            directory = f"/store/done/{DAY}"
            if not archive.system.exists(directory):
                archive.system.mkdir(directory)
            archive.system.sync_dir(archive.path)
            archive.write(archive.tombstone_path(saga), tombstone.pack(Tombstone(saga, "erased", 1)))
        packing.clear_drafts(archive)
        packing.drop_erased(archive, DAY)

    return erase


def bytes_of(archive: Archive, saga: str) -> bytes | None:
    """Return a saga's log, wherever it lies."""
    if archive.system.exists(archive.log_path(saga)):
        return archive.system.read_file(archive.log_path(saga))
    found = archive.open_pack(DAY)
    if found is None:
        return None
    with found:
        entry = found.find(saga)
        return None if entry is None or entry.kind != 0 else found.body(entry)


def survivors(scene: Scene, run: Callable[[Archive], None]) -> Iterator[tuple[str, Archive, bool]]:
    """Run, and yield every archive that a crash at any moment of it may leave; True for those behind its return."""
    machine, doubts, dice = scene.machine, Doubts(), random.Random(7)
    machine.is_watched = True
    machine.mark("begin")
    on(scene.archive, run)
    machine.is_watched = False
    moments = machine.moments
    for index, moment in enumerate(moments):
        before = moments[max(0, index - 1)]
        for survivor in (*kills(moment), *losses(moment, doubts, STATES_A_MOMENT, dice)):
            back = revive(moment, before, survivor, doubts)
            archive = Archive(SimDisk(back, "b"), "/store/done", STORE)
            yield f"{index} {moment.name} {survivor.text}", archive, index == len(moments) - 1


def explore(scene: Scene, run: Callable[[Archive], None]) -> Counter[str]:
    """Check every survivor as it is found, and once the same was run on it; count what was wrong, and the states."""
    wrong: Counter[str] = Counter()
    for _, archive, is_behind in survivors(scene, run):
        wrong["states"] += 1
        try:
            if any(bytes_of(archive, saga) != kept for saga, kept in scene.kept.items()):
                raise LostError
            if is_behind and any(bytes_of(archive, saga) is not None for saga in scene.gone):
                wrong["left after the return"] += 1
            on(archive, run)
            if any(bytes_of(archive, saga) != kept for saga, kept in scene.kept.items()):
                raise LostError
        except (LostError, LogDamaged):
            wrong["lost"] += 1
            continue
        if any(bytes_of(archive, saga) is not None for saga in scene.gone):
            wrong["left by the next run"] += 1
        if any(name.endswith(".new") for name in archive.names_in(archive.path)):
            wrong["drafts"] += 1
    return wrong


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """A scene; descriptors are closed on the machine on which they were opened."""

    def close(descriptor: int) -> None:
        fork.descriptors.discard(descriptor)
        RUNNING[-1].close(descriptor)

    monkeypatch.setattr(fork, "close", close)
    yield Scene()
    fork.descriptors.difference_update([number for number in fork.descriptors if number >= 1_000_000])
    RUNNING.clear()


def is_sound(found: Counter[str], *, at_least: int) -> bool:
    return set(found) == {"states"} and found["states"] >= at_least


def test_packing_loses_nothing_whenever_the_machine_stops(scene: Scene) -> None:
    scene.settle(DAY)
    scene.settle(DAY)
    found = explore(scene, gc)
    assert is_sound(found, at_least=90), found


def test_joining_a_pack_and_dropping_a_day_lose_nothing_whenever_the_machine_stops(scene: Scene) -> None:
    scene.settle(DAY)
    on(scene.archive, gc)
    scene.settle(DAY)
    dropped = scene.settle(DROPPED)
    del scene.kept[dropped]
    found = explore(scene, gc)
    assert is_sound(found, at_least=90), found


@pytest.mark.parametrize("is_packed", [False, True], ids=["file", "pack"])
def test_an_erasure_is_complete_at_its_return_and_touches_no_other_saga(scene: Scene, *, is_packed: bool) -> None:
    saga = scene.settle(DAY)
    scene.settle(DAY)
    if is_packed:
        on(scene.archive, gc)
    found = explore(scene, erasing(scene, saga))
    assert is_sound(found, at_least=30), found


def nothing(_: object) -> None:
    """Sync nothing, and say that it was done."""


@pytest.mark.parametrize("call", ["sync_data", "sync_dir"])
def test_a_sync_that_is_left_out_of_packing_is_caught(scene: Scene, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Draft.finish

    def hasty(draft: Draft) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(scene.archive.system, call, nothing)
            whole(draft)

    scene.settle(DAY)
    scene.settle(DAY)
    monkeypatch.setattr(Draft, "finish", hasty)
    assert explore(scene, gc)["lost"] > 0


def test_a_tombstone_that_is_not_synced_is_caught(scene: Scene) -> None:
    """The log could be gone, and nothing say why; or be read again."""
    saga = scene.settle(DAY)
    scene.settle(DAY)
    erase = erasing(scene, saga)

    def hasty(archive: Archive) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(archive.system, "sync_dir", nothing)
            erase(archive)

    found = explore(scene, hasty)
    assert found["left after the return"] + found["lost"] > 0, found
