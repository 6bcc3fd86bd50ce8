"""The journal of one process: what its logs appended, brought to the disk by one sync for all of them.

In the boot in which it is written nobody reads it, because the logs themselves hold the same bytes in the page cache.
After another boot it is what `replay` makes the logs whole from. It is used once, and deleted when the logs that it
names are on disk themselves.
"""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from saga_core.stores import drafts, fork, lock
from saga_core.stores.boot import boot_id
from saga_core.stores.copies import COPY_HEAD, HEADER, JOURNAL_HEADER, SUFFIX, new_name, pack

if TYPE_CHECKING:
    from saga_core.stores.copies import Copy
    from saga_core.stores.system import System

SIZE = 16 << 20
"""Bytes that a journal takes on disk at the most."""

_AHEAD = 128 << 10
"""Bytes that are zeroed ahead of what is written: blocks that were written before change neither length nor map."""


class Journal:
    """A locked file that one process writes from its beginning to its end.

    Attributes:
        path: Where it lies.
        sagas: Whose frames it holds.
        since: When it was begun, on the monotonic clock.
        has_adopted: Some of them belonged to another process before.
    """

    def __init__(self, system: System, directory: str) -> None:
        """Make a fresh journal; not on disk before the first `write`.

        Raises:
            OSError: There is no room for it, or it cannot be made here.
        """
        self._system = system
        self._directory = directory
        name = new_name(boot_id())
        self._salt = name.salt
        self.path = os.path.join(directory, str(name) + SUFFIX)
        draft = os.path.join(directory, str(name) + drafts.SUFFIX)
        self.sagas: set[str] = set()
        self.since = time.monotonic()
        self.has_adopted = False
        self._descriptor = lock.create(system, draft)
        try:
            system.preallocate(self._descriptor, _AHEAD)
            system.write_all(self._descriptor, HEADER, 0)
            system.rename(draft, self.path)
        except BaseException:
            with suppress(OSError):
                system.unlink(draft)
            self.close()
            raise
        self._end = self._zeroed = JOURNAL_HEADER
        self._is_named = False

    def fits(self, copies: int, size: int) -> bool:
        """Tell whether so many copies of so many bytes in all still fit."""
        return self._end + copies * COPY_HEAD + size <= SIZE

    def write(self, copies: list[Copy]) -> None:
        """Bring the copies to the disk; they are durable at return. Blocks.

        Raises:
            OSError: That is not proven, and this journal can prove nothing more.
        """
        batch = pack(self._salt, self._end, copies)
        behind = self._end + len(batch)
        if behind > self._zeroed:
            zeroed = min(behind + _AHEAD, SIZE)
            self._system.write_all(self._descriptor, bytes(zeroed - self._zeroed), self._zeroed)
            self._zeroed = zeroed
        self._system.write_all(self._descriptor, batch, self._end)
        self._system.sync_data(self._descriptor)
        if not self._is_named:
            self._system.sync_dir(self._directory)
            self._is_named = True
        if self._system.fstat(self._descriptor).st_nlink == 0:
            raise OSError(errno.ENOENT, "the journal was deleted")
        self._end = behind
        self.sagas.update(copy.saga for copy in copies)

    def close(self) -> None:
        """Give the file up where it lies: another process may bring its logs to the disk and delete it."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            fork.close(descriptor)

    def forget(self) -> None:
        """Drop the parent's descriptor in a forked child, where it is closed already."""
        self._descriptor = -1
