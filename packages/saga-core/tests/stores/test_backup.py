"""A backup opens as a store, says what the store said, and nothing is done in its name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from saga_core import frame, records
from saga_core.errors import LogDamaged, StoreError, StoreFull
from saga_core.ids import new_saga_id
from saga_core.stores.backup import back_up
from saga_core.stores.erasure import erase
from saga_core.stores.file import FileStore
from saga_core.stores.log import FileLog
from saga_core.stores.retention import collect
from saga_core.stores.system import System
from saga_core.stores.tombstone import Tombstone
from saga_core.stores.verification import verify

from .days import at_noon, contents, settled_on
from .test_packing import Counting

Begin: TypeAlias = Callable[[FileStore], FileLog]
TODAY, YESTERDAY, OLD = "2026-06-30", "2026-06-29", "2026-06-20"


def gc(store: FileStore) -> None:
    collect(store.archive, now=at_noon(TODAY))


def opened(path: Path) -> FileStore:
    return FileStore(str(path), System())


def test_settled_sagas_are_read_in_the_copy_as_in_the_store(store: FileStore, tmp_path: Path) -> None:
    settled_on(store, OLD, words="packed")
    gc(store)
    settled_on(store, OLD, words="beside its pack")
    gone = settled_on(store, "2026-01-01")
    gc(store)
    done = settled_on(store, YESTERDAY, words="file")
    erased = settled_on(store, YESTERDAY, words="erased")
    erase(store, erased, now=17, by="Bob")
    assert store.take_key("order-7", done, 1)
    copied = back_up(store, str(tmp_path / "copy"))
    assert (copied.settled, copied.unsettled, copied.left) == (3, 0, [])
    copy = opened(tmp_path / "copy")
    assert copy.identity == store.identity
    assert contents(copy) == contents(store)
    assert copy.key_holder("order-7") == (done, 1)
    assert copy.tombstone(erased) == Tombstone(erased, "erased", 17, "Bob")
    assert copy.tombstone(gone) == Tombstone(gone, "dropped")
    assert [one for one in verify(copy) if one.problem] == []
    gc(copy)
    assert contents(copy) == contents(store)
    assert b"erased" not in b"".join(path.read_bytes() for path in (tmp_path / "copy").rglob("*.pack"))


def test_an_open_saga_is_copied_to_its_last_good_record_and_never_acted_on(
    store: FileStore, begin: Begin, place: Path, tmp_path: Path
) -> None:
    owned, torn = begin(store), begin(store)
    torn.sync(torn.append(records.ScopeOpened("1", "", "a", 1)))
    torn.append(records.ScopeEnded("1", kept=True, at=2))
    torn.release()
    path = place / "open" / f"{torn.saga}.log"
    os.truncate(path, path.stat().st_size - 3)
    before = path.read_bytes()
    copied = back_up(store, str(tmp_path / "copy"))
    assert (copied.settled, copied.unsettled, copied.left) == (0, 2, [])
    copy = opened(tmp_path / "copy")
    for saga, count in ((owned.saga, 1), (torn.saga, 2)):
        with pytest.raises(LogDamaged, match="restored copy"):
            copy.claim(saga)
        reading = copy.read(saga)
        assert reading is not None
        assert len(reading.records) == count
        assert reading.dropped == b""
    assert path.read_bytes() == before
    owned.append(records.Committing(1))
    claimed = store.claim(torn.saga)
    assert claimed is not None, "the store itself goes on"
    claimed[0].release()


def test_a_copy_is_known_as_one_even_if_it_gets_the_inode_of_its_origin(
    store: FileStore, begin: Begin, tmp_path: Path
) -> None:
    """On another file system the number may be the same."""
    saga = begin(store).saga
    back_up(store, str(tmp_path / "copy"))
    (path,) = (tmp_path / "copy").glob(f"*/{saga}.log")
    header = frame.parse(path.read_bytes(), boot="").header
    assert header is not None
    assert (header.saga, header.store, header.inode) == (saga, store.identity, 0)


def test_a_saga_that_has_ended_but_was_not_put_away_is_settled_in_the_copy(
    store: FileStore, begin: Begin, tmp_path: Path
) -> None:
    log = begin(store)
    log.sync(log.append(records.Committed(1)))
    log.release()
    assert list(store.open_sagas()) == [log.saga]
    copied = back_up(store, str(tmp_path / "copy"))
    assert (copied.settled, copied.unsettled) == (1, 0)
    assert list(contents(opened(tmp_path / "copy"))) == [log.saga]


def test_a_saga_that_settles_while_it_is_copied_is_in_the_copy_once(
    store: FileStore, begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = begin(store)
    dates = store.archive.dates

    def settle_first() -> list[str]:
        log.sync(log.append(records.Committed(1)))
        log.settle()
        monkeypatch.undo()
        return dates()

    monkeypatch.setattr(store.archive, "dates", settle_first)
    copied = back_up(store, str(tmp_path / "copy"))
    assert (copied.settled, copied.unsettled) == (1, 0)
    copy = opened(tmp_path / "copy")
    assert list(contents(copy)) == [log.saga]
    assert list(copy.open_sagas()) == []


def test_what_is_damaged_is_copied_as_it_stands_and_named(store: FileStore, begin: Begin, tmp_path: Path) -> None:
    log = begin(store)
    log.sync(log.append(records.ScopeOpened("1", "", "a", 1)))
    log.release()
    hurt_open = Path(store.archive.path).parent / "open" / f"{log.saga}.log"
    packed, beside = settled_on(store, OLD), None
    gc(store)
    beside = settled_on(store, OLD)
    hurt_done, kept = settled_on(store, YESTERDAY), settled_on(store, YESTERDAY)
    paths = [hurt_open, Path(store.archive.pack_path(OLD)), Path(store.archive.log_path(hurt_done))]
    for path in paths:
        data = bytearray(path.read_bytes())
        data[180] ^= 1
        path.write_bytes(data)
    copied = back_up(store, str(tmp_path / "copy"))
    names = {str(path.relative_to(Path(store.archive.path).parent)) for path in paths}
    assert {left.path for left in copied.left} == names | {f"done/{OLD}/{beside}.log"}
    copy = opened(tmp_path / "copy")
    assert list(copy.done_sagas())[:2] == sorted([hurt_done, kept], reverse=True)
    for saga in (log.saga, packed, beside, hurt_done):
        reading = copy.read(saga)
        assert reading is not None
        assert reading.damage is not None
    reading = copy.read(kept)
    assert reading is not None
    assert reading.damage is None
    assert (tmp_path / "copy" / "done" / f"{OLD}.pack").read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize("where", ["full", "inside", "itself", "a file"])
def test_a_place_that_is_taken_is_refused_and_left_alone(
    store: FileStore, place: Path, tmp_path: Path, where: str
) -> None:
    settled_on(store, YESTERDAY)
    target = {"full": tmp_path / "full", "inside": place / "copy", "itself": place, "a file": tmp_path / "file"}[where]
    if where == "full":
        target.mkdir()
        (target / "note").write_text("mine")
    if where == "a file":
        target.write_text("mine")
    before = sorted(path for path in tmp_path.rglob("*") if path.name != "upkeep.lock")
    with pytest.raises(StoreError):
        back_up(store, str(target))
    assert sorted(path for path in tmp_path.rglob("*") if path.name != "upkeep.lock") == before


def test_an_empty_store_and_an_empty_directory_make_an_empty_copy(store: FileStore, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    copied = back_up(store, str(tmp_path / "copy"))
    assert (copied.settled, copied.unsettled, copied.left) == (0, 0, [])
    copy = opened(tmp_path / "copy")
    assert list(copy.done_sagas()) == []
    settled_on(copy, YESTERDAY)
    assert copy.take_key("a", new_saga_id(), 1)


@pytest.mark.parametrize("error", [28, 5], ids=["no room", "input/output error"])
def test_a_backup_that_fails_is_no_store(place: Path, tmp_path: Path, error: int) -> None:
    system = Counting()
    store = FileStore(str(place), system)
    settled_on(store, OLD)
    log = store.create(new_saga_id())
    log.append(records.Began(log.saga, "pay", None, 1, 1, "boot", 1, "here", {}))
    before = contents(store)
    system.failure = OSError(error, "the disk failed")
    kinds: set[type[StoreError]] = set()
    at = 0
    while True:
        system.calls.clear()
        system.fail_at = at
        target = tmp_path / f"copy {at}"
        try:
            back_up(store, str(target))
        except StoreError as told:
            kinds.add(type(told))
            assert not (target / "store").exists() or system.calls[-1].startswith("sync_dir")
        else:
            break
        finally:
            system.fail_at = -1
        at += 1
    assert at > 15
    assert (StoreFull in kinds) == (error == 28)
    assert contents(store) == before
    log.release()
