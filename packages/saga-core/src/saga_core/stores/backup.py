"""Copying a store that is in use, so that the copy can be opened as a store and nothing is done in its name unasked.

Settled sagas are packed, because a pack vouches for its logs wherever it lies. A log that is not settled is copied up
to its last good record and marked as a copy: its header names inode 0, which no file has. Whoever opens the copy sees
a case, whatever became of the saga itself.

The order makes the copy whole although sagas go on: first what is not settled, so that what settles meanwhile is found
among the settled ones; the control database last, so that no key is missing whose saga is there.
"""

from __future__ import annotations

import os
from contextlib import closing, suppress
from typing import TYPE_CHECKING, NamedTuple

from saga_core import fold, frame
from saga_core.errors import LogDamaged, StoreError, StoreFull
from saga_core.ids import start_date
from saga_core.stores import pack, packing, place, upkeep
from saga_core.stores.archive import LOG_SUFFIX, Archive
from saga_core.stores.boot import boot_id
from saga_core.stores.pack import Draft
from saga_core.stores.packing import Left

if TYPE_CHECKING:
    from saga_core.stores.file import FileStore
    from saga_core.stores.pack import Pack
    from saga_core.stores.store import Reading

NEVER = (
    "journals/, locks and drafts: they serve running processes, and what a journal holds is in the logs",
    "ownership: no copy of a log that was not settled is ever acted on",
)
"""What no backup holds, and why."""


class Copied(NamedTuple):
    """What a backup holds.

    Attributes:
        path: Where it lies.
        settled: How many settled sagas are in its packs.
        unsettled: How many sagas were not settled; each is a case in the copy.
        left: Logs and packs that are in it as they stand, damaged, or not at all, and why.
    """

    path: str
    settled: int
    unsettled: int
    left: list[Left]


def back_up(store: FileStore, target: str) -> Copied:
    """Copy a store into a new or empty directory, which is on disk at return; the store may be in use.

    Raises:
        StoreBusy: Another process packs, drops, erases or backs up.
        StoreError: The directory is not empty or cannot be written; what was begun there is no store.
    """
    path = os.path.realpath(target)
    with upkeep.turn(store.system, os.path.dirname(store.archive.path)):
        try:
            return _Backup(store, path).make()
        except OSError as error:
            kind = StoreFull if error.errno in packing.FULL else StoreError
            raise kind(
                f"the backup into {path} failed: {error.strerror}",
                world="the store is as it was; what lies there is no store",
                next="make room or repair that disk, empty the directory, and run it again",
            ) from error


