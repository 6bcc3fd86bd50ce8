"""Encrypted logs: nothing readable on disk, the right key or a clear error, and no change goes unseen."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from saga_core import frame, ids, open_store, records
from saga_core.errors import LogDamaged, StoreError
from saga_core.recovery import recover
from saga_core.stores import file as file_module
from saga_core.stores.boot import boot_id
from saga_core.stores.encryption import Encryption
from saga_core.stores.file import FileStore
from saga_core.stores.log import FileLog
from saga_core.stores.system import System

Began: TypeAlias = Callable[[str], records.Began]
Payloads: TypeAlias = list[tuple[int, bytes]]

KEYS = {"2026-11": b"n" * 32, "2026-12": b"d" * 32}
SECRET = "a word that stands in no encrypted file"


def opened(place: Path, current: str = "2026-12", keys: dict[str, bytes] | None = None) -> FileStore:
    """Return another process's view of the store."""
    return FileStore(str(place), System(), Encryption(current, (KEYS if keys is None else keys).__getitem__))


def written(store: FileStore, began: Began, *, parts: int = 0) -> FileLog:
    log = store.create(ids.new_saga_id())
    log.append(began(log.saga))
    log.append(records.Noted(1, {"secret": SECRET + "x" * parts}))
    log.sync(log.append(records.Noted(1, {"again": SECRET})))
    return log


def file_of(place: Path, saga: str) -> Path:
    return place / "open" / f"{saga}.log"


@pytest.mark.parametrize("parts", [0, 3 << 20], ids=["short", "in parts"])
def test_records_come_back_and_stand_nowhere_readable(place: Path, began: Began, parts: int) -> None:
    log = written(opened(place), began, parts=parts)
    reading = opened(place).read(log.saga)
    assert reading is not None
    assert reading.damage is None
    assert reading.records[1:] == [
        records.Noted(1, {"secret": SECRET + "x" * parts}),
        records.Noted(1, {"again": SECRET}),
    ]
    for path in place.rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes(), path
    log.release()


def test_the_next_owner_goes_on_with_the_chain(place: Path, began: Began) -> None:
    log = written(opened(place), began)
    log.release()
    claimed = opened(place).claim(log.saga)
    assert claimed is not None
    adopted = records.Adopted(2, 1, 2, boot_id(), 1, "here", "test")
    claimed[0].sync(claimed[0].append(adopted))
    claimed[0].append(records.RolledBack(3))
    claimed[0].settle()
    reading = opened(place).read(log.saga)
    assert reading is not None
    assert reading.damage is None
    assert reading.records[-2:] == [adopted, records.RolledBack(3)]


def test_old_logs_keep_their_key_and_plain_ones_stay_readable(place: Path, began: Began) -> None:
    plain = FileStore(str(place), System())
    first = written(plain, began)
    second = written(opened(place, "2026-11"), began)
    third = written(opened(place, "2026-12"), began)
    reader = opened(place, "2026-12")
    for log, key in ((first, ""), (second, "2026-11"), (third, "2026-12")):
        header = frame.header_of(file_of(place, log.saga).read_bytes())
        assert header is not None
        assert header.key == key
        reading = reader.read(log.saga)
        assert reading is not None
        assert len(reading.records) == 3
        log.release()


def test_a_key_is_asked_for_once_a_process(place: Path, began: Began) -> None:
    asked: list[str] = []

    def fetched(name: str) -> bytes:
        asked.append(name)
        return KEYS[name]

    store = FileStore(str(place), System(), Encryption("2026-12", fetched))
    for _ in range(3):
        log = written(store, began)
        assert store.read(log.saga) is not None
        log.release()
    assert asked == ["2026-12"]


def lacking(place: Path, saga: str, store: FileStore, words: str) -> None:
    """Check that a log without its key is an error to all who look, and stays as it is."""
    before = file_of(place, saga).read_bytes()
    assert list(store.open_sagas()) == [saga]
    for look in (store.read, store.claim):
        with pytest.raises(StoreError, match=words) as caught:
            look(saga)
        assert not isinstance(caught.value, LogDamaged)
        assert "2026-12" in caught.value.args[0]
    done = recover(store)
    assert [one.outcome for one in done.found] == ["failed"]
    assert done.needs_person
    assert file_of(place, saga).read_bytes() == before


def test_without_keys_a_store_is_not_taken_for_empty(place: Path, began: Began) -> None:
    log = written(opened(place), began)
    log.release()
    lacking(place, log.saga, FileStore(str(place), System()), "no keys were given")


def test_a_wrong_key_is_told_from_damage(place: Path, began: Began) -> None:
    log = written(opened(place), began)
    log.release()
    lacking(place, log.saga, opened(place, keys={"2026-12": b"w" * 32}), "another one")


@pytest.mark.parametrize(
    ("keys", "words"),
    [({}, "could not be had: KeyError"), ({"2026-12": b"short"}, "not 32 bytes")],
    ids=["unknown", "short"],
)
def test_a_key_that_cannot_be_had_is_named(place: Path, began: Began, keys: dict[str, bytes], words: str) -> None:
    log = written(opened(place), began)
    log.release()
    lacking(place, log.saga, opened(place, keys=keys), words)


