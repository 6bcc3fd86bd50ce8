"""Stores full of sagas that need nothing: settled ones of three months, and suspended ones."""

from __future__ import annotations

import os
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from benchmarks.steps.tool import ARGUMENTS, process_step_now
from saga_core import open_store, saga_scope
from saga_core.ids import is_saga_id, start_date
from saga_core.stores.file import FileStore
from saga_core.stores.pack import LOG, Draft
from saga_core.stores.system import System

if TYPE_CHECKING:
    from pathlib import Path

DAYS = 90
"""Days that a settled saga is kept."""

LOOSE = 2000
"""Settled sagas of today, which lie in files of their own."""

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def _say(words: str) -> None:
    print(f"\r\033[K{words}", end="", file=sys.stderr, flush=True)


def saga_id(milliseconds: int) -> str:
    """Return a fresh saga id of that time since 1970."""
    number = milliseconds << 80 | int.from_bytes(os.urandom(10), "big")
    made = "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))
    assert is_saga_id(made)
    return made


def settle(path: Path, count: int) -> None:
    """Fill a store with settled sagas: today's are real ones in files, the others lie in a pack a day.

    The body of each packed log is that of a real one. Recovery reads neither packs nor the files of today.
    """
    store = open_store(f"file:{path}")
    assert isinstance(store, FileStore)
    today = min(LOOSE, count)
    saga = ""
    for number in range(today):
        with saga_scope(store=store) as one:
            process_step_now(**ARGUMENTS)
        saga = one.id
        if number % 100 == 0:
            _say(f"{number} settled sagas in files")
    done = path / "done"
    body = (done / start_date(saga) / f"{saga}.log").read_bytes()
    left = count - today
    for day in range(min(DAYS, left), 0, -1):
        some = left // day
        _pack(done, store.identity, day, some, body)
        left -= some
        _say(f"{count - left} of {count} settled sagas, packed")
    _say("")


def _pack(done: Path, store: str, day: int, count: int, body: bytes) -> None:
    """Write the pack of a day so many days ago."""
    date = datetime.now(UTC).date() - timedelta(days=day)
    begins = int(datetime(date.year, date.month, date.day, tzinfo=UTC).timestamp() * 1000)
    draft = Draft(System(), str(done / f"{date}.pack"), store)
    try:
        for number in range(count):
            draft.add(saga_id(begins + number * 86_400_000 // count), LOG, body)
        draft.finish()
    finally:
        draft.close()


def suspend(path: Path, count: int) -> None:
    """Fill a store with suspended sagas."""
    store = open_store(f"file:{path}")
    for number in range(count):
        with saga_scope(store=store, key=f"order-{number}-{time.time_ns()}") as saga:
            saga.suspend("waits for the customer")
        if number % 100 == 0:
            _say(f"{number} of {count} suspended sagas")
    _say("")
