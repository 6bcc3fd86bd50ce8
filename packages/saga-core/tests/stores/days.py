"""Sagas of past days, as a store that has run for long holds them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from saga_core import codec, records
from saga_core.ids import new_saga_id
from saga_core.stores.boot import boot_id

if TYPE_CHECKING:
    from saga_core.stores.file import FileStore

NOON = 12 * 3_600
LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def at_noon(day: str) -> int:
    """Return the noon of a day, in nanoseconds since 1970."""
    midnight = datetime.combine(date.fromisoformat(day), datetime.min.time(), UTC)
    return (int(midnight.timestamp()) + NOON) * 1_000_000_000


def saga_of(day: str) -> str:
    """Return a fresh id of a saga that began on a day at noon."""
    milliseconds = at_noon(day) // 1_000_000
    return "".join(LETTERS[milliseconds >> 5 * place & 31] for place in reversed(range(10))) + new_saga_id()[10:]


def settled_on(store: FileStore, day: str, *, words: str = "", key: str | None = None) -> str:
    """Settle a saga that began on a day, with some words in its log, and return its id."""
    saga = saga_of(day)
    log = store.create(saga)
    at = at_noon(day)
    log.append(records.Began(saga, f"name {words}", key, at, 1, boot_id(), 1, "here", {"tag": f"tag {words}"}))
    value = codec.freeze({"words": words})
    log.append(
        records.Intended(1, at, "act", 1, "compensable", "", "act#1", 1, None, value, records.EMPTY, value, "power", 0)
    )
    log.append(records.Applied(1, at, value, None))
    log.sync(log.append(records.Committed(at)))
    log.settle()
    return saga


def contents(store: FileStore) -> dict[str, list[bytes]]:
    """Return the encoded records of every settled saga, none of which may be damaged."""
    found: dict[str, list[bytes]] = {}
    for saga in store.done_sagas():
        reading = store.read(saga)
        assert reading is not None, saga
        assert reading.damage is None, reading.damage
        assert reading.settled
        found[saga] = [codec.encode(record) for record in reading.records]
    return found


def files(store: FileStore) -> list[str]:
    """Return what lies in `done/`."""
    done = Path(store.archive.path)
    return sorted(str(path.relative_to(done)) for path in done.rglob("*") if path.is_file())
