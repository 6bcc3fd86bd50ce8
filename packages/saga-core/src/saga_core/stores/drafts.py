"""Files that a process makes under another name first: whoever died before it gave one its own leaves it behind."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from saga_core.stores import fork, lock

if TYPE_CHECKING:
    from saga_core.stores.system import System

SUFFIX = ".new"

AGE = 3600
"""Seconds after which a draft that nobody has locked is nobody's: its maker locks it a moment after it made it."""


def clear(system: System, directory: str) -> None:
    """Delete the drafts of the dead.

    Raises:
        OSError: The directory cannot be listed, or one cannot be looked at or deleted.
    """
    for name in system.listdir(directory):
        path = os.path.join(directory, name)
        if not name.endswith(SUFFIX):
            continue
        try:
            if system.stat(path).st_mtime > time.time() - AGE:
                continue
            descriptor = lock.take(system, path, patience=0)
            if descriptor is None:
                continue
            try:
                system.unlink(path)
            finally:
                fork.close(descriptor)
        except FileNotFoundError:
            continue  # it got its name, or another one was faster
