"""Packing: the settled logs of a day go into one file, and at no moment is one of them in none.

The pack is drafted, brought to the disk and given its name; only then is a log's own file deleted, and only if the
pack, read back, holds the same bytes. A crash leaves a draft, which the next turn deletes, or logs that lie there
twice, of which the next turn deletes the files. All of it is done by whoever has the turn (`upkeep`).
"""

from __future__ import annotations

import errno
import os
from contextlib import closing, suppress
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from saga_core import frame
from saga_core.errors import LogDamaged
from saga_core.stores import fork, lock, pack
from saga_core.stores.boot import boot_id
from saga_core.stores.pack import Draft

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from saga_core.stores.archive import Archive
    from saga_core.stores.pack import Pack


FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""What the system says when there is no room."""


class Left(NamedTuple):
    """A file that was left where it lies, and why."""

    path: str
    why: str


class Packed(NamedTuple):
    """What became of a day.

    Attributes:
        logs: How many logs its pack has taken in.
        left: What was left as it is.
    """

    logs: int
    left: list[Left]


def clear_drafts(archive: Archive) -> None:
    """Delete what a process that died in its turn did not finish.

    Raises:
        OSError: One cannot be deleted.
    """
    for directory in (archive.path, *(os.path.join(archive.path, date) for date in archive.dates())):
        for name in archive.names_in(directory):
            if name.endswith(".new"):
                archive.system.unlink(os.path.join(directory, name))


def pack_day(archive: Archive, date: str) -> Packed:
    """Bring the logs and tombstones of a day into its pack; on disk at return.

    A log that is damaged, was made elsewhere, or has an owner stays a file.

    Raises:
        LogDamaged: The pack of the day is damaged; nothing was changed.
        OSError: The disk failed; every log is where it was.
    """
    logs, erased = archive.loose(date)
    logs = _without_erased(archive, logs, erased)
    left: list[Left] = []
    count = 0
    if logs or erased:
        count = _write(archive, date, logs, erased, left)
    _delete_packed(archive, date, logs, erased, left)
    return Packed(count, left)


def drop_erased(archive: Archive, date: str) -> None:
    """Leave no byte of a day's logs that have tombstones; on disk at return.

    Raises:
        LogDamaged: The pack of the day is damaged; it still holds them.
        OSError: The disk failed; they may still be there.
    """
    logs, erased = archive.loose(date)
    _without_erased(archive, logs, erased)
    if erased:
        archive.system.sync_dir(os.path.join(archive.path, date))
        if archive.system.exists(archive.pack_path(date)):
            _write(archive, date, [], erased, [])
            _delete_packed(archive, date, [], erased, [])


def _without_erased(archive: Archive, logs: list[str], erased: set[str]) -> list[str]:
    """Delete the files of erased sagas; return the other logs."""
    for saga in erased.intersection(logs):
        archive.system.unlink(archive.log_path(saga))
    return [saga for saga in logs if saga not in erased]


def _write(archive: Archive, date: str, logs: list[str], erased: set[str], left: list[Left]) -> int:
    """Write the day's pack anew if anything is to change in it; return how many logs it has taken in."""
    old = archive.open_pack(date)
    try:
        fresh = _fit(archive, (saga for saga in logs if old is None or old.find(saga) is None), left)
        first = next(fresh, None)
        if first is None and not erased:
            return 0
        draft = Draft(archive.system, archive.pack_path(date), archive.store)
        with closing(draft):
            if old is not None:
                _copy(old, draft, erased)
            for saga in sorted(erased):
                draft.add(saga, pack.TOMBSTONE, archive.system.read_file(archive.tombstone_path(saga)))
            count = 0
            for saga, body in chain([] if first is None else [first], fresh):
                draft.add(saga, pack.LOG, body)
                count += 1
            draft.finish()
        return count
    finally:
        if old is not None:
            old.close()


def _copy(old: Pack, draft: Draft, erased: set[str]) -> None:
    for entry in old.entries():
        if entry.saga not in erased:
            draft.add(entry.saga, entry.kind, old.body(entry))


def _fit(archive: Archive, sagas: Iterable[str], left: list[Left]) -> Iterator[tuple[str, bytes]]:
    """Yield the logs that may go into a pack; note the others."""
    for saga in sagas:
        path = archive.log_path(saga)
        try:
            descriptor = lock.take(archive.system, path)
        except FileNotFoundError:
            continue
        except LogDamaged as damage:
            left.append(Left(path, str(damage.args[0])))
            continue
        if descriptor is None:
            left.append(Left(path, "a process still holds it"))
            continue
        try:
            body = archive.system.read_all(descriptor)
            identity = archive.system.identity(descriptor)
        finally:
            fork.close(descriptor)
        why = unfit(body, saga, archive.store, identity)
        if why is None:
            yield saga, body
        else:
            left.append(Left(path, why))


def unfit(body: bytes, saga: str, store: str, identity: frame.Identity) -> str | None:
    """Return why a pack, which vouches for its logs, must not take these bytes."""
    parsed = frame.parse(body, boot=boot_id())
    header = parsed.header
    if parsed.damage is not None:
        return parsed.damage
    if header is None:
        return "it is cut within its header"
    if (header.saga, header.store) != (saga, store) or not header.is_at(identity):
        return "it was not made here (its saga, store or inode is another): a restored copy, perhaps"
    return None


def _delete_packed(archive: Archive, date: str, logs: list[str], erased: set[str], left: list[Left]) -> None:
    """Delete the files that the pack makes superfluous, and then the empty directory."""
    found = archive.open_pack(date)
    if found is not None:
        with found:
            for saga in logs:
                entry = found.find(saga)
                if entry is None:
                    continue
                path = archive.log_path(saga)
                if entry.kind == pack.LOG and found.body(entry) == archive.system.read_file(path):
                    archive.system.unlink(path)
                else:
                    known = "another log of the saga" if entry.kind == pack.LOG else "that the saga was erased"
                    left.append(Left(path, f"the pack of its day holds {known}"))
            for saga in erased:
                archive.system.unlink(archive.tombstone_path(saga))
    with suppress(OSError):  # something lies there still
        archive.system.rmdir(os.path.join(archive.path, date))
