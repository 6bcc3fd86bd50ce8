"""Whoever lacks the keys can still pack, erase and copy what is encrypted, and is told what cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from saga_core import records
from saga_core.stores.backup import back_up
from saga_core.stores.encryption import Encryption
from saga_core.stores.erasure import erase
from saga_core.stores.file import FileStore
from saga_core.stores.retention import collect
from saga_core.stores.system import System
from saga_core.stores.verification import verify

from .days import at_noon, contents, files, saga_of, settled_on

TODAY, YESTERDAY, OLD = "2026-06-30", "2026-06-29", "2026-06-20"
KEYS = Encryption("june", lambda name: name.encode().ljust(32))


@pytest.fixture
def sealed(place: Path) -> FileStore:
    """A store with keys: two settled sagas of a past day, one of yesterday, and one that is not settled."""
    store = FileStore(str(place), System(), KEYS)
    for day in (OLD, OLD, YESTERDAY):
        settled_on(store, day, words=day)
    log = store.create(saga_of(YESTERDAY))
    log.append(records.Began(log.saga, "pay", None, 1, 1, "boot", 1, "here", {}))
    log.sync(log.append(records.Adopted(2, 1, 1, "boot", 1, "here", "test")))
    log.release()
    store.close()
    return store


def test_packing_needs_no_key(sealed: FileStore, place: Path) -> None:
    before = contents(sealed)
    done = collect(FileStore(str(place), System()).archive, now=at_noon(TODAY))
    assert (done.packed, done.left) == ({OLD: 2}, [])
    assert contents(sealed) == before


def test_a_backup_needs_no_key_and_can_be_read_with_it(sealed: FileStore, place: Path, tmp_path: Path) -> None:
    copied = back_up(FileStore(str(place), System()), str(tmp_path / "copy"))
    assert (copied.settled, copied.unsettled, copied.left) == (3, 1, [])
    copy = FileStore(str(tmp_path / "copy"), System(), KEYS)
    assert contents(copy) == contents(sealed)
    (saga,) = copy.open_sagas()
    reading = copy.read(saga)
    assert reading is not None
    assert reading.damage is not None
    assert "restored copy" in reading.damage
    assert len(reading.records) == 2


def test_a_verification_without_keys_names_what_it_cannot_read(sealed: FileStore, place: Path) -> None:
    assert [one for one in verify(sealed) if one.problem] == []
    collect(sealed.archive, now=at_noon(TODAY))
    found = [one for one in verify(FileStore(str(place), System())) if one.problem]
    assert sorted(one.kind for one in found) == ["done", "open", "packed", "packed"]
    assert all("june" in str(one.problem) for one in found)


def test_an_encrypted_saga_is_erased_with_its_keys(sealed: FileStore) -> None:
    saga = next(iter(contents(sealed)))
    assert erase(sealed, saga, now=1) is not None
    assert saga not in contents(sealed)
    assert not any(name.endswith(f"{saga}.log") for name in files(sealed))
