"""Disks for the tests: real ones that refuse something, fail, or tell what would be left after a loss of power."""

from __future__ import annotations

import errno
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from saga_core.stores import copies
from saga_core.stores.system import System

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pytest

    from saga_core.stores.committer import Done
    from saga_core.stores.log import FileLog


_WATCHED = 4 << 20
"""Bytes of the longest file whose contents are followed; a journal of the usual size is longer."""

NEXT_BOOT = "00000000-0000-4000-8000-000000000000"
"""The boot that follows in a test."""


class FilesOnly(System):
    """A disk on which no journal can be made, so that each log is synced by itself."""

    @staticmethod
    def preallocate(descriptor: int, size: int, /) -> None:
        raise OSError(errno.EOPNOTSUPP, f"no room is taken ahead here: {descriptor}, {size}")


class Call(NamedTuple):
    """What reached the disk: a call's name and the path that it was about."""

    name: str
    path: str


class Witness(System):
    """A disk that knows what would be left of each file if the power went now, and watches the end of each journal.

    A failed sync marks pages clean that never got to the disk, as ext4, XFS and Btrfs do (Rebello et al., "Can
    Applications Recover from fsync Failures?", USENIX ATC 2020).

    Attributes:
        calls: The syncs, renames and deletions so far; one that failed is named `failed`.
        opened: The paths that were opened.
        bad_syncs: Ends of paths whose syncs fail.
        bad_writes: Ends of paths to which nothing can be written.
        wrongs: What a deleted journal held that a loss of power could have taken.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.opened: list[str] = []
        self.bad_syncs: set[str] = set()
        self.bad_writes: set[str] = set()
        self.error = errno.EIO
        self.wrongs: list[str] = []
        self._changed = threading.Condition()
        self._turn = threading.Lock()
        self._on_disk: dict[int, bytes] = {}
        self._names: dict[str, dict[str, int]] = {}
        self._written: dict[int, list[tuple[int, bytes]]] = {}
        self._is_doubtful: set[int] = set()
        self.open = self._open
        self.pwrite = self._pwrite
        self.sync_data = self._sync_data
        self.rename = self._rename
        self.unlink = self._unlink

    def until(self, is_so: Callable[[], bool]) -> None:
        """Return when it is so; asked behind each call."""
        with self._changed:
            assert self._changed.wait_for(is_so, 60), self.calls

    def count(self, name: str, end: str) -> int:
        """Return how many calls of a name were about a path that ends so."""
        return sum(call.name == name and call.path.endswith(end) for call in self.calls)

    def _note(self, name: str, path: str) -> None:
        with self._changed:
            self.calls.append(Call(name, path))
            self._changed.notify_all()

    def _refuse(self, path: str, ends: set[str]) -> None:
        if any(path.endswith(end) for end in ends):
            self._note("failed", path)
            raise OSError(self.error, os.strerror(self.error))

    def _open(self, path: str, flags: int, mode: int = 0o777) -> int:
        self.opened.append(path)
        return os.open(path, flags, mode)

    def _pwrite(self, descriptor: int, data: bytes, offset: int, /) -> int:
        self._refuse(path_of(descriptor), self.bad_writes)
        self._written.setdefault(os.fstat(descriptor).st_ino, []).append((offset, bytes(data)))
        return os.pwrite(descriptor, data, offset)

    def _sync_data(self, descriptor: int, /) -> None:
        with self._turn:  # two threads may sync one file: what is on the disk only grows
            self._sync_one(descriptor)

    def _sync_one(self, descriptor: int) -> None:
        path, inode = path_of(descriptor), os.fstat(descriptor).st_ino
        written = self._written.pop(inode, [])
        try:
            self._refuse(path, self.bad_syncs)
        except OSError:
            self._is_doubtful.add(inode)
            raise
        data = Path(path).read_bytes() if os.fstat(descriptor).st_size <= _WATCHED else b""
        if inode in self._is_doubtful:
            held = bytearray(self._on_disk.get(inode, b""))
            for offset, part in written:
                held.extend(bytes(max(0, offset + len(part) - len(held))))
                held[offset : offset + len(part)] = part
            data = bytes(held)
        os.fdatasync(descriptor)
        self._on_disk[inode] = data
        self._note("sync", path)

    def sync_dir(self, path: str) -> None:
        self._refuse(path, self.bad_syncs)
        names: dict[str, int] = {}
        for entry in Path(path).iterdir():
            with suppress(FileNotFoundError):  # a journal goes at any time
                names[entry.name] = entry.stat().st_ino
        super().sync_dir(path)
        self._names[path] = names
        self._note("sync_dir", path)

    def _rename(self, source: str, target: str) -> None:
        self._refuse(target, self.bad_writes)
        Path(source).rename(target)
        self._note("rename", target)

    def _unlink(self, path: str) -> None:
        if path.endswith(copies.SUFFIX):
            self.wrongs += self.lost_with(Path(path))
        Path(path).unlink()
        self._note("unlink", path)

    def not_on_disk(self, place: Path, logs: Iterable[FileLog]) -> list[str]:
        """Return which logs call more durable than their files and the journals would hold after a loss of power."""
        held: dict[str, list[copies.Copy]] = {}
        for path in journals(place):
            name = copies.name_of(path.stem)
            assert name is not None
            for copy in copies.parse(name.salt, self._on_disk.get(path.stat().st_ino, b"")).copies:
                held.setdefault(copy.saga, []).append(copy)
        wrongs: list[str] = []
        for log in logs:
            (path,) = place.rglob(f"{log.saga}.log")
            found = bytearray(self._on_disk.get(path.stat().st_ino, b""))
            for copy in held.get(log.saga, ()):
                found.extend(bytes(max(0, copy.offset + len(copy.data) - len(found))))
                found[copy.offset : copy.offset + len(copy.data)] = copy.data
            if bytes(found[: log.durable]) != path.read_bytes()[: log.durable]:
                wrongs.append(f"{log.saga} is not on the disk up to {log.durable}")
        return wrongs

    def lost_with(self, journal: Path) -> list[str]:
        """Return what a loss of power would take if a journal were deleted now."""
        name = copies.name_of(journal.stem)
        assert name is not None
        place = journal.parent.parent
        wrongs: list[str] = []
        proven = self._on_disk.get(journal.stat().st_ino)  # unknown for a journal that another process wrote
        data = journal.read_bytes() if proven is None else proven
        for copy in copies.parse(name.salt, data).copies:
            (path,) = place.rglob(f"{copy.saga}.log")
            inode = path.stat().st_ino
            if self._on_disk.get(inode, b"")[copy.offset : copy.offset + len(copy.data)] != copy.data:
                wrongs.append(f"{copy.saga} is not on the disk from {copy.offset} to {copy.offset + len(copy.data)}")
            if not any(names.get(path.name) == inode for names in self._names.values()):
                wrongs.append(f"{copy.saga} has no name on the disk")
        return wrongs


def path_of(descriptor: int) -> str:
    """Return the path under which a descriptor's file lies now."""
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())


def sync_later(log: FileLog, position: int, done: Done) -> None:
    """Ask for one log."""
    log.store.sync_later([(log, position)], done)


def journals(place: Path) -> list[Path]:
    """Return the journals of a store."""
    return sorted((place / "journals").glob(f"*{copies.SUFFIX}"))


def held_by(journal: Path) -> list[copies.Copy]:
    """Return the copies that a journal holds."""
    name = copies.name_of(journal.stem)
    assert name is not None
    contents = copies.parse(name.salt, journal.read_bytes())
    assert contents.damage is None
    return contents.copies


def restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process run in another boot of the machine from here on."""
    for module in list(sys.modules.values()):
        if module.__name__.startswith("saga_core.") and hasattr(module, "boot_id"):
            monkeypatch.setattr(module, "boot_id", lambda: NEXT_BOOT)
