"""The directory of a file store: judged, made and named before anything is opened in it."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from saga_core.errors import StoreError

if TYPE_CHECKING:
    from saga_core.stores.system import System

_logger = logging.getLogger("saga_core.store")

SOUND = frozenset({"ext4", "xfs", "btrfs", "zfs", "f2fs", "apfs"})
"""File systems that keep locks and synced bytes."""

PASSING = frozenset({"tmpfs", "overlay"})
"""File systems that keep locks, and bytes for as long as the machine or the container lives."""

DIRECTORIES = ("open", "suspended", "cases", "done", "journals")
"""What every store has."""

_IDENTITY_DIGITS = 32
_OURS = frozenset(
    {
        "store",
        ".gitignore",
        "open",
        "suspended",
        "cases",
        "done",
        "journals",
        "reserve",
        "control.db",
        "control.db-journal",
        "control.lock",
        "upkeep.lock",
    }
)


def prepare(system: System, path: str) -> str:
    """Make a store's directory unless it stands, and return the store's random id, 32 hex digits.

    Any number of processes may do this at once; they agree on the id.

    Raises:
        StoreError: The place cannot be used; nothing was opened.
    """
    try:
        _judge(path)
        made = _make(system, path)
        _refuse_foreign(system, path)
        identity_path = os.path.join(path, "store")
        if system.exists(identity_path):
            system.sync_dir(path)  # its maker may have been killed ahead of that
        else:
            _write_once(system, path, ".gitignore", b"*\n")
            for name in DIRECTORIES:
                with suppress(FileExistsError):
                    system.mkdir(os.path.join(path, name), 0o700)
            for directory in made or [path]:
                system.sync_dir(os.path.dirname(directory))
            system.sync_dir(path)
            # Last: where it stands, all the rest is on disk.
            _write_once(system, path, "store", os.urandom(_IDENTITY_DIGITS // 2).hex().encode() + b"\n")
        identity = _read(system, identity_path)
        if not system.access(os.path.join(path, "open"), os.W_OK | os.X_OK):
            raise PermissionError(0, "this process may not write there")
    except OSError as error:
        raise StoreError(
            f"no store can be used at {path}: {error.strerror}",
            world="nothing was opened",
            next="name a directory on a local disk that this process can write: store=..., or SAGA_STORE",
        ) from error
    text = identity.strip().decode("ascii", "replace")
    if len(text) != _IDENTITY_DIGITS or set(text) - set("0123456789abcdef"):
        raise StoreError(
            f"{os.path.join(path, 'store')}, which names the store, is damaged",
            world="nothing was opened",
            next="put its 32 hex digits back from a copy, or name another directory: store=..., SAGA_STORE",
        )
    return text


def _make(system: System, path: str) -> list[str]:
    """Make a directory and its missing parents; return what was missing, the innermost first."""
    missing: list[str] = []
    at = path
    while not system.exists(at):
        missing.append(at)
        at = os.path.dirname(at)
    for directory in reversed(missing):
        with suppress(FileExistsError):
            system.mkdir(directory, 0o700 if directory == path else 0o777)
    return missing


def _refuse_foreign(system: System, path: str) -> None:
    """Refuse a directory that holds something else: a store's `.gitignore` would hide it all.

    Raises:
        StoreError: It is not empty and no store.
    """
    names = set(system.listdir(path))
    if "store" not in names and any(not name.startswith("store.") for name in names - _OURS):
        raise StoreError(
            f"{path} is not empty and no store",
            world="nothing was opened and nothing was written there",
            next=f"name a directory of its own, such as {os.path.join(path, '.saga')}",
        )


def _write_once(system: System, directory: str, name: str, data: bytes) -> None:
    """Create a file with these bytes, on disk at return, unless it exists."""
    draft = os.path.join(directory, f"store.{os.getpid()}.{os.urandom(4).hex()}")
    descriptor = system.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        system.write_all(descriptor, data, 0)
        system.sync_data(descriptor)
        with suppress(FileExistsError):
            system.link(draft, os.path.join(directory, name))
    finally:
        system.close(descriptor)
        system.unlink(draft)
    system.sync_dir(directory)


def _read(system: System, path: str) -> bytes:
    descriptor = system.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return system.read_all(descriptor)
    finally:
        system.close(descriptor)


def _judge(path: str) -> None:
    """Refuse a file system that is not known to be sound; warn of one that may vanish.

    Raises:
        StoreError: It is a network file system or another unknown one.
    """
    kind = file_system(path)
    if kind in SOUND:
        passing = {os.path.realpath(directory) for directory in ("/tmp", os.environ.get("TMPDIR") or "/tmp")}  # noqa: S108
        if any(path.startswith(directory + os.sep) for directory in passing):
            _logger.warning("the store %s lies in a directory for temporary files: its logs may be swept away", path)
    elif kind in PASSING:
        _logger.warning("the store %s lies on %s: its logs vanish with the machine or the container", path, kind)
    elif kind is not None:
        raise StoreError(
            f"{path} lies on a file system of type {kind}, which is not known to keep locks and synced bytes",
            world="nothing was opened",
            next="use a directory on a local disk (ext4, xfs, btrfs, zfs, f2fs), or a PostgreSQL store",
        )
    elif sys.platform.startswith("linux"):
        _logger.warning("the type of the file system under the store %s cannot be learned", path)


def file_system(path: str, table: str | None = None) -> str | None:
    """Return the type of the file system that holds a path, or None where the system does not tell.

    Args:
        path: An absolute path without symbolic links.
        table: The text of `/proc/self/mountinfo`; read if not given.
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
        if (path + "/").startswith(point + "/") and len(point) >= longest:  # of two on one point, the later one counts
            longest, kind = len(point), source.split(" ")[0]
    return kind


def _unescape(text: str) -> str:
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, letter)
    return text
