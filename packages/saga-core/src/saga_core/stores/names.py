"""Which names in `open/` are on disk: one sync of the directory proves all that stood there before it."""

from __future__ import annotations

import errno
import itertools
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from saga_core.stores.system import System


class Names:
    """The names that this process made in a directory, numbered as they came."""

    def __init__(self, system: System, path: str) -> None:
        self._system = system
        self._path = path
        self._numbers = itertools.count(1)
        self._newest = 0
        self._proven = 0
        self._lost = range(0)
        self.renew_lock()

    def renew_lock(self) -> None:
        """Replace the lock; in a forked child it may be held by a thread that is not there."""
        self._lock = threading.Lock()

    def add(self) -> int:
        """Return the number of an name that was made just now; never blocks."""
        self._newest = number = next(self._numbers)
        return number

    def prove(self, number: int) -> None:
        """Return when a name is on disk; blocks.

        Raises:
            OSError: That cannot be proven any more: after a failed sync the kernel may believe it is.
        """
        with self._lock:
            if number in self._lost:
                raise OSError(errno.EIO, "an earlier sync of its directory failed")
            if number <= self._proven:
                return
            newest = max(number, self._newest)
            try:
                self._system.sync_dir(self._path)
            except BaseException:
                self._lost = range(self._lost.start or self._proven + 1, newest + 1)
                raise
            self._proven = newest
