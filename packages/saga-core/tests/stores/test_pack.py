"""The bytes of a pack, and what a store reads from one."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import pytest

from saga_core import codec, records
from saga_core.errors import LogDamaged
from saga_core.ids import is_saga_id, new_saga_id, start_date
from saga_core.stores import pack, tombstone
from saga_core.stores.file import FileStore
from saga_core.stores.log import FileLog
from saga_core.stores.pack import Draft, Entry, Pack
from saga_core.stores.system import System
from saga_core.stores.tombstone import Tombstone

Begin: TypeAlias = Callable[[FileStore], FileLog]
STORE = "ab" * 16


@pytest.fixture
def written(tmp_path: Path) -> Callable[[dict[str, bytes]], Path]:
    """Write a pack of these bodies; a body that begins with a `!` is a tombstone's."""

    def write(bodies: dict[str, bytes]) -> Path:
        path = tmp_path / "2026-03-01.pack"
        draft = Draft(System(), str(path), STORE)
        for saga, body in bodies.items():
            draft.add(saga, pack.TOMBSTONE if body.startswith(b"!") else pack.LOG, body)
        draft.finish()
        draft.close()
        return path

    return write


def contents(path: Path) -> dict[str, bytes]:
    """Read a pack by its entries and each saga by its name; both must agree."""
    with Pack(System(), str(path), STORE) as found:
        found.check_index()
        by_entry = {entry.saga: found.body(entry) for entry in found.entries()}
        assert [entry.saga for entry in found.entries(newest_first=True)] == sorted(by_entry, reverse=True)
        for saga, body in by_entry.items():
            entry = found.find(saga)
            assert isinstance(entry, Entry)
            assert found.body(entry) == body
            assert (entry.kind == pack.TOMBSTONE) == body.startswith(b"!")
        return by_entry


@pytest.mark.parametrize("count", [0, 1, 2, 3, 10_000])
def test_what_went_in_comes_out_in_the_order_of_the_ids(
    written: Callable[[dict[str, bytes]], Path], count: int
) -> None:
    bodies = {new_saga_id(): b"!gone" if number % 7 == 3 else os.urandom(number % 50) for number in range(count)}
    path = written(bodies)
    found = contents(path)
    assert found == bodies
    assert list(found) == sorted(bodies)
    with Pack(System(), str(path), STORE) as opened:
        assert opened.count == count
        assert opened.find("0" * 26) is None
        assert opened.find("7" + "Z" * 25) is None
        assert opened.find(new_saga_id()) is None


def test_a_body_larger_than_the_buffer_is_kept_whole(written: Callable[[dict[str, bytes]], Path]) -> None:
    bodies = {new_saga_id(): os.urandom(3_000_001), new_saga_id(): b"", new_saga_id(): b"short"}
    assert contents(written(bodies)) == bodies


def test_any_flipped_bit_is_noticed_or_touches_nothing_that_is_read(
    written: Callable[[dict[str, bytes]], Path],
) -> None:
    bodies = {new_saga_id(): b"the first log", new_saga_id(): b"!gone", new_saga_id(): b"another log"}
    path = written(bodies)
    whole = path.read_bytes()
    noticed = 0
    for at in range(len(whole)):
        hurt = bytearray(whole)
        hurt[at] ^= 1 << at % 8
        path.write_bytes(hurt)
        with suppress(LogDamaged):
            assert contents(path) == bodies, f"byte {at}"
            continue
        noticed += 1
    assert noticed == len(whole)


def test_any_cut_is_noticed(written: Callable[[dict[str, bytes]], Path]) -> None:
    path = written({new_saga_id(): b"a log"})
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(LogDamaged, match="pack"):
            contents(path)


def test_the_pack_of_another_store_is_refused(written: Callable[[dict[str, bytes]], Path]) -> None:
    path = written({new_saga_id(): b"a log"})
    with pytest.raises(LogDamaged, match="another store"):
        Pack(System(), str(path), "cd" * 16)


def test_a_draft_is_no_pack_before_it_is_finished(tmp_path: Path) -> None:
    path = tmp_path / "2026-03-01.pack"
    draft = Draft(System(), str(path), STORE)
    draft.add(new_saga_id(), pack.LOG, b"a log")
    draft.close()
    assert not path.exists()


def settled(store: FileStore, begin: Begin) -> tuple[str, Path]:
    """Return a settled saga and its file."""
    log = begin(store)
    log.append(records.Committed(1))
    log.sync(log.append(records.Returned(1, 1)))
    log.settle()
    (path,) = Path(store.archive.path).glob(f"*/{log.saga}.log")
    return log.saga, path


def put_in_pack(store: FileStore, bodies: dict[str, tuple[int, bytes]]) -> Path:
    """Write a pack of the day of these sagas."""
    (date,) = {start_date(saga) for saga in bodies}
    draft = Draft(store.system, store.archive.pack_path(date), store.identity)
    for saga, (kind, body) in bodies.items():
        draft.add(saga, kind, body)
    draft.finish()
    draft.close()
    return Path(store.archive.pack_path(date))


