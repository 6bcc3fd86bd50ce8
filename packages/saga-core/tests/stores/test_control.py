"""Keys in the control database: one saga a generation, whoever asks at once."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from saga_core import ids
from saga_core.errors import StoreError
from saga_core.stores import control

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from saga_core.stores.file import FileStore

TAKE = """
import os, sys
from saga_core import ids
from saga_core.stores import open_store
store = open_store(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
saga = ids.new_saga_id()
for generation in range(1, 21):
    while not (won := store.take_key("order-7", saga, generation)):
        if store.key_holder("order-7") and store.key_holder("order-7")[1] >= generation:
            break
    print(saga if won else "", flush=True)
"""


def test_each_generation_goes_to_one_of_the_processes_that_race_for_it(
    store: FileStore, spawn: Callable[..., subprocess.Popen[str]], place: Path
) -> None:
    children = [spawn(TAKE, place) for _ in range(3)]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    won: list[list[str]] = []
    for child in children:
        assert child.stdout is not None
        won.append(child.stdout.read().split("\n")[:20])
    winners = [[saga for saga in generation if saga] for generation in zip(*won, strict=True)]
    assert [len(each) for each in winners] == [1] * 20
    with closing(sqlite3.connect(place / "control.db")) as connection:
        rows = connection.execute("select saga from keys order by generation").fetchall()
    assert [saga for (saga,) in rows] == [saga for (saga,) in winners]
    assert store.key_holder("order-7") == (winners[-1][0], 20)


def test_a_writer_that_waits_too_long_is_told_and_nothing_is_written(
    store: FileStore, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "WAIT", 0.05)
    assert store.take_key("a", ids.new_saga_id(), 1)
    holder = os.open(place / "control.lock", os.O_RDWR)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        with pytest.raises(StoreError, match=r"control\.lock"):
            store.take_key("b", ids.new_saga_id(), 1)
    finally:
        os.close(holder)
    assert store.key_holder("b") is None
    assert store.take_key("b", ids.new_saga_id(), 1)


def test_asking_for_a_key_writes_nothing(store: FileStore, place: Path) -> None:
    assert store.key_holder("a") is None
    assert not (place / "control.db").exists()
    (place / "control.db").touch()
    assert store.key_holder("a") is None
    assert (place / "control.db").stat().st_size == 0


def test_a_control_database_that_is_none_is_named(store: FileStore, place: Path) -> None:
    (place / "control.db").write_bytes(b"not a database" * 100)
    with pytest.raises(StoreError, match=r"control\.db"):
        store.key_holder("a")
    with pytest.raises(StoreError, match=r"control\.db"):
        store.take_key("a", ids.new_saga_id(), 1)


def test_a_row_without_a_file_is_found_and_its_saga_is_not(store: FileStore) -> None:
    """What that loss means is for the engine to say."""
    lost = ids.new_saga_id()
    assert store.take_key("order-7", lost, 1)
    assert store.key_holder("order-7") == (lost, 1)
    assert store.read(lost) is None


def test_no_byte_of_a_key_is_kept(store: FileStore, place: Path) -> None:
    key = "ada@example.org, order 7"
    assert store.take_key(key, ids.new_saga_id(), 1)
    assert store.take_key(key, ids.new_saga_id(), 2)
    kept = b"".join(path.read_bytes() for path in place.rglob("*") if path.is_file())
    assert b"ada@" not in kept
    assert ids.key_digest(key).encode() in kept


def test_a_control_database_that_keeps_other_columns_is_refused(store: FileStore, place: Path) -> None:
    """A key that is looked for in vain would run its calls a second time."""
    with closing(sqlite3.connect(place / "control.db")) as connection:
        connection.execute("create table keys (key text, generation integer, saga text, at integer)")
    with pytest.raises(StoreError, match=r"control\.db"):
        store.key_holder("order-7")
    with pytest.raises(StoreError, match=r"control\.db"):
        store.take_key("order-7", ids.new_saga_id(), 1)


BUSY = """
import os, sys, threading
from saga_core import open_store
from saga_core.permissions import Dispatch

store = open_store(sys.argv[1])
store.permits.dispatch(Dispatch("first", "saga", "digest"))
is_over = threading.Event()

def work(number):
    at = 0
    while not is_over.is_set():
        at += 1
        store.permits.dispatch(Dispatch(f"{number}.{at}", "saga", "digest"))
        store.key_holder("k")

threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
for thread in threads:
    thread.start()
for child in range(25):
    pid = os.fork()
    if not pid:
        store.permits.dispatch(Dispatch(f"child {child}", "saga", "digest"))
        sys.exit(0)  # with all that an interpreter does at its end
    assert os.waitpid(pid, 0)[1] == 0
is_over.set()
for thread in threads:
    thread.join()
"""


def test_children_forked_amid_transactions_harm_nobodys(place: Path) -> None:
    url = f"file:{place}"
    run = subprocess.run([sys.executable, "-c", BUSY, url], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    with closing(sqlite3.connect(place / "control.db")) as connection:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
        steps = {step for (step,) in connection.execute("select step from permits")}
    assert {f"child {number}" for number in range(25)} <= steps
