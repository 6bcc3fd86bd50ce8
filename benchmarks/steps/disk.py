"""The real disk, made slower, its syncs counted."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from saga_core.stores.file import FileStore
from saga_core.stores.system import System

if TYPE_CHECKING:
    from pathlib import Path


class Disk(System):
    """A disk whose syncs take some time more than they do.

    Attributes:
        syncs: How many there were.
    """

    def __init__(self, latency: float = 0.0) -> None:
        """Sleep for `latency` seconds behind each sync."""
        self._latency = latency
        self.syncs = 0

    def sync_data(self, descriptor: int, /) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] -- static there
        """Sync, and take longer."""
        self.syncs += 1
        os.fdatasync(descriptor)
        if self._latency:
            time.sleep(self._latency)


def store_on(disk: Disk, path: Path) -> FileStore:
    """Return a new store in a directory of that disk."""
    return FileStore(str(path.resolve()), disk)
