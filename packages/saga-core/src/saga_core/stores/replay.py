"""What is done with a journal that nobody writes any more: its logs are made whole, then it goes."""

from __future__ import annotations

import fcntl
import logging
import os
from typing import TYPE_CHECKING, NamedTuple

from saga_core import frame
from saga_core.errors import StoreError
from saga_core.stores import copies, fork, lock
from saga_core.stores.boot import boot_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from saga_core.stores.copies import Copy, Name
    from saga_core.stores.system import System

_logger = logging.getLogger("saga_core.store")
DAMAGED = ".damaged"
"""What a journal that cannot be read is called from then on."""


class Logs(NamedTuple):
    """Where the logs are that a journal names.

    Attributes:
        system: The disk.
        directory: Where the journals lie.
        find: Returns the path of a saga's log, wherever it lies; None if it has none.
        is_gone: Tells whether a saga's log was put away for good, packed or erased.
        new: Returns the path under which a lost log is made again.
    """

    system: System
    directory: str
    find: Callable[[str], str | None]
    is_gone: Callable[[str], bool]
    new: Callable[[str], str]


def names(logs: Logs, suffix: str = copies.SUFFIX) -> list[Name]:
    """Return the names of the journals in a store."""
    try:
        files = logs.system.listdir(logs.directory)
    except FileNotFoundError:
        return []
    found = (copies.name_of(file.removesuffix(suffix)) for file in files if file.endswith(suffix))
    return [name for name in found if name is not None]


def _directories(path: str) -> tuple[str, str]:
    """Return what has to be synced for a log's name to last: its directory, and the one that this may be new in."""
    directory = os.path.dirname(path)
    return directory, os.path.dirname(directory)


def naming(logs: Logs, saga: str) -> list[str]:
    """Return the paths of the journals in which a saga is named."""
    paths = [_path(logs, name, suffix) for suffix in (copies.SUFFIX, DAMAGED) for name in names(logs, suffix)]
    return [path for path in paths if saga.encode() in _bytes(logs, path)]


def unreliable(logs: Logs) -> frozenset[tuple[str, int]]:
    """Return the boot and pid of each process whose journal could not be read after a loss of power."""
    return frozenset((name.boot, name.pid) for name in names(logs, DAMAGED))


