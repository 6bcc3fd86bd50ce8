"""The directory of a file store: made, named and judged before anything is opened in it."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import threading
from typing import TYPE_CHECKING

from saga_core.errors import StoreError

if TYPE_CHECKING:
    from saga_core.stores.system import System

_logger = logging.getLogger("saga_core.store")

SOUND = frozenset({"ext4", "xfs", "btrfs", "zfs", "f2fs", "apfs"})
"""File systems on which a log survives a power cut."""

PASSING = frozenset({"tmpfs", "overlay"})
"""File systems that work and may vanish with the machine or the container."""

_OURS = frozenset(
    {"store", ".gitignore", "open", "done", "journals", "control.db", "control.db-journal", "control.lock"}
)


def prepare(system: System, path: str) -> str:
    """Make a store's directory unless it stands, and return the store's random id, 32 hex digits.

    Any number of processes may do this at once; they agree on the id.

    Raises:
        StoreError: The place cannot be used; nothing was opened.
    """
    try:
        made = _make(system, path)
        _refuse_foreign(system, path)
        _judge(path)
        _write_once(system, path, ".gitignore", b"*\n")
        for name in ("open", "done"):
            try:
                system.mkdir(os.path.join(path, name), 0o700)
            except FileExistsError:
                pass
        store = _write_once(system, path, "store", os.urandom(16).hex().encode() + b"\n")
        if made:
            system.sync_dir(path)
            for directory in made:
                system.sync_dir(os.path.dirname(directory))
        if not os.access(os.path.join(path, "open"), os.W_OK | os.X_OK):
            raise PermissionError(0, "it is read-only for this process")
    except OSError as error:
        raise StoreError(
            f"no store can be used at {path}: {error.strerror or error}",
            world="nothing was opened",
            next="name a directory on a local disk that this process can write: store=..., or SAGA_STORE",
        ) from error
    identity = store.strip().decode("ascii", "replace")
    if len(identity) != 32 or not all(letter in "0123456789abcdef" for letter in identity):
        raise StoreError(
            f"the file that names the store, {path}/store, is damaged",
            world="nothing was opened",
            next="put back its 32 hex digits: `saga doctor` reads them from the logs",
        )
    return identity


def _make(system: System, path: str) -> list[str]:
    """Make a directory and its missing parents; return those that were made, the innermost first."""
    missing: list[str] = []
    at = path
    while not os.path.isdir(at):
        missing.append(at)
        at = os.path.dirname(at)
    for directory in reversed(missing):
        try:
            system.mkdir(directory, 0o700 if directory == path else 0o777)
        except FileExistsError:
            if not os.path.isdir(directory):
                raise
    return missing


def _refuse_foreign(system: System, path: str) -> None:
    names = system.listdir(path)
    strange = [name for name in names if name not in _OURS and not name.startswith("store.")]
    if strange and "store" not in names:
        raise StoreError(
            f"{path} is not a store and not empty",
            world="nothing was opened and nothing was written there",
            next=f"name a directory of its own, such as {os.path.join(path, '.saga')}",
        )


def _write_once(system: System, directory: str, name: str, data: bytes) -> bytes:
    """Create a file with these bytes unless it exists; return the bytes that stand there then."""
    path = os.path.join(directory, name)
    if not os.path.exists(path):
        draft = os.path.join(directory, f"store.{os.getpid()}.{os.urandom(4).hex()}")
        descriptor = system.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            system.write_all(descriptor, data, 0)
            system.sync_data(descriptor)
            system.link(draft, path)
        except FileExistsError:
            pass
        finally:
            system.close(descriptor)
            system.unlink(draft)
    descriptor = system.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return system.read_all(descriptor)
    finally:
        system.close(descriptor)


def _judge(path: str) -> None:
    """Refuse a file system that is not known to keep what was synced; warn of one that may vanish.

    Raises:
        StoreError: It is a network or another unknown file system.
    """
    kind = file_system(path)
    if kind is not None and kind not in SOUND and kind not in PASSING:
        raise StoreError(
            f"{path} lies on a file system of type {kind}, which is not known to keep locks and synced bytes",
            world="nothing was opened",
            next="use a directory on a local disk (ext4, xfs, btrfs, zfs, f2fs), or a PostgreSQL store",
        )
    passing = {os.path.realpath(directory) for directory in ("/tmp", tempfile.gettempdir())}  # noqa: S108
    if kind in PASSING or any(path.startswith(directory + os.sep) for directory in passing):
        _logger.warning("the store %s lies on %s: its logs may vanish with it", path, kind or "a temporary directory")


def file_system(path: str, table: str | None = None) -> str | None:
    """Return the type of the file system that holds a real path, or None where the system does not tell.

    Args:
        path: A path without symbolic links.
        table: The text of `/proc/self/mountinfo`, read if not given.
    """
    if table is None:
        if not sys.platform.startswith("linux"):
            return None
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            table = file.read()
    longest, kind = -1, None
    for line in table.splitlines():
        mount, _, source = line.partition(" - ")
        point = _unescape(mount.split(" ")[4]).rstrip("/")
        if (path == point or path.startswith(point + "/")) and len(point) >= longest:
            longest, kind = len(point), source.split(" ")[0]
    return kind


def _unescape(text: str) -> str:
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, letter)
    return text


class Entries:
    """Which directory entries of `open/` are on disk: one sync of the directory proves all that stood before it."""

    def __init__(self, system: System, path: str) -> None:
        self._system = system
        self._path = path
        self._added = 0
        self._proven = 0
        self._lost = range(0)
        self.renew()

    def renew(self) -> None:
        """Begin with a free lock; a forked child's may be held by a thread that it does not have."""
        self._lock = threading.Lock()

    def add(self) -> int:
        """Return the number of an entry that was made just now."""
        with self._lock:
            self._added += 1
            return self._added

    def prove(self, number: int) -> None:
        """Return when an entry is on disk.

        Raises:
            OSError: That cannot be proven any more: after a failed sync the kernel believes the entry clean.
        """
        with self._lock:
            if number in self._lost:
                raise OSError(5, "an earlier sync of its directory failed")
            if number <= self._proven:
                return
            added = self._added
            try:
                self._system.sync_dir(self._path)
            except OSError:
                self._lost = range(self._lost.start or self._proven + 1, added + 1)
                raise
            self._proven = added
