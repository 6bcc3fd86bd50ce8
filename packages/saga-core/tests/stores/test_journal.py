"""One journal for all logs of a process: one sync serves them all, and it goes only when they need it no more."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import pytest

from saga_core import records
from saga_core.errors import StoreError
from saga_core.stores import committer, journal, replay, reserve
from saga_core.stores.copies import Copy
from saga_core.stores.file import FileStore
from saga_core.stores.log import FileLog
from saga_core.stores.system import System

from .disk import Call, FilesOnly, Witness, held_by, journals, path_of, sync_later

Begin: TypeAlias = Callable[[FileStore], FileLog]
OpenOn: TypeAlias = Callable[[System], FileStore]


@pytest.fixture
def disk() -> Witness:
    return Witness()


@pytest.fixture
def store(open_on: OpenOn, disk: Witness) -> FileStore:
    opened = open_on(disk)
    disk.calls.clear()
    return opened


def file_of(place: Path, log: FileLog) -> Path:
    return place / "open" / f"{log.saga}.log"


def write(log: FileLog, size: int = 10) -> int:
    return log.append(records.Noted(1, {"text": "x" * size}))


def rotate_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each barrier begin a journal of its own and give the one before up."""
    monkeypatch.setattr(committer, "AGE", 0.0)


def is_held_whole(place: Path, logs: list[FileLog]) -> bool:
    """Tell whether the one journal holds every byte of the logs."""
    (path,) = journals(place)
    held = {log.saga: bytearray(file_of(place, log).stat().st_size) for log in logs}
    for copy in held_by(path):
        held[copy.saga][copy.offset : copy.offset + len(copy.data)] = copy.data
    return all(bytes(held[log.saga]) == file_of(place, log).read_bytes() for log in logs)


def test_one_sync_serves_fifty_logs_that_are_asked_for_at_once(
    store: FileStore, disk: Witness, begin: Begin, place: Path
) -> None:
    logs = [begin(store) for _ in range(50)]
    told: list[BaseException | None] = []
    for turn in range(2):
        disk.calls.clear()
        complete = threading.Event()
        wanted = [(log, write(log)) for log in logs]
        store.sync_later(wanted, lambda problems, done=complete: (told.extend(problems), done.set())[0])
        assert complete.wait(60)
        assert told == [None] * 50 * (turn + 1)
        assert all(log.durable == position for log, position in wanted)
        assert [call.path for call in disk.calls if call.name == "sync"] == [str(path) for path in journals(place)]
        assert is_held_whole(place, logs)


def is_waiting_for_its_turn(thread: threading.Thread) -> bool:
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    return frame is not None and frame.f_code.co_name == "_prove"


def test_threads_that_wait_while_a_sync_runs_are_served_by_the_next_one(
    store: FileStore, disk: Witness, begin: Begin, place: Path
) -> None:
    first, logs = begin(store), [begin(store) for _ in range(8)]
    begun, let = threading.Event(), threading.Event()
    plain = disk.sync_data

    def held_back(descriptor: int, /) -> None:
        begun.set()
        assert let.wait(60)
        plain(descriptor)

    disk.sync_data = held_back
    threads = [threading.Thread(target=first.sync, args=(first.end,))]
    threads[0].start()
    assert begun.wait(60)
    threads += [threading.Thread(target=log.sync, args=(log.end,)) for log in logs]
    for thread in threads[1:]:
        thread.start()
    while not all(is_waiting_for_its_turn(thread) for thread in threads[1:]):
        os.sched_yield()
    let.set()
    for thread in threads:
        thread.join(60)
    assert all(log.durable == log.end for log in [first, *logs])
    assert disk.count("sync", ".j") == 2
    assert disk.count("sync", ".log") == 0
    assert is_held_whole(place, [first, *logs])


