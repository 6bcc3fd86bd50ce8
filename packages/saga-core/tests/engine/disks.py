"""Real file stores on a disk that waits or fails on demand."""

from __future__ import annotations

import errno
import os
import threading
from typing import TYPE_CHECKING

from saga_core.stores.file import FileStore
from saga_core.stores.system import System

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Disk(System):
    """The real disk, until a test says otherwise.

    Attributes:
        writable: Whether bytes are taken; not so, `write_errors` says how often, None: for ever.
        syncable: Whether what was written can be proven to be there.
        held: While clear, every sync waits.
        waiting: Set while a sync waits.
    """

    def __init__(self) -> None:
        self.fail_write: Callable[[bytes], bool] = lambda _: False
        self.fail_sync: Callable[[], bool] = lambda: False
        self.go = threading.Event()
        self.go.set()
        self.waiting = threading.Event()
        self.syncs = 0

    def pwrite(self, descriptor: int, data: bytes | memoryview, offset: int, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self.fail_write(bytes(data)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.pwrite(descriptor, data, offset)

    def sync_data(self, descriptor: int, /) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.syncs += 1
        if not self.go.is_set():
            self.waiting.set()
            assert self.go.wait(20)
        if self.fail_sync():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.fdatasync(descriptor)


def store_on(disk: Disk, path: Path) -> FileStore:
    """Return a new store in a directory of that disk."""
    return FileStore(str((path / "store").resolve()), disk)