def replay(logs: Logs) -> None:
    """Make the logs whole that an earlier boot left, before anybody believes them; others wait meanwhile.

    Raises:
        OSError: That could not be done; it is done by the next who opens the store.
        StoreError: A newer release wrote a journal.
    """
    if not _of_earlier_boots(logs):
        return
    with fork.gate:
        turn = logs.system.open(os.path.join(logs.directory, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fork.descriptors.add(turn)
    try:
        logs.system.flock(turn, fcntl.LOCK_EX)
        _replay(logs, _of_earlier_boots(logs))
    finally:
        fork.close(turn)


def _of_earlier_boots(logs: Logs) -> list[Name]:
    return [name for name in names(logs) if name.boot != boot_id()]


def _replay(logs: Logs, found: list[Name]) -> None:
    by_saga: dict[str, list[Copy]] = {}
    damaged: dict[Name, str] = {}
    for name in found:
        contents = _read(logs, name)
        for copy in contents.copies:
            by_saga.setdefault(copy.saga, []).append(copy)
        if contents.damage is not None:
            damaged[name] = contents.damage
    directories: set[str] = set()
    for saga, held in by_saga.items():
        path = _extend(logs, saga, sorted(held, key=lambda copy: copy.offset))
        if path is not None:
            directories.update(_directories(path))
    for directory in directories:
        logs.system.sync_dir(directory)
    for name in found:
        path = _path(logs, name)
        if name in damaged:
            _logger.critical(
                "the journal %s is damaged: %s; the sagas of its process become cases", path, damaged[name]
            )
            logs.system.rename(path, path.removesuffix(copies.SUFFIX) + DAMAGED)
        else:
            logs.system.unlink(path)
    if found:
        logs.system.sync_dir(logs.directory)
        _logger.info("%d journals of an earlier boot were replayed into %d logs", len(found), len(by_saga))


def _extend(logs: Logs, saga: str, held: list[Copy]) -> str | None:
    """Write what a log lost behind its valid beginning, and bring it to the disk; return its path."""
    system = logs.system
    path = logs.find(saga)
    if path is None:
        if logs.is_gone(saga):
            return None
        path = logs.new(saga)
    descriptor = system.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        found = system.read_all(descriptor)
        parsed = frame.parse(found, boot="")
        identity = system.identity(descriptor)
        if parsed.header is not None and not parsed.header.is_at(identity):
            return path  # a copy of the log that was made from it: it is left as it is, for a person
        for copy in held:
            data = copy.data if copy.offset else _placed(copy.data, identity)
            end = copy.offset + len(data)
            # What stands there is written, too: perhaps in the page cache alone, by a replay whose sync failed.
            if end > parsed.good_end or found[copy.offset : end] == data:
                system.write_all(descriptor, data, copy.offset)
        system.sync_data(descriptor)
    finally:
        system.close(descriptor)
    return path


def _placed(data: bytes, identity: frame.Identity) -> bytes:
    """Return the beginning of a log as it stands in a file that was made again."""
    header = frame.parse(data, boot="").header
    return data if header is None else header._replace(**identity._asdict()).pack() + data[frame.FILE_HEADER :]


def retire_dead(logs: Logs) -> int:
    """Bring to the disk what dead processes of this boot left to their journals, and delete these; return how many."""
    retired = 0
    for name in names(logs):
        path = _path(logs, name)
        if name.boot != boot_id():
            continue
        try:
            descriptor = lock.take(logs.system, path, patience=0)
        except FileNotFoundError:
            continue
        if descriptor is None:
            continue
        try:
            retired += retire(logs, path, (), lambda: True)
        finally:
            fork.close(descriptor)
    return retired


def retire(logs: Logs, path: str, sagas: Iterable[str], has_failed: Callable[[], bool]) -> bool:
    """Bring a journal's logs to the disk and delete it; False if one could not be, so that it has to stay.

    Args:
        logs: Where they are.
        path: The journal, which nobody writes.
        sagas: The logs that it names.
        has_failed: Tells whether a sync of some log has failed, in which case the kernel may believe bytes to be on
            disk that never got there: the journal's copies are written once more then. Asked before and behind.
    """
    try:
        is_doubtful = has_failed()
        if not is_doubtful:
            _bring(logs, {saga: [] for saga in sagas})
            is_doubtful = has_failed()
        if is_doubtful:
            _bring(logs, _by_saga(logs, path))
        logs.system.unlink(path)
    except OSError as error:
        _logger.warning("the journal %s stays: a log that it holds could not be synced: %s", path, error.strerror)
        return False
    return True


def _by_saga(logs: Logs, path: str) -> dict[str, list[Copy]]:
    by_saga: dict[str, list[Copy]] = {}
    name = copies.name_of(os.path.basename(path).removesuffix(copies.SUFFIX))
    for copy in _read(logs, name).copies if name is not None else ():
        by_saga.setdefault(copy.saga, []).append(copy)
    return by_saga


def _bring(logs: Logs, by_saga: dict[str, list[Copy]]) -> None:
    """Bring logs and their names to the disk, the copies written once more before.

    Raises:
        OSError: One of them is not proven to be there.
    """
    directories: set[str] = set()
    for saga, held in by_saga.items():
        found = _sync(logs, saga, held)
        if found is not None:
            directories.update(_directories(found))
    for directory in directories:
        logs.system.sync_dir(directory)


def _sync(logs: Logs, saga: str, held: list[Copy]) -> str | None:
    path = logs.find(saga)
    if path is None:
        return None
    try:
        descriptor = logs.system.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return _sync(logs, saga, held)  # it was moved meanwhile
    try:
        for copy in held:
            if logs.system.pread(descriptor, len(copy.data), copy.offset) == copy.data:
                logs.system.write_all(descriptor, copy.data, copy.offset)
        logs.system.sync_data(descriptor)
    finally:
        logs.system.close(descriptor)
    return path


def _read(logs: Logs, name: Name) -> copies.Contents:
    try:
        return copies.parse(name.salt, _bytes(logs, _path(logs, name)))
    except ValueError as unknown:
        raise StoreError(
            f"a journal of the store cannot be read: {unknown}",
            world="nothing was opened",
            next="open the store with the release that wrote it, or a newer one",
        ) from unknown


def _bytes(logs: Logs, path: str) -> bytes:
    try:
        return logs.system.read_file(path)
    except FileNotFoundError:
        return b""


def _path(logs: Logs, name: Name, suffix: str = copies.SUFFIX) -> str:
    return os.path.join(logs.directory, str(name) + suffix)
