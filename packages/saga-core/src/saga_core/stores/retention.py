"""How long settled sagas are kept: as files for two days, in a pack a day until their retention ends, and no longer."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from saga_core.clock import SECOND
from saga_core.errors import LogDamaged, StoreError, StoreFull
from saga_core.stores import packing, upkeep
from saga_core.stores.archive import LOG_SUFFIX
from saga_core.stores.packing import Left
from saga_core.stores.tombstone import SUFFIX as TOMBSTONE_SUFFIX

if TYPE_CHECKING:
    from saga_core.stores.archive import Archive

DAYS = 90
"""Days for which a settled saga is kept by default, counted from the day on which it began."""

LOOSE_DAYS = 2
"""Days for which its log stays a file."""


class Collected(NamedTuple):
    """What was done, or would be.

    Attributes:
        packed: The days of which logs were packed, with how many.
        dropped: The days that were dropped, with how many sagas.
        left: Files that were left where they lie.
        damaged: Days whose packs are damaged, and what is wrong; they were left as they are.
        kept_since: The first day that is kept.
    """

    packed: dict[str, int]
    dropped: dict[str, int]
    left: list[Left]
    damaged: list[Left]
    kept_since: str


def collect(archive: Archive, *, now: int, days: int = DAYS, is_rehearsal: bool = False) -> Collected:
    """Pack the days that are older than two, and drop those whose retention has ended.

    Safe to repeat, to cut off anywhere and to run twice at once. A saga with an open case or a pending undo is not
    settled, so nothing of it lies where this looks.

    Args:
        archive: The settled sagas.
        now: The time, in nanoseconds since 1970.
        days: For how many days they are kept.
        is_rehearsal: Change nothing; return what would be done.

    Raises:
        StoreBusy: Another process has the turn.
        StoreError: The disk failed; every log is where it was, or is dropped.
    """
    today = datetime.fromtimestamp(now // SECOND, UTC).date()
    done = Collected({}, {}, [], [], _before(today, days))
    if is_rehearsal:
        for day in archive.dates():
            _rehearse(archive, day, _before(today, LOOSE_DAYS), done)
        return done
    with upkeep.turn(archive.system, os.path.dirname(archive.path)):
        try:
            packing.clear_drafts(archive)
            for day in archive.dates():
                _collect(archive, day, _before(today, LOOSE_DAYS), done)
        except OSError as error:
            kind = StoreFull if error.errno in packing.FULL else StoreError
            raise kind(
                f"settled sagas could not be packed or dropped: {error.strerror}",
                world="each of them is where it was, or in its pack",
                next="make room or repair the disk, then run it again",
            ) from error
    return done


def _before(today: date, days: int) -> str:
    """Return the day so many days ago; the first day of all where there are none so long ago."""
    return str(today - min(timedelta(days), today - date.min))


def _rehearse(archive: Archive, day: str, loose_since: str, done: Collected) -> None:
    logs, erased = archive.loose(day)
    if day < done.kept_since:
        done.dropped[day] = _count(archive, day)
    elif day < loose_since and (logs or erased):
        done.packed[day] = len(logs)


def _collect(archive: Archive, day: str, loose_since: str, done: Collected) -> None:
    if day < done.kept_since:
        done.dropped[day] = _drop(archive, day, done)
        return
    try:
        if day >= loose_since:
            packing.drop_erased(archive, day)
            return
        packed = packing.pack_day(archive, day)
    except LogDamaged as damage:
        done.damaged.append(Left(archive.pack_path(day), str(damage.args[0])))
        return
    done.left.extend(packed.left)
    if packed.logs:
        done.packed[day] = packed.logs


def _count(archive: Archive, day: str) -> int:
    """Return how many sagas are kept of a day; of a damaged pack nobody can tell."""
    logs, _ = archive.loose(day)
    packed = 0
    with suppress(LogDamaged):
        found = archive.open_pack(day)
        if found is not None:
            with found:
                packed = found.count
    return len(logs) + packed


def _drop(archive: Archive, day: str, done: Collected) -> int:
    count = _count(archive, day)
    system, directory = archive.system, os.path.join(archive.path, day)
    archive.keep_since(done.kept_since)  # first: whoever misses a log learns why
    with suppress(FileNotFoundError):
        system.unlink(archive.pack_path(day))
    for name in archive.names_in(directory):
        path = os.path.join(directory, name)
        if name.endswith((LOG_SUFFIX, TOMBSTONE_SUFFIX)):
            system.unlink(path)
        else:
            done.left.append(Left(path, "it is no log"))
    with suppress(OSError):  # something lies there still
        system.rmdir(directory)
    return count
