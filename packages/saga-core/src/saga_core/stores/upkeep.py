"""The turn of whoever reorders settled sagas: one process at a time packs, drops, erases or backs up."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from saga_core.errors import StoreBusy, StoreError
from saga_core.stores import fork

if TYPE_CHECKING:
    from collections.abc import Generator

    from saga_core.stores.system import System

LOCK = "upkeep.lock"
WAIT = 5.0
"""Seconds for which the turn is waited for."""

_PAUSE = 0.02


@contextmanager
def turn(system: System, directory: str) -> Generator[None]:
    """Hold the turn of a store; it ends with the process, however that ends.

    Args:
        system: The disk.
        directory: The store's directory.

    Raises:
        StoreBusy: Another process has it.
        StoreError: The lock file cannot be made.
    """
    path = os.path.join(directory, LOCK)
    try:
        with fork.gate:
            descriptor = system.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fork.descriptors.add(descriptor)
    except OSError as error:
        raise StoreError(
            f"{path} cannot be opened: {error.strerror}",
            world="nothing was changed",
            next="run it as a user who may write there",
        ) from error
    try:
        _wait(system, descriptor, path)
        yield
    finally:
        fork.close(descriptor)


def _wait(system: System, descriptor: int, path: str) -> None:
    until = time.monotonic() + WAIT
    while True:
        try:
            system.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise StoreBusy(
                    f"another process packs, drops, erases or backs up settled sagas ({path} is locked)",
                    world="nothing was changed",
                    next="run it again when that one has ended",
                ) from None
            time.sleep(_PAUSE)
        else:
            return
