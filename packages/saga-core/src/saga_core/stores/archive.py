"""The settled sagas of a store, wherever they lie: `done/<start date>/<saga>.log`, or in `done/<start date>.pack`.

A log is looked for as a file first and in the pack of its day then: a pack bears its name before the files that went
into it are deleted. A tombstone, `done/<start date>/<saga>.erased` or in the pack, says that a log is gone, although
after a crash parts of it may still lie there. `done/kept-since` holds the first day that retention has spared.
"""

from __future__ import annotations

import heapq
import logging
import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from saga_core.errors import LogDamaged, StoreError
from saga_core.ids import is_saga_id, start_date
from saga_core.stores import history, pack, tombstone
from saga_core.stores.pack import Pack
from saga_core.stores.store import Reading
from saga_core.stores.tombstone import Tombstone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from saga_core import frame
    from saga_core.stores.encryption import Encryption
    from saga_core.stores.system import System

LOG_SUFFIX = ".log"
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_KEPT_SINCE = "kept-since"
_logger = logging.getLogger("saga_core.store")


class Archive:
    """What can be read in `done/`.

    Attributes:
        system: The disk.
        path: The directory.
        store: The id of the store.
    """

    def __init__(self, system: System, path: str, store: str, encryption: Encryption | None = None) -> None:
        self.system = system
        self.path = path
        self.store = store
        self._encryption = encryption

    def log_path(self, saga: str) -> str:
        """Return where the log of a settled saga lies as a file."""
        return f"{self.path}/{start_date(saga)}/{saga}{LOG_SUFFIX}"

    def tombstone_path(self, saga: str) -> str:
        """Return where an erased saga's tombstone lies as a file."""
        return f"{self.path}/{start_date(saga)}/{saga}{tombstone.SUFFIX}"

    def pack_path(self, date: str) -> str:
        """Return where the pack of a day lies."""
        return f"{self.path}/{date}{pack.SUFFIX}"

    def open_pack(self, date: str) -> Pack | None:
        """Return the pack of a day, open, or None if there is none.

        Raises:
            LogDamaged: It is damaged.
        """
        try:
            return Pack(self.system, self.pack_path(date), self.store)
        except FileNotFoundError:
            return None

    def read(self, saga: str) -> Reading | None:
        """Return the history of a saga whose log lies in a pack; that of a damaged pack is a damaged one."""
        if self.is_erased(saga):
            return None
        try:
            found = self._look(saga)
        except LogDamaged as damage:
            return Reading(saga, [], str(damage.args[0]), settled=True)
        if found is None or found[0] != pack.LOG:
            return None
        return self.judge(found[1], saga, None)

    def read_file(self, saga: str) -> Reading | None:
        """Return the history of a saga whose log lies there as a file, whatever else lies there."""
        try:
            descriptor = self.system.open(self.log_path(saga), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            return self.judge(self.system.read_all(descriptor), saga, self.system.identity(descriptor))
        finally:
            self.system.close(descriptor)

    def judge(self, body: bytes, saga: str, identity: frame.Identity | None) -> Reading:
        """Return what the bytes of a settled saga's log say; those of a pack have no file of their own."""
        found = history.judge(
            body, saga, self.store, identity=identity, live=False, settled=True, encryption=self._encryption
        )
        return found.reading

    def is_erased(self, saga: str) -> bool:
        """Tell whether a saga has a tombstone that is not packed yet: parts of its log may still stand."""
        return self.system.exists(self.tombstone_path(saga))

    def holds(self, saga: str) -> bool:
        """Tell whether a saga is packed or erased; what cannot be read holds none."""
        try:
            return self.is_erased(saga) or self._look(saga) is not None
        except LogDamaged:
            return False

    def tombstone(self, saga: str) -> Tombstone | None:
        """Return what stays of a saga that was erased or dropped.

        Raises:
            LogDamaged: The pack of its day is damaged.
        """
        with suppress(FileNotFoundError, NotADirectoryError):
            return tombstone.unpack(saga, self.system.read_file(self.tombstone_path(saga)))
        found = self._look(saga)
        if found is not None:
            return tombstone.unpack(saga, found[1]) if found[0] == pack.TOMBSTONE else None
        is_dropped = start_date(saga) < self.kept_since() and not self.system.exists(self.log_path(saga))
        return Tombstone(saga, "dropped") if is_dropped else None

    def is_gone(self, saga: str) -> bool:
        """Tell whether a saga that has no file has ended: it is packed, erased or dropped.

        One whose day has a damaged pack has, too: the day was over when it was packed, and a file of it would stand.
        """
        try:
            return self._look(saga) is not None or self.tombstone(saga) is not None
        except LogDamaged:
            return True

    def _look(self, saga: str) -> tuple[int, bytes] | None:
        found = self.open_pack(start_date(saga))
        if found is None:
            return None
        with found:
            entry = found.find(saga)
            return None if entry is None else (entry.kind, found.body(entry))

    def dates(self) -> list[str]:
        """Return the days of which something is kept, oldest first."""
        names = {name.removesuffix(pack.SUFFIX) for name in self.names_in(self.path)}
        return sorted(name for name in names if _DATE.fullmatch(name))

    def loose(self, date: str) -> tuple[list[str], set[str]]:
        """Return the sagas of a day whose logs lie there as files, oldest first, and those whose tombstones do."""
        names = self.names_in(os.path.join(self.path, date))
        logs = (name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX))
        stones = (name.removesuffix(tombstone.SUFFIX) for name in names if name.endswith(tombstone.SUFFIX))
        return sorted(filter(is_saga_id, logs)), set(filter(is_saga_id, stones))

    def sagas(self) -> Iterator[str]:
        """Yield the settled sagas, newest first."""
        for date in reversed(self.dates()):
            logs, erased = self.loose(date)
            before = ""
            for saga in heapq.merge(reversed(logs), self._packed_on(date, pack.LOG), reverse=True):
                if saga != before and saga not in erased:
                    yield saga
                before = saga

    def erased(self) -> Iterator[str]:
        """Yield the erased sagas of which a tombstone is kept, newest day first."""
        for date in reversed(self.dates()):
            _, erased = self.loose(date)
            yield from sorted(erased.union(self._packed_on(date, pack.TOMBSTONE)), reverse=True)

    def _packed_on(self, date: str, kind: int) -> Iterator[str]:
        try:
            found = self.open_pack(date)
            if found is None:
                return
            with found:
                for entry in found.entries(newest_first=True):
                    if entry.kind == kind:
                        yield entry.saga
        except OSError as error:
            raise StoreError(
                f"the settled sagas of {date} cannot be listed: {error.strerror}",
                world="nothing was done",
                next="look at the disk and at the rights of its directories",
            ) from error
        except LogDamaged as damage:
            _logger.error("the sagas of %s are not all listed: %s", date, damage.args[0])  # noqa: TRY400 -- it says all

    def kept_since(self) -> str:
        """Return the first day of which nothing was dropped, as YYYY-MM-DD; "" if nothing ever was."""
        try:
            text = self.system.read_file(os.path.join(self.path, _KEPT_SINCE)).decode("ascii", "replace").strip()
        except FileNotFoundError:
            return ""
        return text if _DATE.fullmatch(text) else ""

    def keep_since(self, date: str) -> None:
        """Take note that days before `date` are dropped; on disk at return.

        Raises:
            OSError: That could not be done.
        """
        if self.kept_since() < date:
            self.write(os.path.join(self.path, _KEPT_SINCE), date.encode() + b"\n")

    def write(self, path: str, data: bytes) -> None:
        """Give a small file its bytes, all or none; on disk at return.

        Raises:
            OSError: That could not be done.
        """
        draft = path + ".new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        descriptor = self.system.open(draft, flags, 0o600)
        try:
            self.system.write_all(descriptor, data, 0)
            self.system.sync_data(descriptor)
        finally:
            self.system.close(descriptor)
        self.system.rename(draft, path)
        self.system.sync_dir(os.path.dirname(path))

    def names_in(self, directory: str) -> list[str]:
        """Return the names in a directory; none if it is gone.

        Raises:
            StoreError: It cannot be listed.
        """
        try:
            return self.system.listdir(directory)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise StoreError(
                f"the store cannot be listed: {directory}: {error.strerror}",
                world="nothing was done",
                next="look at the disk and at the rights of its directories",
            ) from error
