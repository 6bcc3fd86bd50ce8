"""Erasing: no byte of a saga stays readable anywhere in its store, and the others keep theirs."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from saga_core import records
from saga_core.errors import LogDamaged, SagaUnsettled, StoreError
from saga_core.ids import key_digest, new_saga_id, start_date
from saga_core.permissions import Decision, Request
from saga_core.stores import fork, packing
from saga_core.stores.erasure import erase
from saga_core.stores.file import FileStore
from saga_core.stores.retention import collect
from saga_core.stores.system import System
from saga_core.stores.tombstone import Tombstone

from .days import at_noon, contents, files, saga_of, settled_on
from .test_packing import Counting, Dead

TODAY, YESTERDAY, OLD = "2026-06-30", "2026-06-29", "2026-06-20"
NOW = at_noon(TODAY)
SECRET = "Ada Lovelace"
KEY = "customer ada@example.org"


def gc(store: FileStore) -> None:
    collect(store.archive, now=NOW)


def traces(place: Path) -> list[str]:
    """Return the files of a store in which a byte of the saga to be erased can be read."""
    needles = [SECRET.encode(), KEY.encode(), b"ada@"]
    return sorted(
        str(path.relative_to(place))
        for path in place.rglob("*")
        if path.is_file() and any(needle in path.read_bytes() for needle in needles)
    )


def marked(store: FileStore, day: str) -> str:
    saga = settled_on(store, day, words=SECRET, key=KEY)
    assert store.take_key(KEY, saga, 1)
    request = Request(f"of {saga}", saga, "step", "digest", 1, SECRET)
    store.permits.ask(request, 10**15)
    store.permits.decide(request.id, Decision(SECRET, "reject", SECRET, "digest", SECRET.encode()), lambda _: None)
    return saga


@pytest.mark.parametrize("is_packed", [False, True], ids=["file", "pack"])
def test_an_erased_saga_leaves_a_tombstone_and_no_readable_byte(
    store: FileStore, place: Path, *, is_packed: bool
) -> None:
    saga = marked(store, OLD)
    for day in (OLD, OLD, YESTERDAY):
        settled_on(store, day, words="kept")
    if is_packed:
        gc(store)
    assert traces(place)
    before = contents(store)
    del before[saga]
    assert erase(store, saga, now=17, by="Bob") == Tombstone(saga, "erased", 17, "Bob")
    assert traces(place) == []
    assert contents(store) == before
    for _ in range(2):
        assert store.read(saga) is None
        assert store.claim(saga) is None
        assert store.tombstone(saga) == Tombstone(saga, "erased", 17, "Bob")
        assert store.key_holder(KEY) == (saga, 1)
        gc(store)
        assert contents(store) == before
        assert traces(place) == []
    assert files(store)[0] == f"{OLD}.pack"
    assert [name for name in files(store) if name.endswith(".erased")] == []


def test_a_second_erasure_keeps_the_first_tombstone(store: FileStore) -> None:
    saga = marked(store, YESTERDAY)
    first = erase(store, saga, now=1, by="Bob")
    assert erase(store, saga, now=2, by="Eve") == first
    assert erase(store, new_saga_id(), now=2) is None


def test_what_is_not_settled_is_not_erased(store: FileStore, place: Path) -> None:
    log = store.create(saga_of(OLD))
    log.append(records.Began(log.saga, SECRET, KEY, 1, 1, "boot", 1, "here", {}))
    log.release()
    with pytest.raises(SagaUnsettled) as caught:
        erase(store, log.saga, now=1)
    assert caught.value.saga_id == log.saga
    assert traces(place) == [f"open/{log.saga}.log"]
    assert store.tombstone(log.saga) is None
    assert store.claim(log.saga) is not None


def test_a_damaged_log_can_be_erased_too(store: FileStore, place: Path) -> None:
    saga = marked(store, OLD)
    path = Path(store.archive.log_path(saga))
    path.write_bytes(path.read_bytes()[:-30] + b"\0" * 30)
    erase(store, saga, now=1)
    assert traces(place) == []


def test_a_damaged_pack_is_not_written_anew_and_its_saga_is_shown_to_nobody(store: FileStore, place: Path) -> None:
    saga, other = marked(store, OLD), settled_on(store, OLD, words="kept")
    gc(store)
    store.close()  # retires its journal
    packed = Path(store.archive.pack_path(OLD))
    data = bytearray(packed.read_bytes())
    with store.archive.open_pack(OLD) or pytest.fail("no pack") as opened:
        entry = opened.find(other)
    assert entry is not None
    data[entry.offset + 150] ^= 1
    packed.write_bytes(data)
    with pytest.raises(LogDamaged):
        erase(store, saga, now=1)
    assert store.read(saga) is None
    assert packed.read_bytes() == data
    assert traces(place) == [f"done/{OLD}.pack"]


def test_what_sqlite_keeps_of_changed_pages_goes_too(store: FileStore, place: Path) -> None:
    """Today a row holds digests only; this is about whatever else comes to stand in that file."""
    saga = marked(store, YESTERDAY)
    with closing(sqlite3.connect(place / "control.db", isolation_level=None)) as connection:
        connection.execute("pragma journal_mode = persist")
        connection.execute("pragma secure_delete = on")
        connection.execute("create table notes (words text)")
        connection.execute("insert into notes values (?)", (SECRET,))
        connection.execute("delete from notes")
    assert "control.db-journal" in traces(place), "else this test proves nothing"
    erase(store, saga, now=1)
    assert traces(place) == []
    with closing(sqlite3.connect(place / "control.db")) as connection:
        assert connection.execute("select digest from keys").fetchall() == [(key_digest(KEY),)]


def die(store: FileStore, place: Path) -> None:
    """Lose every lock, as a process does that is killed; other stores' descriptors are not this one's to close."""
    for descriptor in list(fork.descriptors):
        if Path(f"/proc/self/fd/{descriptor}").readlink().is_relative_to(place):
            fork.close(descriptor)
    store.die_in_child()


def wrong_after_crashes(folder: Path, *, is_packed: bool, by_gc: bool) -> list[str]:
    """Cut an erasure off at each call that changes the disk; return where the next run does not complete it."""
    wrong: list[str] = []
    at = 0
    while True:
        place = folder / f"{is_packed} {at}"
        system = Counting()
        store = FileStore(str(place), system)
        saga, kept = marked(store, OLD), settled_on(store, OLD, words="kept")
        if is_packed:
            gc(store)
        must = contents(store)[kept]
        system.calls.clear()
        system.fail_at = at
        try:
            erase(store, saga, now=1)
        except Dead:
            system.fail_at = -1
        else:
            assert at > 8
            return wrong
        die(store, place)
        store = FileStore(str(place), System())
        is_begun = store.tombstone(saga) is not None
        if is_begun and by_gc:
            gc(store)
            store.tidy()
        elif erase(store, saga, now=2) is None:
            wrong.append(f"{at}: gone without a tombstone")
        where = f"{at}, {system.calls[-1]}"
        if store.read(saga) is not None or traces(place):
            wrong.append(f"{where}: left {traces(place)}")
        if contents(store).get(kept) != must:
            wrong.append(f"{where}: another saga was lost")
        at += 1


@pytest.mark.parametrize("is_packed", [False, True], ids=["file", "pack"])
@pytest.mark.parametrize("by_gc", [False, True], ids=["erase again", "gc"])
def test_an_erasure_that_is_cut_off_anywhere_is_completed_by_the_next(
    tmp_path: Path, *, is_packed: bool, by_gc: bool
) -> None:
    assert wrong_after_crashes(tmp_path, is_packed=is_packed, by_gc=by_gc) == []


def test_an_erasure_that_forgets_the_pack_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(archive: object, logs: list[str], erased: set[str]) -> list[str]:
        return [saga for saga in logs if saga not in erased]

    monkeypatch.setattr(packing, "_without_erased", forgetful)
    assert any("left ['done/" in words for words in wrong_after_crashes(tmp_path, is_packed=False, by_gc=False))


def test_a_disk_that_fails_is_told_and_the_erasure_can_be_repeated(place: Path) -> None:
    system = Counting()
    store = FileStore(str(place), system)
    saga = marked(store, OLD)
    gc(store)
    system.failure = OSError(5, "input/output error")
    told = 0
    for at in range(40):
        system.calls.clear()
        system.fail_at = at
        try:
            erase(store, saga, now=1)
        except StoreError:
            told += 1
    assert told > 5
    assert traces(place) == []
    assert start_date(saga) == OLD
