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
        fail_write: Tells, for each write, whether the disk is full.
        fail_sync: Tells, for each sync of a file, whether it fails.
        fail_rename: Whether no file can be moved.
        go: While clear, every sync of a file waits.
        waiting: Set once a sync waits.
    """

    def __init__(self) -> None:
        self.fail_write: Callable[[bytes], bool] = lambda _: False
        self.fail_sync: Callable[[], bool] = lambda: False
        self.fail_rename = False
        self.go = threading.Event()
        self.go.set()
        self.waiting = threading.Event()

    def pwrite(self, descriptor: int, data: bytes | memoryview, offset: int, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self.fail_write(bytes(data)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.pwrite(descriptor, data, offset)

    def sync_data(self, descriptor: int, /) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        if not self.go.is_set():
            self.waiting.set()
            assert self.go.wait(20)
        if self.fail_sync():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.fdatasync(descriptor)

    def rename(self, source: str, target: str, /) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self.fail_rename:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().rename(source, target)


def always(_: bytes = b"") -> bool:
    """Fail each time."""
    return True


def first(times: int) -> Callable[[], bool]:
    """Fail that often, then no more."""
    left = iter([True] * times)
    return lambda: next(left, False)


def store_on(disk: Disk, path: Path) -> FileStore:
    """Return a new store in a directory of that disk."""
    return FileStore(str((path / "store").resolve()), disk)
