"""Faults that are planted into ownership and hand-over: each is found by the check that the real store passes."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from saga_core import compensable, inverse, records, saga_scope
from saga_core.errors import StoreError
from saga_core.recovery import recover
from saga_core.stores import fork, history
from saga_core.stores.file import FileStore
from saga_core.stores.log import FileLog
from saga_core.stores.system import System

Begin: TypeAlias = Callable[[FileStore], FileLog]
Spawn: TypeAlias = Callable[..., "subprocess.Popen[str]"]

CLAIM = """
import fcntl, sys
from saga_core.stores import open_store
from saga_core.stores.system import System
System.flock = staticmethod(getattr(fcntl, sys.argv[3]))
print(open_store(sys.argv[1]).claim(sys.argv[2]) is not None)
"""


def is_taken_from_its_owner(place: Path, begin: Begin, spawn: Spawn, call: str) -> bool:
    """Tell whether another process gets a log whose owner has only read it again."""

    class Locking(System):
        flock = staticmethod(getattr(fcntl, call))

    store = FileStore(str(place), Locking())
    log = begin(store)
    assert store.read(log.saga) is not None
    child = spawn(CLAIM, place, log.saga, call)
    assert child.stdout is not None
    return child.stdout.read().strip() == "True"


def test_an_owner_who_reads_his_log_keeps_it(place: Path, begin: Begin, spawn: Spawn) -> None:
    assert not is_taken_from_its_owner(place, begin, spawn, "flock")


def test_a_lock_that_any_close_of_the_file_drops_is_found(place: Path, begin: Begin, spawn: Spawn) -> None:
    assert is_taken_from_its_owner(place, begin, spawn, "lockf")


def foreign_bytes(store: FileStore, begin: Begin, folder: Path) -> bytes:
    """Return what a log that was given up writes into a file that got its descriptor's number since."""
    log = begin(store)
    number: int = log._descriptor  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] -- the number that is free again
    log.release()
    path = folder / "foreign"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    if descriptor != number:
        os.dup2(descriptor, number)
        os.close(descriptor)
    try:
        with pytest.raises(StoreError, match="given up"):
            log.append(records.Committing(1))
        return path.read_bytes()
    finally:
        os.close(number)
        fork.descriptors.discard(number)
        log._descriptor = -1  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] -- closed, whoever thinks it open


def test_a_log_that_was_given_up_touches_no_descriptor(store: FileStore, begin: Begin, tmp_path: Path) -> None:
    assert foreign_bytes(store, begin, tmp_path) == b""


def test_a_descriptor_that_is_used_after_the_hand_over_is_found(
    store: FileStore, begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def release(log: FileLog) -> None:
        descriptor: int = log._descriptor  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        log.store.let_go(log.saga)
        os.close(descriptor)

    with monkeypatch.context() as planted:
        planted.setattr(FileLog, "release", release)
        with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
            foreign_bytes(store, begin, tmp_path)
    assert (tmp_path / "foreign").read_bytes() != b""


LEDGER: list[str] = []


@inverse("controls.remove", keyed=True)
def remove(name: str) -> None:
    LEDGER.remove(name)


@compensable("controls.add", undo=lambda call: remove.bind(name=call.args["name"]))
def add(name: str) -> None:
    LEDGER.append(name)


def acted_on_a_copy(place: Path, folder: Path) -> bool:
    """Restore an old copy of a saga's log after the saga was committed; tell whether recovery undoes what stands."""
    LEDGER.clear()
    store = FileStore(str(place), System())
    with saga_scope(store=store) as saga:
        add("kept")
        log = place / "open" / f"{saga.id}.log"
        shutil.copy(log, folder / "copy")
    shutil.rmtree(place / "done")  # the copy can get its inode now; only the generation tells
    (place / "done").mkdir()
    shutil.copy(folder / "copy", log)
    recover(FileStore(str(place), System()))
    return LEDGER != ["kept"]


def test_a_restored_old_copy_is_never_acted_on(place: Path, tmp_path: Path) -> None:
    assert not acted_on_a_copy(place, tmp_path)


def test_a_restored_old_copy_that_is_acted_on_is_found(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = history.judge

    def trusting(*args: Any, **options: Any) -> history.History:
        return judge(*args, **{**options, "identity": None})

    monkeypatch.setattr(history, "judge", trusting)
    assert acted_on_a_copy(place, tmp_path)