def test_a_store_whose_key_cannot_be_had_opens_no_saga_and_leaves_no_file(place: Path) -> None:
    with pytest.raises(StoreError, match="2026-12"):
        opened(place, keys={}).create(ids.new_saga_id())
    assert list((place / "open").iterdir()) == []


def resealed(data: bytes, change: Callable[[Payloads], Payloads]) -> bytes:
    """Return a log whose payloads were changed by somebody who can make checksums, and has no key."""
    parsed = frame.parse(data, boot=boot_id())
    assert parsed.header is not None
    seal = frame.seal_of(parsed.header.salt)
    out, crc = parsed.header.pack(), seal.seed
    for seq, (kind, payload) in enumerate(change([(one.kind, one.payload) for one in parsed.frames])):
        data, crc = frame.build(seal, crc, kind, 1, seq, 0, payload)
        out += data
    return out


def swapped(found: Payloads) -> Payloads:
    return [found[0], found[2], found[1]]


def left_out(found: Payloads) -> Payloads:
    return [found[0], found[2]]


def repeated(found: Payloads) -> Payloads:
    return [*found, found[1]]


def of_another_kind(found: Payloads) -> Payloads:
    return [*found[:2], (8, found[2][1])]


def with_one_bit_flipped(found: Payloads) -> Payloads:
    kind, payload = found[2]
    return [*found[:2], (kind, payload[:-1] + bytes([payload[-1] ^ 1]))]


def cut(found: Payloads) -> Payloads:
    return [*found[:2], (found[2][0], b"short")]


@pytest.mark.parametrize("change", [swapped, left_out, repeated, of_another_kind, with_one_bit_flipped, cut])
def test_tampering_without_the_key_is_damage(place: Path, began: Began, change: Callable[[Payloads], Payloads]) -> None:
    log = written(opened(place), began)
    log.release()
    path = file_of(place, log.saga)
    changed = resealed(path.read_bytes(), change)
    path.write_bytes(changed)
    assert frame.parse(changed, boot=boot_id()).damage is None, "the checksums fit; only the tags tell"
    with pytest.raises(LogDamaged, match="was altered"):
        opened(place).claim(log.saga)


def test_what_is_not_changed_is_no_tampering(place: Path, began: Began) -> None:
    """The control of the test above."""
    log = written(opened(place), began)
    log.release()
    path = file_of(place, log.saga)
    path.write_bytes(resealed(path.read_bytes(), list))
    claimed = opened(place).claim(log.saga)
    assert claimed is not None
    claimed[0].release()


def test_a_record_that_could_not_be_written_does_not_break_the_chain(place: Path, began: Began) -> None:
    class Full(System):
        fails = False

        def __init__(self) -> None:
            self.pwrite = self._pwrite

        def _pwrite(self, descriptor: int, data: bytes, offset: int, /) -> int:
            if self.fails:
                raise OSError(5, "input/output error")
            return System.pwrite(descriptor, data, offset)

    disk = Full()
    store = FileStore(str(place), disk, Encryption("2026-12", KEYS.__getitem__))
    log = written(store, began)
    disk.fails = True
    with pytest.raises(StoreError):
        log.append(records.Committing(1))
    disk.fails = False
    log.append(records.Committing(2))
    log.release()
    reading = opened(place).read(log.saga)
    assert reading is not None
    assert reading.damage is None
    assert reading.records[-1] == records.Committing(2)


def test_keys_come_from_the_environment(place: Path, began: Began, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_module, "_stores", {})
    monkeypatch.setenv("SAGA_ENCRYPTION", "2026-12")
    monkeypatch.setenv("SAGA_ENCRYPTION_KEY_2026_12", base64.b64encode(KEYS["2026-12"]).decode())
    store = open_store(f"file:{place}")
    assert isinstance(store, FileStore)
    log = written(store, began)
    log.release()
    reading = opened(place).read(log.saga)
    assert reading is not None
    assert len(reading.records) == 3


def test_a_store_is_open_once_in_a_process_with_one_set_of_keys(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_module, "_stores", {})
    keys = Encryption("2026-12", KEYS.__getitem__)
    store = open_store(f"file:{place}", encryption=keys)
    assert open_store(f"file:{place}", encryption=keys) is store
    assert open_store(f"file:{place}") is store
    with pytest.raises(StoreError, match="other keys"):
        open_store(f"file:{place}", encryption=Encryption("2026-12", KEYS.__getitem__))


@pytest.mark.parametrize("name", ["", "seventeen letters", "ünï", "two\nlines"])
def test_a_key_needs_a_short_plain_name(name: str) -> None:
    with pytest.raises(StoreError, match="name is 1 to 16"):
        Encryption(name, KEYS.__getitem__)


def test_without_the_extra_an_encrypted_store_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(StoreError, match="cryptography") as caught:
        Encryption("2026-12", KEYS.__getitem__)
    assert "saga-core[encryption]" in caught.value.next
