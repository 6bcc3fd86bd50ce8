"""Verifying: whatever is wrong with a store's files is found, and nothing is wrong with a sound one."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import msgspec
import pytest

from saga_core import frame, records
from saga_core.stores.erasure import erase
from saga_core.stores.file import FileStore
from saga_core.stores.log import FileLog
from saga_core.stores.retention import collect
from saga_core.stores.verification import Checked, verify

from .days import at_noon, saga_of, settled_on

Begin: TypeAlias = Callable[[FileStore], FileLog]
TODAY, YESTERDAY, OLD = "2026-06-30", "2026-06-29", "2026-06-20"


def problems(store: FileStore) -> list[Checked]:
    return [checked for checked in verify(store) if checked.problem is not None]


def words(store: FileStore) -> str:
    """Return the one problem that a store has."""
    (found,) = problems(store)
    assert found.problem is not None
    return found.problem


def gc(store: FileStore) -> None:
    collect(store.archive, now=at_noon(TODAY))


def test_a_sound_store_has_no_problem_and_everything_in_it_is_looked_at(store: FileStore, begin: Begin) -> None:
    open_log = begin(store)
    packed = settled_on(store, OLD, words="packed")
    gone = settled_on(store, OLD)
    gc(store)
    done, erased = settled_on(store, YESTERDAY), settled_on(store, YESTERDAY)
    store.take_key("a", done, 1)
    for saga in (gone, erased):
        erase(store, saga, now=1)
    found = list(verify(store))
    assert problems(store) == []
    assert Counter((one.kind, one.saga) for one in found) == Counter(
        [
            ("open", open_log.saga),
            ("packed", packed),
            ("tombstone", gone),
            ("done", done),
            ("tombstone", erased),
            ("pack", None),
            ("control", None),
        ]
    )


@pytest.mark.parametrize("is_packed", [False, True], ids=["file", "pack"])
def test_a_flipped_bit_of_any_byte_is_found(store: FileStore, *, is_packed: bool) -> None:
    saga = settled_on(store, OLD)
    if is_packed:
        gc(store)
    path = Path(store.archive.pack_path(OLD) if is_packed else store.archive.log_path(saga))
    whole = path.read_bytes()
    for at in range(len(whole)):
        hurt = bytearray(whole)
        hurt[at] ^= 1 << at % 8
        path.write_bytes(hurt)
        assert len(problems(store)) == 1, f"byte {at}"
    path.write_bytes(whole)
    assert problems(store) == []


@pytest.mark.parametrize("is_packed", [False, True], ids=["file", "pack"])
def test_a_cut_pack_or_a_cut_log_is_found(store: FileStore, *, is_packed: bool) -> None:
    saga = settled_on(store, OLD)
    if is_packed:
        gc(store)
    path = Path(store.archive.pack_path(OLD) if is_packed else store.archive.log_path(saga))
    whole = path.read_bytes()
    for size in range(200 if not is_packed else 0, len(whole), 7):
        path.write_bytes(whole[:size])
        assert len(problems(store)) == 1, f"{size} bytes"


def test_an_unsettled_log_that_is_damaged_is_named_with_its_place(store: FileStore, begin: Begin, place: Path) -> None:
    log = begin(store)
    log.sync(log.append(records.ScopeOpened("1", "", "a", 1)))
    log.append(records.ScopeEnded("1", kept=True, at=2))
    log.release()
    path = place / "open" / f"{log.saga}.log"
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    (found,) = problems(store)
    assert (found.kind, found.saga, found.place) == ("open", log.saga, "open")
    assert found.problem is not None
    assert "damaged at offset" in found.problem


def add_unknown_record(path: Path) -> None:
    """Write a record of a kind that this release does not know behind the others."""
    data = path.read_bytes()
    parsed = frame.parse(data, boot="")
    assert parsed.header is not None
    payload = msgspec.msgpack.encode([99, 1])
    body, _ = frame.build(frame.seal_of(parsed.header.salt), parsed.crc, 99, 1, len(parsed.frames), 0, payload)
    with path.open("ab") as file:
        file.write(body)


@pytest.mark.parametrize("where", ["open", "file", "pack"])
def test_a_record_that_cannot_be_decoded_is_named(store: FileStore, place: Path, where: str) -> None:
    log = store.create(saga_of(OLD))
    log.append(records.Began(log.saga, "pay", None, 1, 1, "boot", 1, "here", {}))
    log.sync(log.append(records.Committed(1)))
    if where == "open":
        log.release()
    else:
        log.settle()
    (path,) = place.rglob(f"{log.saga}.log")
    add_unknown_record(path)
    if where == "pack":
        gc(store)
    assert "record 2 cannot be read" in words(store)


def test_records_that_contradict_each_other_are_found(store: FileStore) -> None:
    log = store.create(saga_of(OLD))
    log.append(records.Began(log.saga, "pay", None, 1, 1, "boot", 1, "here", {}))
    log.append(records.Committed(1))
    log.sync(log.append(records.UnwindBegan("", "too late", 1)))
    log.release()
    assert "contradict each other" in words(store)


def test_an_unsettled_saga_among_the_settled_ones_is_found(store: FileStore, begin: Begin) -> None:
    log = begin(store)
    log.settle()
    assert "lies among the settled sagas, and is running" in words(store)


@pytest.mark.parametrize("where", ["file", "pack"])
def test_a_saga_that_is_both_open_and_settled_is_found(store: FileStore, place: Path, where: str) -> None:
    saga = settled_on(store, OLD)
    path = Path(store.archive.log_path(saga))
    (place / "kept.log").write_bytes(path.read_bytes())
    if where == "pack":
        gc(store)
    shutil.copy(place / "kept.log", place / "open" / f"{saga}.log")
    assert "a restored copy, perhaps" in words(store)


def test_a_log_beside_its_pack_is_a_problem_only_if_it_says_something_else(store: FileStore) -> None:
    saga = settled_on(store, OLD)
    path = Path(store.archive.log_path(saga))
    body = path.read_bytes()
    keeper = path.with_name("keeper")
    path.rename(keeper)
    settled_on(store, OLD)
    gc(store)
    assert problems(store) == []
    keeper.rename(path)
    assert problems(store) == [], "it is packed by the next run"
    gc(store)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(body + b"\0")
    assert {found.kind for found in problems(store)} == {"done", "packed"}


def test_an_erasure_that_was_cut_off_is_found(store: FileStore) -> None:
    saga = settled_on(store, YESTERDAY)
    Path(store.archive.tombstone_path(saga)).write_bytes(b"")
    assert words(store) == "it was erased, and its log is still there"


def test_a_damaged_control_database_is_found(store: FileStore, place: Path) -> None:
    for number in range(200):
        store.take_key(f"key {number}", saga_of(OLD), 1)
    assert problems(store) == []
    path = place / "control.db"
    data = bytearray(path.read_bytes())
    data[4096:8192] = bytes(4096)
    path.write_bytes(data)
    (found,) = problems(store)
    assert found.kind == "control"
