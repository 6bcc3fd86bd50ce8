"""Packing and dropping the settled sagas of past days: nothing is lost, whenever it is cut off."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from saga_core.errors import StoreBusy, StoreError, StoreFull
from saga_core.ids import start_date
from saga_core.stores import tombstone, upkeep
from saga_core.stores.file import FileStore
from saga_core.stores.pack import Draft
from saga_core.stores.retention import Collected, collect
from saga_core.stores.system import System
from saga_core.stores.tombstone import Tombstone

from .days import at_noon, contents, files, saga_of, settled_on

TODAY = "2026-06-30"
OLD, YOUNGER, YESTERDAY = "2026-06-20", "2026-06-27", "2026-06-29"
CHANGING = ("open", "pwrite", "sync_data", "rename", "sync_dir", "unlink", "rmdir", "mkdir")


def gc(store: FileStore, *, days: int = 90, today: str = TODAY, rehearsal: bool = False) -> Collected:
    return collect(store.archive, now=at_noon(today), days=days, is_rehearsal=rehearsal)


class Dead(BaseException):
    """The process died here."""


class Counting(System):
    """The real disk, that counts the calls that change it, and at one of them fails."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.fail_at = -1
        self.failure: BaseException = Dead()
        for name in CHANGING:
            setattr(self, name, self._watched(name, getattr(System, name)))

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **named: Any) -> Any:
            if name == "open" and not arguments[1] & (os.O_CREAT | os.O_TRUNC):
                return call(*arguments, **named)
            self.calls.append(f"{name} {os.path.basename(str(arguments[0]))}")  # noqa: PTH119 -- a descriptor, too
            if len(self.calls) - 1 == self.fail_at:
                raise self.failure
            bound = (self, *arguments) if name == "sync_dir" else arguments
            return call(*bound, **named)

        return watched


def test_days_older_than_two_go_into_a_pack_each_and_younger_ones_stay_files(store: FileStore) -> None:
    for day in (OLD, OLD, YOUNGER, "2026-06-28", YESTERDAY, TODAY, "2026-07-03"):
        settled_on(store, day, words=day)
    before = contents(store)
    done = gc(store)
    assert done.packed == {OLD: 2, YOUNGER: 1}
    assert (done.dropped, done.left, done.damaged) == ({}, [], [])
    assert contents(store) == before
    assert [name for name in files(store) if name.endswith(".pack")] == [f"{OLD}.pack", f"{YOUNGER}.pack"]
    assert len(files(store)) == 2 + 4
    assert not Path(store.archive.path, OLD).exists()


def test_a_second_run_changes_nothing(store: FileStore) -> None:
    settled_on(store, OLD)
    gc(store)
    packed = Path(store.archive.pack_path(OLD)).stat()
    done = gc(store)
    assert (done.packed, done.dropped) == ({}, {})
    again = Path(store.archive.pack_path(OLD)).stat()
    assert (again.st_ino, again.st_mtime_ns) == (packed.st_ino, packed.st_mtime_ns)


def test_what_settles_later_joins_the_pack_of_its_day(store: FileStore) -> None:
    first, second = settled_on(store, OLD, words="first"), settled_on(store, OLD, words="second")
    gc(store)
    third = settled_on(store, OLD, words="third")
    before = contents(store)
    assert gc(store).packed == {OLD: 1}
    assert contents(store) == before
    assert files(store) == [f"{OLD}.pack"]
    assert set(before) == {first, second, third}


def test_a_day_past_its_retention_is_dropped_whether_it_is_packed_or_not(store: FileStore) -> None:
    packed = settled_on(store, "2026-03-01")
    gc(store, days=9999)
    loose, kept = settled_on(store, "2026-03-02"), settled_on(store, "2026-04-01")
    assert gc(store, days=90).dropped == {"2026-03-01": 1, "2026-03-02": 1}
    assert list(contents(store)) == [kept]
    for saga in (packed, loose):
        assert store.read(saga) is None
        assert store.tombstone(saga) == Tombstone(saga, "dropped")
    assert store.tombstone(kept) is None
    assert store.tombstone(saga_of("2026-06-01")) is None
    assert files(store) == ["2026-04-01.pack", "kept-since"]


def test_the_span_of_the_retention_is_counted_in_whole_days(store: FileStore) -> None:
    for day in ("2026-06-24", "2026-06-25", "2026-06-30"):
        settled_on(store, day)
    assert gc(store, days=5).dropped == {"2026-06-24": 1}
    assert gc(store, days=0).dropped == {"2026-06-25": 1}
    assert gc(store, days=99_999_999).dropped == {}


