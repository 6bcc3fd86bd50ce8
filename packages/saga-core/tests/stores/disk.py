"""Disks for the tests: real ones that refuse, watch or forget something."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from saga_core.stores.system import System

if TYPE_CHECKING:
    from saga_core.stores.committer import Done
    from saga_core.stores.log import FileLog


class FilesOnly(System):
    """A disk on which no journal can be made, so that each log is synced by itself."""

    @staticmethod
    def preallocate(descriptor: int, size: int, /) -> None:
        raise OSError(errno.EOPNOTSUPP, f"no room is taken ahead here: {descriptor}, {size}")


class Call(NamedTuple):
    """A call that reached the disk: its name and the path that it was about."""

    name: str
    path: str


class Watched(System):
    """A disk that keeps the order of what is synced, renamed and deleted, and can be told to fail.

    Attributes:
        calls: What was done so far; a call that failed is not among them.
        failing: The paths, or ends of paths, whose syncs and writes fail.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.opened: list[str] = []
        self.failing: set[str] = set()
        self.error = errno.EIO
        self.open = self._open
        self.pwrite = self._pwrite
        self.sync_data = self._sync_data
        self.rename = self._rename
        self.unlink = self._unlink

    def _refuse(self, path: str) -> None:
        if any(path.endswith(end) for end in self.failing):
            raise OSError(self.error, os.strerror(self.error))

    def _open(self, path: str, flags: int, mode: int = 0o777) -> int:
        self.opened.append(path)
        return os.open(path, flags, mode)

    def _pwrite(self, descriptor: int, data: bytes, offset: int, /) -> int:
        if self.failing:
            self._refuse(path_of(descriptor))
        return os.pwrite(descriptor, data, offset)

    def _sync_data(self, descriptor: int, /) -> None:
        path = path_of(descriptor)
        self._refuse(path)
        os.fdatasync(descriptor)
        self.calls.append(Call("sync", path))

    def sync_dir(self, path: str) -> None:
        self._refuse(path)
        super().sync_dir(path)
        self.calls.append(Call("sync_dir", path))

    def _rename(self, source: str, target: str) -> None:
        self._refuse(target)
        Path(source).rename(target)
        self.calls.append(Call("rename", target))

    def _unlink(self, path: str) -> None:
        Path(path).unlink()
        self.calls.append(Call("unlink", path))


def path_of(descriptor: int) -> str:
    """Return the path under which a descriptor's file lies now."""
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())


def sync_later(log: FileLog, position: int, done: Done) -> None:
    """Ask for one log."""
    log.store.sync_later([(log, position)], done)
