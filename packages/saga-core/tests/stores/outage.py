"""A disk whose power can be lost: it knows what of its files and of their names is on the platter."""

from __future__ import annotations

import errno
import os
import random
import threading
from pathlib import Path
from typing import Literal, TypeAlias

from saga_core.stores import fork
from saga_core.stores.system import System

Kept: TypeAlias = Literal["synced", "deleted", "torn"]
"""What is there after a loss of power: what was synced; that without the files that were deleted; or that with any of
what was done later, the last write cut anywhere."""

_Change: TypeAlias = tuple[int, bytes | None]
_SQLITE = "control"
_HALF = 0.5


# The real table holds functions of `os`; here those that change something are methods, of the same arguments.
# pyright: reportIncompatibleMethodOverride=false
class Outage(System):
    """The real calls on one directory, and the platter under it.

    Names and contents are on the platter once they were synced, each for itself. Directories stay where they are made,
    and SQLite, which goes past this table, syncs what it commits.
    """

    def __init__(self, place: Path, kept: Kept = "synced", seed: int = 1) -> None:
        """Take what lies in the place for what is on the platter."""
        self._place = place
        self._kept: Kept = kept
        self._dice = random.Random(seed)
        self._lock = threading.RLock()
        self._has_power = True
        self._files: dict[int, int] = {}
        self._platter: dict[int, bytearray] = {}
        self._later: dict[int, list[_Change]] = {}
        self._names: dict[str, dict[str, int]] = {}
        for folder, _, names in os.walk(place):
            self._names[folder] = {}
            for name in names:
                path = Path(folder, name)
                number = self._number(path.stat().st_ino)
                self._platter[number] = bytearray() if name.startswith(_SQLITE) else bytearray(path.read_bytes())
                self._names[folder][name] = number

    def _number(self, inode: int, *, is_new: bool = False) -> int:
        if is_new or inode not in self._files:
            number = self._files[inode] = len(self._platter) + 1
            self._platter[number] = bytearray()
            self._later[number] = []
        return self._files[inode]

    def _of(self, descriptor: int) -> int:
        return self._number(os.fstat(descriptor).st_ino)

    def _use(self) -> None:
        if not self._has_power:
            raise OSError(errno.EIO, "the power is off")

    def open(self, path: str, flags: int, mode: int = 0o777, /) -> int:
        with self._lock:
            self._use()
            is_new = bool(flags & os.O_CREAT) and not Path(path).exists()
            descriptor = os.open(path, flags, mode)
            if is_new:
                self._number(os.fstat(descriptor).st_ino, is_new=True)
            return descriptor

    def pwrite(self, descriptor: int, data: bytes, offset: int, /) -> int:
        with self._lock:
            self._use()
            written = os.pwrite(descriptor, data, offset)
            self._later[self._of(descriptor)].append((offset, bytes(data[:written])))
            return written

    def truncate(self, descriptor: int, size: int, /) -> None:
        with self._lock:
            self._use()
            os.ftruncate(descriptor, size)
            self._later[self._of(descriptor)].append((size, None))

    def preallocate(self, descriptor: int, size: int, /) -> None:
        with self._lock:
            self._use()
            os.posix_fallocate(descriptor, 0, size)
            self._later[self._of(descriptor)].append((size, None))

    def rename(self, source: str, target: str, /) -> None:
        with self._lock:
            self._use()
            Path(source).rename(target)

    def unlink(self, path: str, /) -> None:
        with self._lock:
            self._use()
            Path(path).unlink()

    def sync_data(self, descriptor: int, /) -> None:
        with self._lock:
            self._use()
            number = self._of(descriptor)
            _apply(self._platter[number], self._later[number])
            self._later[number] = []

    def sync_dir(self, path: str) -> None:
        with self._lock:
            self._use()
            names = {entry.name: self._number(entry.stat().st_ino) for entry in Path(path).iterdir() if entry.is_file()}
            self._names[path] = names

    def fail(self) -> None:
        """Turn the power off: every call fails from now on."""
        with self._lock:
            self._has_power = False

    def come_back(self) -> None:
        """Leave in the directory what is on the platter; whoever used it has closed everything."""
        for descriptor in list(fork.descriptors):
            if Path(f"/proc/self/fd/{descriptor}").readlink().is_relative_to(self._place):
                fork.close(descriptor)
        found: dict[int, Path] = {}
        for folder, _, names in os.walk(self._place):
            for name in names:
                if not name.startswith(_SQLITE):
                    path = Path(folder, name)
                    found[self._number(path.stat().st_ino)] = path
        survivors = {
            number: Path(folder, name)
            for folder, names in self._names.items()
            for name, number in names.items()
            if not name.startswith(_SQLITE)
        }
        for number in found.keys() | survivors.keys():
            now, synced = found.get(number), survivors.get(number)
            path = now if self._is_done_later() else synced
            if self._kept == "deleted" and now is None:
                path = None
            if path is None:
                if now is not None:
                    now.unlink()
                continue
            if now is not None:
                now.rename(path)  # the same inode: a log knows its own
            path.write_bytes(self._survived(number))

    def _is_done_later(self) -> bool:
        return self._kept == "torn" and self._dice.random() < _HALF

    def _survived(self, number: int) -> bytes:
        data = bytearray(self._platter[number])
        later = self._later.get(number, [])
        if self._kept == "torn" and later:
            taken = later[: self._dice.randint(0, len(later))]
            if taken and taken[-1][1]:
                offset, last = taken[-1]
                taken[-1] = (offset, (last or b"")[: self._dice.randint(0, len(last or b""))])
            _apply(data, taken)
        return bytes(data)


def _apply(data: bytearray, changes: list[_Change]) -> None:
    for offset, written in changes:
        if written is None:
            del data[offset:]
        data.extend(bytes(max(0, offset + len(written or b"") - len(data))))
        if written is not None:
            data[offset : offset + len(written)] = written