def test_a_packed_saga_is_read_like_a_file_and_is_never_open(store: FileStore, begin: Begin) -> None:
    saga, path = settled(store, begin)
    before = store.read(saga)
    put_in_pack(store, {saga: (pack.LOG, path.read_bytes())})
    assert store.read(saga) == before, "it lies there twice"
    assert list(store.done_sagas()) == [saga]
    path.unlink()
    assert store.read(saga) == before
    assert list(store.done_sagas()) == [saga]
    assert store.claim(saga) is None
    assert list(store.open_sagas()) == []
    path.parent.rmdir()
    assert list(store.done_sagas()) == [saga]


def test_an_open_log_of_a_packed_saga_is_a_copy_perhaps_and_is_not_claimed(
    store: FileStore, begin: Begin, place: Path
) -> None:
    saga, path = settled(store, begin)
    put_in_pack(store, {saga: (pack.LOG, path.read_bytes())})
    path.rename(place / "open" / path.name)
    with pytest.raises(LogDamaged, match="it lies in done and in open: a restored copy, perhaps"):
        store.claim(saga)
    reading = store.read(saga)
    assert reading is not None
    assert reading.damage is not None


def test_the_log_of_another_saga_inside_a_pack_is_damage(store: FileStore, begin: Begin) -> None:
    saga, path = settled(store, begin)
    other = new_saga_id()
    put_in_pack(store, {other: (pack.LOG, path.read_bytes())})
    reading = store.read(other)
    assert reading is not None
    assert reading.damage is not None
    assert "was not made here" in reading.damage
    assert saga != other


def test_a_damaged_pack_makes_its_own_sagas_damaged_and_no_others(
    store: FileStore, begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    saga, path = settled(store, begin)
    loose, _ = settled(store, begin)
    running = begin(store)
    packed = put_in_pack(store, {saga: (pack.LOG, path.read_bytes())})
    path.unlink()
    data = bytearray(packed.read_bytes())
    data[-40] ^= 1
    packed.write_bytes(data)
    reading = store.read(saga)
    assert reading is not None
    assert (reading.settled, reading.records) == (True, [])
    assert reading.damage is not None
    assert "pack" in reading.damage
    for sound in (loose, running.saga):
        reading = store.read(sound)
        assert reading is not None
        assert reading.damage is None
    assert list(store.done_sagas()) == [loose]
    assert "not all listed" in caplog.text


def test_an_erased_saga_is_read_by_nobody_although_its_log_still_lies_there(store: FileStore, begin: Begin) -> None:
    saga, path = settled(store, begin)
    stone = Tombstone(saga, "erased", 17, "Ada")
    put_in_pack(store, {saga: (pack.LOG, path.read_bytes())})
    Path(store.archive.tombstone_path(saga)).write_bytes(tombstone.pack(stone))
    assert store.read(saga) is None
    path.unlink()
    assert store.read(saga) is None
    assert store.tombstone(saga) == stone
    assert list(store.done_sagas()) == []
    assert list(store.erased_sagas()) == [saga]
    put_in_pack(store, {saga: (pack.TOMBSTONE, tombstone.pack(stone))})
    Path(store.archive.tombstone_path(saga)).unlink()
    assert store.read(saga) is None
    assert store.tombstone(saga) == stone
    assert list(store.erased_sagas()) == [saga]


def test_a_tombstone_that_cannot_be_read_is_still_one(store: FileStore, begin: Begin) -> None:
    saga, _ = settled(store, begin)
    Path(store.archive.tombstone_path(saga)).write_bytes(b"\xff")
    assert store.tombstone(saga) == Tombstone(saga, "erased")
    assert store.read(saga) is None


def test_a_saga_of_a_day_that_was_dropped_is_known_to_be_dropped(store: FileStore, begin: Begin) -> None:
    old, older = "01HQZ0000000000000000000AA", "01HKZ0000000000000000000AA"
    assert store.tombstone(older) is None
    store.archive.keep_since(start_date(old))
    store.archive.keep_since(start_date(older))
    assert store.archive.kept_since() == start_date(old)
    assert store.tombstone(older) == Tombstone(older, "dropped")
    assert store.tombstone(old) is None
    assert store.tombstone(settled(store, begin)[0]) is None
    assert store.tombstone("no id") is None


def test_an_id_of_a_year_behind_the_last_is_none(store: FileStore) -> None:
    latest = "76EZ91ZPZZ" + "Z" * 16
    assert start_date(latest) == "9999-12-31"
    assert is_saga_id(latest)
    for text in ("76EZ91ZQ00" + "0" * 16, "7" + "Z" * 25):
        assert not is_saga_id(text)
        assert store.read(text) is None
        assert store.tombstone(text) is None


def test_payloads_in_packs_are_those_that_were_written(store: FileStore, begin: Begin) -> None:
    saga, path = settled(store, begin)
    reading = store.read(saga)
    assert reading is not None
    written = [codec.encode(record) for record in reading.records]
    put_in_pack(store, {saga: (pack.LOG, path.read_bytes())})
    path.unlink()
    packed = store.read(saga)
    assert packed is not None
    assert [codec.encode(record) for record in packed.records] == written
