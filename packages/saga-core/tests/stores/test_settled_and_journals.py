"""What a journal still holds of settled sagas: it brings none of them back, and an erasure reaches it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from saga_core import codec
from saga_core.errors import LogDamaged
from saga_core.stores import replay
from saga_core.stores.erasure import erase
from saga_core.stores.file import FileStore
from saga_core.stores.retention import collect
from saga_core.stores.system import System
from saga_core.stores.verification import verify

from .days import at_noon, contents, settled_on
from .test_erasure import SECRET, traces

TODAY, OLD, OLDER = "2026-06-30", "2026-06-20", "2026-01-01"

LIVE = """
import sys
from saga_core import saga_scope
from saga_core.stores import open_store
store = open_store(sys.argv[1])
for name in sys.argv[2:]:
    with saga_scope(name, store=store) as saga:
        pass
    print(saga.id, flush=True)
    sys.stdin.readline()
"""


def journals(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (place / "journals").glob("*.j")}


def restart(store: FileStore, place: Path, kept: dict[str, bytes]) -> FileStore:
    """Return the store as the next boot finds it: with the journals that were there when the power went."""
    store.close()
    for name, data in kept.items():
        boot, rest = name.split(".", 1)
        (place / "journals" / f"{boot[::-1]}.{rest}").write_bytes(data)
    return FileStore(str(place), System())


@pytest.mark.parametrize("how", ["kept as a file", "packed", "erased", "dropped", "lost"])
def test_a_journal_of_an_earlier_boot_makes_only_that_log_again_which_was_lost(
    store: FileStore, place: Path, how: str
) -> None:
    saga = settled_on(store, OLDER if how == "dropped" else OLD, words=SECRET)
    kept = journals(place)
    assert kept
    if how == "erased":
        erase(store, saga, now=1)
    elif how in {"packed", "dropped"}:
        collect(store.archive, now=at_noon(TODAY))
    elif how == "lost":
        Path(store.archive.log_path(saga)).unlink()
    before = contents(store)
    after = restart(store, place, kept)
    assert list(after.open_sagas()) == ([saga] if how == "lost" else [])
    assert contents(after) == before
    assert journals(place) == {}
    assert (after.tombstone(saga) is None) == (how not in {"erased", "dropped"})


def settled_by(child: subprocess.Popen[str]) -> str:
    """Return the saga that a live process has settled just now."""
    assert child.stdout is not None
    return child.stdout.readline().strip()


def test_the_journal_of_a_live_process_is_blanked_and_serves_it_on(
    store: FileStore, place: Path, spawn: Callable[..., subprocess.Popen[str]]
) -> None:
    child = spawn(LIVE, place, SECRET, "kept")
    saga = settled_by(child)
    assert [name for name in traces(place) if name.startswith("journals/")]
    erase(store, saga, now=1)
    assert traces(place) == []
    assert child.poll() is None
    assert child.stdin is not None
    child.stdin.write("go on\n")
    child.stdin.flush()
    kept = settled_by(child)
    before = contents(store)
    assert list(before) == [kept]
    in_use = journals(place)
    child.kill()
    child.wait()
    Path(store.archive.log_path(kept)).unlink()
    after = restart(store, place, in_use)
    assert list(after.open_sagas()) == [kept]
    reading = after.read(kept)
    assert reading is not None
    assert [codec.encode(record) for record in reading.records] == before[kept]


def test_the_journal_of_a_dead_process_goes(
    store: FileStore, place: Path, spawn: Callable[..., subprocess.Popen[str]]
) -> None:
    child = spawn(LIVE, place, SECRET)
    saga = settled_by(child)
    child.kill()
    child.wait()
    assert [name for name in traces(place) if name.startswith("journals/")]
    erase(store, saga, now=1)
    assert traces(place) == []
    assert journals(place) == {}


@pytest.mark.parametrize("hurt", ["another's frames", "its frames", "its head"])
def test_a_damaged_journal_is_named_by_a_verification_and_blanked_where_it_can_be_read(
    store: FileStore, place: Path, hurt: str
) -> None:
    saga, other = settled_on(store, OLD, words=SECRET), settled_on(store, OLD, words="kept")
    ((name, data),) = journals(place).items()
    store.close()
    whose, at = {"another's frames": (other, 60), "its frames": (saga, 60), "its head": (saga, -1)}[hurt]
    changed = bytearray(data)
    changed[data.index(whose.encode()) + at] ^= 1
    damaged = place / "journals" / (name.removesuffix(".j") + replay.DAMAGED)
    damaged.write_bytes(changed)
    (found,) = [checked for checked in verify(store) if checked.problem is not None]
    assert found.place == f"journals/{damaged.name}"
    if hurt == "its head":
        with pytest.raises(LogDamaged, match=r"\.damaged may hold records"):
            erase(store, saga, now=1)
        assert store.read(saga) is None
        damaged.unlink()
    assert erase(store, saga, now=2) is not None
    assert traces(place) == []