def test_a_rehearsal_says_the_same_and_changes_nothing(store: FileStore) -> None:
    settled_on(store, "2026-03-01")
    settled_on(store, OLD)
    settled_on(store, OLD)
    before = files(store)
    rehearsed = gc(store, rehearsal=True)
    assert files(store) == before
    assert rehearsed == gc(store)


def test_an_open_saga_is_neither_packed_nor_dropped(store: FileStore) -> None:
    log = store.create(saga_of("2026-01-01"))
    path = Path(store.archive.path).parent / "open" / f"{log.saga}.log"
    settled_on(store, "2026-01-01")
    gc(store, days=0)
    assert path.exists()
    assert list(store.open_sagas()) == [log.saga]
    log.release()


@pytest.mark.parametrize("how", ["cut", "flipped", "copied", "linked", "held"])
def test_a_log_that_a_pack_cannot_vouch_for_stays_a_file(store: FileStore, how: str, tmp_path: Path) -> None:
    well, ill = settled_on(store, OLD), settled_on(store, OLD)
    path = Path(store.archive.log_path(ill))
    data = bytearray(path.read_bytes())
    holder = -1
    if how == "cut":
        os.truncate(path, 20)
    elif how == "flipped":
        data[200] ^= 1
        path.write_bytes(data)
    elif how == "copied":
        shutil.copy(path, tmp_path / "copy")
        (tmp_path / "copy").replace(path)
    elif how == "linked":
        os.link(path, tmp_path / "link")
    else:
        holder = os.open(path, os.O_RDONLY)
        fcntl.flock(holder, fcntl.LOCK_EX)
    before = path.read_bytes()
    for _ in range(2):
        done = gc(store)
        assert [left.path for left in done.left] == [str(path)]
        assert path.read_bytes() == before
    assert files(store) == [f"{OLD}.pack", f"{OLD}/{ill}.log"]
    reading = store.read(well)
    assert reading is not None
    assert reading.damage is None
    if holder >= 0:
        os.close(holder)
        assert gc(store).packed == {OLD: 1}


def test_a_log_that_differs_from_the_packed_one_is_left_beside_it(store: FileStore) -> None:
    saga = settled_on(store, OLD)
    path = Path(store.archive.log_path(saga))
    kept = path.read_bytes()
    gc(store)
    path.parent.mkdir()
    path.write_bytes(kept + b"more")
    done = gc(store)
    assert [left.path for left in done.left] == [str(path)]
    assert path.read_bytes() == kept + b"more"
    path.write_bytes(kept)
    assert gc(store).left == []
    assert files(store) == [f"{OLD}.pack"]


def test_a_damaged_pack_is_left_as_it_is_with_the_files_beside_it(store: FileStore) -> None:
    settled_on(store, OLD)
    settled_on(store, YOUNGER)
    gc(store)
    saga = settled_on(store, OLD)
    packed = Path(store.archive.pack_path(OLD))
    data = bytearray(packed.read_bytes())
    data[100] ^= 1
    packed.write_bytes(data)
    done = gc(store)
    assert [left.path for left in done.damaged] == [str(packed)]
    assert packed.read_bytes() == data
    assert files(store) == [f"{OLD}.pack", f"{OLD}/{saga}.log", f"{YOUNGER}.pack"]


def test_drafts_of_a_process_that_was_killed_are_deleted(store: FileStore) -> None:
    saga = settled_on(store, YESTERDAY)
    done = Path(store.archive.path)
    for name in (f"{OLD}.pack.new", "kept-since.new", f"{YESTERDAY}/{saga}.erased.new"):
        (done / name).write_bytes(b"half")
    gc(store)
    assert files(store) == [f"{YESTERDAY}/{saga}.log"]


def test_a_foreign_file_of_a_dropped_day_is_left(store: FileStore) -> None:
    settled_on(store, "2026-01-01")
    note = Path(store.archive.path, "2026-01-01", "note.txt")
    note.write_text("mine")
    done = gc(store)
    assert [left.path for left in done.left] == [str(note)]
    assert note.read_text() == "mine"