def test_a_journals_name_is_on_disk_with_its_first_batch(
    store: FileStore, disk: Witness, begin: Begin, place: Path
) -> None:
    log = begin(store)
    log.sync(write(log))
    (path,) = journals(place)
    assert disk.calls[-2:] == [Call("sync", str(path)), Call("sync_dir", str(path.parent))]
    log.sync(write(log))
    assert disk.calls[-1] == Call("sync", str(path))


def test_a_journal_without_its_name_on_disk_proves_nothing(store: FileStore, disk: Witness, begin: Begin) -> None:
    log = begin(store)
    disk.bad_syncs = {"/journals"}
    log.sync(write(log))
    syncs = [call for call in disk.calls if call.name.startswith("sync")]
    assert syncs[-2:] == [Call("sync", file_name(log)), Call("sync_dir", file_name(log).rpartition("/")[0])]


def file_name(log: FileLog) -> str:
    return f"{log.store.url.removeprefix('file:')}/open/{log.saga}.log"


@pytest.mark.parametrize("fails", ["bad_syncs", "bad_writes"])
def test_where_the_journal_fails_each_log_is_synced_by_the_same_call(
    store: FileStore, disk: Witness, begin: Begin, place: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    logs = [begin(store) for _ in range(3)]
    logs[0].sync(logs[0].end)
    (failed,) = journals(place)
    setattr(disk, fails, {".j"})
    told: list[BaseException | None] = []
    complete = threading.Event()
    store.sync_later([(log, write(log)) for log in logs], lambda problems: (told.extend(problems), complete.set())[0])
    assert complete.wait(60)
    assert told == [None] * 3
    assert {call.path for call in disk.calls if call.name == "sync" and ".log" in call.path} >= set(
        map(file_name, logs)
    )
    disk.until(lambda: disk.count("unlink", failed.name) == 1)

    setattr(disk, fails, set())
    disk.calls.clear()
    logs[0].sync(write(logs[0]))
    assert [call.path for call in disk.calls if call.name == "sync"] == [file_name(logs[0])], "for some seconds"
    monkeypatch.setattr(committer, "_PAUSE", 0.0)
    disk.bad_writes = {".j"}
    store.committer.renew()
    logs[0].sync(write(logs[0]))
    disk.bad_writes = set()
    logs[0].sync(write(logs[0]))
    (fresh,) = journals(place)
    assert disk.calls[-2].path == str(fresh)
    assert disk.wrongs == []


def test_what_a_failed_journal_was_to_prove_is_never_believed_without_the_file(
    store: FileStore, disk: Witness, begin: Begin
) -> None:
    log = begin(store)
    log.sync(log.end)
    disk.bad_syncs = {".j", ".log"}
    with pytest.raises(StoreError, match="could not be synced"):
        log.sync(write(log))
    assert log.durable < log.end


class Full(Witness):
    """A disk without room for a journal."""

    def __init__(self) -> None:
        super().__init__()
        self.preallocate = self._preallocate

    def _preallocate(self, descriptor: int, size: int, /) -> None:
        if path_of(descriptor).endswith(".new"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.posix_fallocate(descriptor, 0, size)


def test_a_disk_without_room_for_a_journal_syncs_each_log_and_keeps_no_draft(
    open_on: OpenOn, begin: Begin, place: Path
) -> None:
    disk = Full()
    store = open_on(disk)
    log = begin(store)
    log.sync(write(log))
    assert log.durable == log.end
    assert disk.count("sync", file_name(log)) == 1
    assert list((place / "journals").iterdir()) == []


def test_a_store_that_was_deleted_is_noticed_by_the_next_barrier(store: FileStore, begin: Begin, place: Path) -> None:
    log = begin(store)
    log.sync(write(log))
    shutil.rmtree(place)
    position = write(log)
    with pytest.raises(StoreError, match="deleted"):
        log.sync(position)


def test_a_journal_that_was_deleted_proves_nothing(store: FileStore, disk: Witness, begin: Begin, place: Path) -> None:
    log = begin(store)
    log.sync(write(log))
    (path,) = journals(place)
    path.unlink()
    log.sync(write(log))
    assert disk.count("sync", file_name(log)) >= 1
    assert log.durable == log.end


def write_until_full(store: FileStore, disk: Witness, begin: Begin, place: Path) -> tuple[Path, list[FileLog]]:
    """Fill a journal; return it, gone by now, and its logs, one of them settled meanwhile."""
    logs = [begin(store) for _ in range(3)]
    settled = begin(store)
    settled.sync(settled.append(records.RolledBack(1)))
    (path,) = journals(place)
    settled.settle()
    while disk.count("unlink", path.name) == 0 and str(path) in {str(each) for each in journals(place)}:
        for log in logs:
            write(log, 3000)
        logs[0].sync(logs[0].end)
        for log in logs[1:]:
            log.sync(log.end)
        if len(journals(place)) > 1:
            break
    disk.until(lambda: disk.count("unlink", path.name) == 1)
    return path, logs


def make_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "SIZE", 1 << 16)
    monkeypatch.setattr(committer, "SIZE", 1 << 16)


def test_a_full_journal_is_deleted_only_when_its_logs_and_their_names_are_on_disk(
    store: FileStore, disk: Witness, begin: Begin, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_small(monkeypatch)
    path, logs = write_until_full(store, disk, begin, place)
    assert disk.wrongs == []
    end = next(number for number, call in enumerate(disk.calls) if call == Call("unlink", str(path)))
    before = disk.calls[:end]
    names = before.index(Call("sync_dir", str(place / "open")))
    assert all(Call("sync", file_name(log)) in before[:names] for log in logs)
    assert path not in journals(place)
    assert len(journals(place)) == 1


def test_the_checker_sees_a_journal_that_goes_before_its_logs_are_synced(
    store: FileStore, disk: Witness, begin: Begin, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A negative control, as the next one is."""

    def hasty(logs: replay.Logs, saga: str, held: object) -> str | None:
        return logs.find(saga) if held is not None else None

    monkeypatch.setattr(replay, "_sync", hasty)
    make_small(monkeypatch)
    write_until_full(store, disk, begin, place)
    assert any("is not on the disk" in wrong for wrong in disk.wrongs)


def test_the_checker_sees_a_journal_that_goes_before_the_names_of_its_logs_are_synced(
    store: FileStore, disk: Witness, begin: Begin, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = disk.sync_dir

    def forgetful(path: str) -> None:
        if path.endswith("journals"):
            plain(path)

    monkeypatch.setattr(disk, "sync_dir", forgetful)
    make_small(monkeypatch)
    write_until_full(store, disk, begin, place)
    assert {wrong.rpartition(" has ")[2] for wrong in disk.wrongs} == {"no name on the disk"}


@pytest.mark.parametrize("swallows", [False, True], ids=["as it is", "swallowed"])
def test_what_is_called_durable_is_on_the_disk_although_the_journal_fails(
    store: FileStore,
    disk: Witness,
    begin: Begin,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    swallows: bool,
) -> None:
    """The negative control is a journal that swallows the error of its sync."""
    make_small(monkeypatch)
    logs = [begin(store) for _ in range(3)]
    for log in logs:
        log.sync(log.end)
    assert disk.not_on_disk(place, logs) == []
    if swallows:
        plain = journal.Journal.write

        def swallow(self: journal.Journal, held: list[Copy]) -> None:
            with suppress(OSError):
                plain(self, held)

        monkeypatch.setattr(journal.Journal, "write", swallow)
    disk.bad_syncs = {".j"}
    for log in logs:
        log.sync(write(log))
        assert log.durable == log.end
    assert len(disk.not_on_disk(place, logs)) == (3 if swallows else 0)


def test_an_old_journal_is_given_up_at_the_next_barrier(
    store: FileStore, disk: Witness, begin: Begin, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = begin(store)
    log.sync(log.end)
    (old,) = journals(place)
    rotate_at_once(monkeypatch)
    log.sync(write(log))
    disk.until(lambda: disk.count("unlink", old.name) == 1)
    (fresh,) = journals(place)
    assert [copy.saga for copy in held_by(fresh)] == [log.saga]
    assert disk.wrongs == []


def test_an_old_journal_is_given_up_while_nothing_happens(
    store: FileStore, disk: Witness, begin: Begin, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "AGE", 0.01)
    log = begin(store)
    write(log)
    log.sync_soon()
    disk.until(lambda: disk.count("unlink", ".j") == 1)
    assert log.durable == log.end
    assert journals(place) == []
    assert disk.wrongs == []


def test_a_log_that_cannot_be_synced_keeps_its_journal_until_it_can(
    store: FileStore, disk: Witness, begin: Begin, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = begin(store), begin(store)
    bad.sync(bad.end)
    (old,) = journals(place)
    rotate_at_once(monkeypatch)
    disk.bad_syncs = {file_name(bad)}
    good.sync(write(good))
    disk.until(lambda: disk.count("failed", ".log") == 1)
    store.close()
    assert old in journals(place)
    assert bad.saga in {copy.saga for copy in held_by(old)}
    disk.bad_syncs = set()
    store.tidy()
    assert journals(place) == []
    assert disk.wrongs == []


def test_a_log_whose_sync_failed_for_one_journal_is_written_again_for_the_next(
    store: FileStore, disk: Witness, begin: Begin, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failed sync took what the next journal holds, too: the kernel believes those pages to be on the disk."""
    bad, other = begin(store), begin(store)
    bad.sync(bad.end)
    rotate_at_once(monkeypatch)
    disk.bad_syncs = {file_name(bad)}
    write(bad)
    bad.sync(bad.end)
    disk.until(lambda: disk.count("failed", ".log") == 1)
    second = next(path for path in journals(place) if len(held_by(path)) == 1 and held_by(path)[0].offset > 0)
    disk.bad_syncs = set()
    other.sync(write(other))
    disk.until(lambda: disk.count("unlink", second.name) == 1)
    assert disk.wrongs == []


def test_a_log_that_failed_beside_its_journal_is_written_again_before_the_journal_goes(
    store: FileStore, disk: Witness, begin: Begin, place: Path
) -> None:
    log = begin(store)
    log.sync(log.end)
    (old,) = journals(place)
    disk.bad_syncs = {".j", file_name(log)}
    with pytest.raises(StoreError):
        log.sync(write(log))
    store.close()
    disk.bad_syncs = set()
    store.tidy()
    assert old not in journals(place)
    assert disk.wrongs == []


def test_a_record_too_long_for_the_journal_is_synced_in_its_file(
    store: FileStore, disk: Witness, begin: Begin, place: Path
) -> None:
    long, short = begin(store), begin(store)
    complete = threading.Event()
    wanted = [(long, write(long, 2 << 20)), (short, write(short))]
    store.sync_later(wanted, lambda _: complete.set())
    assert complete.wait(60)
    assert disk.count("sync", file_name(long)) == 1
    (path,) = journals(place)
    assert {copy.saga for copy in held_by(path)} == {short.saga}


def test_a_store_that_closes_leaves_no_journal(open_on: OpenOn, begin: Begin, place: Path) -> None:
    for system in (System(), FilesOnly()):
        store = open_on(system)
        log = begin(store)
        answers: list[BaseException | None] = []
        sync_later(log, write(log), answers.extend)
        store.close()
        assert answers == [None]
        assert journals(place) == []


def test_where_no_room_can_be_taken_ahead_a_saga_begins_and_the_reserve_is_written(
    open_on: OpenOn, begin: Begin, place: Path
) -> None:
    begin(open_on(FilesOnly()))
    assert (place / "reserve").stat().st_size == reserve.SIZE
