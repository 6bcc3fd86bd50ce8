"""Room that is kept for the worst moment: on a full disk, what was done can still be undone and written down."""

from __future__ import annotations

import errno
import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from saga_core.stores.system import System

SIZE = 256 << 10
"""Bytes that are kept: the records of some hundred undos."""

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""What a write says when the disk, or the user's share of it, is full."""

_UNABLE = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})


class Reserve:
    """A file that takes room until it is given up."""

    def __init__(self, system: System, path: str) -> None:
        self._system = system
        self._path = path
        self._is_held = False
        self.renew_lock()

    def renew_lock(self) -> None:
        """Replace the lock; in a forked child it may be held by a thread that is not there."""
        self._lock = threading.Lock()

    def hold(self) -> None:
        """Take the room unless it is taken.

        Raises:
            OSError: There is none: nothing new may begin.
        """
        if self._is_held:
            return
        with self._lock:
            descriptor = self._system.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if self._system.fstat(descriptor).st_size < SIZE:
                    self._take(descriptor)
            finally:
                self._system.close(descriptor)
            self._is_held = True

    def _take(self, descriptor: int) -> None:
        try:
            self._system.preallocate(descriptor, SIZE)
        except OSError as error:
            if error.errno not in _UNABLE:
                raise
            self._system.write_all(descriptor, os.urandom(SIZE), 0)  # zeros may take no room where files are compressed

    def give_up(self) -> bool:
        """Free the room for what has to be written now; False if there is none left."""
        with self._lock:
            self._is_held = False
            try:
                descriptor = self._system.open(self._path, os.O_RDWR | os.O_CLOEXEC)
            except OSError:
                return False
            try:
                if self._system.fstat(descriptor).st_size == 0:
                    return False
                self._system.truncate(descriptor, 0)
            except OSError:
                return False
            finally:
                self._system.close(descriptor)
            return True