class _Backup:
    def __init__(self, store: FileStore, path: str) -> None:
        self._store = store
        self._system = store.system
        self._source = store.archive
        self._path = path
        self._copy = Archive(store.system, os.path.join(path, "done"), store.identity)
        self._open: set[str] = set()
        self._ended: dict[str, list[str]] = {}
        self._left: list[Left] = []
        self._settled = 0

    def make(self) -> Copied:
        self._make_directories()
        for saga in self._store.open_sagas():
            self._copy_unsettled(saga)
        for date in sorted({*self._source.dates(), *self._ended}):
            self._copy_day(date)
        if kept_since := self._source.kept_since():
            self._copy.keep_since(kept_since)
        self._store.control.copy_to(os.path.join(self._path, "control.db"))
        self._copy.write(os.path.join(self._path, ".gitignore"), b"*\n")
        for name in place.DIRECTORIES:
            self._system.sync_dir(os.path.join(self._path, name))
        # Last: where it stands, all the rest is on disk.
        self._copy.write(os.path.join(self._path, "store"), self._store.identity.encode() + b"\n")
        return Copied(self._path, self._settled, len(self._open), self._left)

    def _make_directories(self) -> None:
        """Make the directories of a store.

        Raises:
            StoreError: Something lies there already, or the store itself does.
        """
        root = os.path.dirname(self._source.path)
        if self._path == root or self._path.startswith(root + os.sep):
            raise _refusal(f"{self._path} lies inside the store")
        with suppress(FileExistsError):
            self._system.mkdir(self._path, 0o700)
        if self._system.listdir(self._path):
            raise _refusal(f"{self._path} is not empty")
        for name in place.DIRECTORIES:
            self._system.mkdir(os.path.join(self._path, name), 0o700)
        self._system.sync_dir(os.path.dirname(self._path))

    def _copy_unsettled(self, saga: str) -> None:
        body = self._bytes(saga)
        if body is None:
            return  # it has ended meanwhile, and is found among the settled ones
        reading = self._reading(saga)
        if reading is not None and _has_ended(reading):
            self._ended.setdefault(start_date(saga), []).append(saga)
            return
        parsed = frame.parse(body, boot=boot_id(), live=reading is not None)
        damage = parsed.damage if reading is None else reading.damage
        if damage is not None:
            self._leave(f"open/{saga}{LOG_SUFFIX}", f"copied as it stands: {damage}")
        self._copy.write(self._open_path(saga), _as_copy(body, parsed, is_damaged=damage is not None))
        self._open.add(saga)

    def _bytes(self, saga: str) -> bytes | None:
        """Return the file of a saga that is not put away; None if it is."""
        while (path := self._store.path_of(saga)) not in {None, self._source.log_path(saga)}:
            with suppress(FileNotFoundError):  # it was moved meanwhile
                return self._system.read_file(str(path))
        return None

    def _reading(self, saga: str) -> Reading | None:
        """Return what a log says, None where it cannot be read here: its key is missing, perhaps."""
        try:
            return self._store.read(saga)
        except StoreError:
            return None

    def _copy_day(self, date: str) -> None:
        logs, erased = self._source.loose(date)
        try:
            old = self._source.open_pack(date)
            sagas = sorted({*logs, *self._ended.get(date, ())} - erased)
            try:
                if old is not None or sagas or erased:
                    self._write_pack(date, old, sagas, erased)
            finally:
                if old is not None:
                    old.close()
        except LogDamaged as damage:
            self._leave(f"done/{date}{pack.SUFFIX}", f"copied as it stands: {damage.args[0]}")
            self._copy_file(self._source.pack_path(date), self._copy.pack_path(date))
            for saga in set(logs) - erased:
                self._copy_as_it_stands(saga, "the pack of its day is damaged")

    def _write_pack(self, date: str, old: Pack | None, sagas: list[str], erased: set[str]) -> None:
        """Write the pack of a day: what the store's has, and the logs that lie there as files.

        Raises:
            LogDamaged: The store's is damaged.
        """
        draft = Draft(self._system, self._copy.pack_path(date), self._store.identity)
        count = 0
        ended: list[str] = []
        with closing(draft):
            if old is not None:
                for entry in old.entries():
                    if entry.saga not in erased:
                        draft.add(entry.saga, entry.kind, old.body(entry))
                        count += entry.kind == pack.LOG
            for saga in sorted(erased):
                draft.add(saga, pack.TOMBSTONE, self._system.read_file(self._source.tombstone_path(saga)))
            for saga in sagas:
                if old is not None and old.find(saga) is not None:
                    continue
                body = self._body(saga)
                if body is not None:
                    draft.add(saga, pack.LOG, body)
                    count += 1
                    if saga in self._open:
                        ended.append(saga)
            draft.finish()
        self._settled += count
        for saga in set(ended).difference(self._store.open_sagas()):  # they settled after they were copied
            self._open.discard(saga)
            self._system.unlink(self._open_path(saga))

    def _body(self, saga: str) -> bytes | None:
        """Return the log of a settled saga if a pack may vouch for it; one for which it may not is copied as a file."""
        try:
            descriptor = self._system.open(self._source.log_path(saga), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # it has ended, and still lies among the unsettled ones
            return self._bytes(saga)
        try:
            body = self._system.read_all(descriptor)
            identity = self._system.identity(descriptor)
        finally:
            self._system.close(descriptor)
        why = packing.unfit(body, saga, self._store.identity, identity)
        if why is None:
            return body
        self._copy_as_it_stands(saga, why)
        return None

    def _copy_as_it_stands(self, saga: str, why: str) -> None:
        path = self._copy.log_path(saga)
        self._leave(os.path.relpath(path, self._path), f"copied as it stands: {why}")
        with suppress(FileExistsError):
            self._system.mkdir(os.path.dirname(path), 0o700)
        self._copy_file(self._source.log_path(saga), path)

    def _copy_file(self, source: str, target: str) -> None:
        self._copy.write(target, self._system.read_file(source))

    def _leave(self, name: str, why: str) -> None:
        self._left.append(Left(name, why))

    def _open_path(self, saga: str) -> str:
        return os.path.join(self._path, "open", saga + LOG_SUFFIX)


def _has_ended(reading: Reading) -> bool:
    """Tell whether a saga is settled whose log still lies among the unsettled ones."""
    try:
        return reading.damage is None and fold.fold(reading.records).is_settled
    except fold.FoldError:
        return False


def _as_copy(body: bytes, parsed: frame.Parsed, *, is_damaged: bool) -> bytes:
    """Return a log up to its last good record, marked as a copy; a damaged one whole."""
    if parsed.header is None:
        return body
    end = len(body) if is_damaged else parsed.good_end
    return parsed.header._replace(inode=0).pack() + body[frame.FILE_HEADER : end]


def _refusal(what: str) -> StoreError:
    return StoreError(
        f"no backup was made: {what}",
        world="nothing was written",
        next="name a directory that is new or empty, best on another disk",
    )
