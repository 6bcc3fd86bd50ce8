"""Ownership of a log: a kernel lock on the saga's own file, gone with the process that held it."""

from __future__ import annotations

import fcntl
import os
import time
from typing import TYPE_CHECKING

from saga_core.errors import LogDamaged
from saga_core.stores import fork

if TYPE_CHECKING:
    from saga_core.stores.system import System

PATIENCE = 0.1
"""Seconds for which a busy lock is tried again: a reader's probe holds it for microseconds."""

_PAUSE = 0.005


def create(system: System, path: str) -> int:
    """Return the locked descriptor of a new file under a name that nobody else looks for.

    Raises:
        OSError: It could not be made.
    """
    with fork.gate:
        descriptor = system.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fork.descriptors.add(descriptor)
    system.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def take(system: System, path: str, *, patience: float = PATIENCE) -> int | None:
    """Return the locked descriptor of a file, or None if somebody holds it for so many seconds; sleeps between tries.

    Raises:
        FileNotFoundError: There is no such file.
        LogDamaged: The file has a second name.
    """
    until = time.monotonic() + patience
    while True:
        with fork.gate:
            descriptor = system.open(path, os.O_RDWR | os.O_CLOEXEC)
            fork.descriptors.add(descriptor)
        is_mine = False
        links = 1
        try:
            system.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            locked, named = system.fstat(descriptor), system.stat(path)
            links = locked.st_nlink
            is_mine = links == 1 and os.path.samestat(locked, named)
        except BlockingIOError:
            pass
        finally:
            if not is_mine:
                fork.close(descriptor)
        if is_mine:
            return descriptor
        if time.monotonic() >= until:
            if links > 1:
                raise LogDamaged(
                    f"{path} has {links} names",
                    world="nothing was done in its saga's name",
                    next="remove the other hard link: a log is one file under one name",
                )
            return None
        time.sleep(_PAUSE)


def is_held(system: System, path: str) -> bool:
    """Tell whether somebody, this process included, owns a file.

    Raises:
        FileNotFoundError: There is no such file.
    """
    with fork.gate:  # a child forked meanwhile would go on holding the probe's lock
        descriptor = system.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            system.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            system.close(descriptor)
    return False