def prepared(place: Path) -> tuple[FileStore, Counting, dict[str, list[bytes]]]:
    """Return a store with a day to drop, one with pack, files and a tombstone, one to pack; and what must be kept."""
    system = Counting()
    store = FileStore(str(place), system)
    settled_on(store, "2026-01-01", words="dropped")
    settled_on(store, OLD, words="packed")
    erased = [settled_on(store, OLD, words="erased")]
    gc(store, days=9999)
    erased.append(settled_on(store, OLD, words="erased"))
    settled_on(store, OLD, words="joins")
    settled_on(store, YOUNGER, words="new")
    for saga in erased:
        store.archive.write(store.archive.tombstone_path(saga), tombstone.pack(Tombstone(saga, "erased", 1)))
    must = {saga: kept for saga, kept in contents(store).items() if start_date(saga) != "2026-01-01"}
    assert len(must) == 3
    system.calls.clear()
    return store, system, must


def wrong_after_crashes(folder: Path) -> list[str]:
    """Cut a run off at each call that changes the disk; return what was lost, and where the next did not end it."""
    store, system, _ = prepared(folder / "whole")
    gc(store)
    total = len(system.calls)
    assert total >= 25
    wrong: list[str] = []
    for at in range(total):
        store, system, must = prepared(folder / f"cut {at}")
        system.fail_at = at
        with pytest.raises(Dead):
            gc(store)
        system.fail_at = -1
        where = f"{at}, {system.calls[-1]}"
        for moment in ("at the crash", "in the next run"):
            found = contents(store)
            wrong += [f"{where}: {saga} lost {moment}" for saga, kept in must.items() if found.get(saga) != kept]
            gc(store)
        if files(store) != [f"{OLD}.pack", f"{YOUNGER}.pack", "kept-since"]:
            wrong.append(f"{where}: left {files(store)}")
        if b"erased" in Path(store.archive.pack_path(OLD)).read_bytes():
            wrong.append(f"{where}: an erased saga is still packed")
    return wrong


def test_a_run_that_is_cut_off_anywhere_loses_nothing_and_the_next_one_ends_it(tmp_path: Path) -> None:
    assert wrong_after_crashes(tmp_path) == []


def test_files_that_are_deleted_before_the_pack_has_its_name_are_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = Draft.finish

    def hasty(draft: Draft) -> None:
        try:
            finish(draft)
        except Dead:
            for unfinished in tmp_path.glob(f"cut */done/{YOUNGER}.pack.new"):
                for path in unfinished.parent.glob(f"{YOUNGER}/*.log"):
                    path.unlink()
            raise

    monkeypatch.setattr(Draft, "finish", hasty)
    assert any("lost at the crash" in words for words in wrong_after_crashes(tmp_path))


def test_a_file_is_deleted_only_when_pack_and_directory_are_on_disk(tmp_path: Path) -> None:
    store, system, _ = prepared(tmp_path / "store")
    gc(store)
    named = system.calls.index(f"rename {YOUNGER}.pack.new")
    before, after = system.calls[:named], system.calls[named + 1 :]
    assert before[-1].startswith("sync_data")
    assert after[0] == "sync_dir done"
    assert after[1].startswith("unlink")
    assert after[1].endswith(".log")


@contextmanager
def turn_of_another(store: FileStore) -> Generator[None]:
    holder = os.open(Path(store.archive.path).parent / upkeep.LOCK, os.O_RDWR | os.O_CREAT)
    fcntl.flock(holder, fcntl.LOCK_EX)
    yield
    os.close(holder)


def test_who_finds_another_at_work_changes_nothing_and_is_told(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "WAIT", 0.05)
    settled_on(store, OLD)
    before = files(store)
    with turn_of_another(store), pytest.raises(StoreBusy, match=r"upkeep\.lock"):
        gc(store)
    assert files(store) == before
    assert gc(store).packed == {OLD: 1}


@pytest.mark.parametrize("error", [28, 5], ids=["no room", "input/output error"])
def test_a_failing_disk_loses_nothing(place: Path, error: int) -> None:
    system = Counting()
    store = FileStore(str(place), system)
    settled_on(store, OLD, words="a")
    settled_on(store, OLD, words="b")
    before = contents(store)
    system.failure = OSError(error, "the disk failed")
    kinds: set[type[StoreError]] = set()
    for at in range(60):
        system.calls.clear()
        system.fail_at = at
        try:
            gc(store)
        except StoreError as told:
            kinds.add(type(told))
        assert contents(store) == before, f"call {at}"
    assert (StoreFull in kinds) == (error == 28)
    assert kinds
    system.fail_at = -1
    gc(store)
    assert contents(store) == before
    assert files(store) == [f"{OLD}.pack"]
