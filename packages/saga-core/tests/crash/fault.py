"""Faults planted into the engine of a child process, so that each oracle here is seen to catch one."""

from __future__ import annotations

import io
import itertools
import os
from typing import TYPE_CHECKING, Any

from saga_core.engine.session import Session
from saga_core.records import Intended, Released
from saga_core.stores import boot, lock
from saga_core.stores.log import FileLog
from saga_core.view import StepView

from .fuse import replace

if TYPE_CHECKING:
    from saga_core.records import Record
    from saga_core.stores.system import System


def no_intent() -> None:
    """Intents reach the state and not the file."""
    append = FileLog.append

    def skipping(log: FileLog, record: Record) -> int:
        return log.durable if isinstance(record, Intended) else append(log, record)

    replace(FileLog, append=skipping)


def no_release() -> None:
    """It reaches the state and not the file that a held effect is about to be sent."""
    append = FileLog.append

    def skipping(log: FileLog, record: Record) -> int:
        return log.durable if isinstance(record, Released) else append(log, record)

    replace(FileLog, append=skipping)


def no_barrier() -> None:
    """Nobody waits for the disk."""
    replace(FileLog, sync=_nothing)


def hasty() -> None:
    """A probe's "not landed" counts at once."""
    replace(StepView, lands_within=0)


def fresh_keys() -> None:
    """Each attempt at an undo has a key of its own."""
    key_of = Session.key_of
    numbers = itertools.count()

    def fresh(session: Session, position: str, purpose: str, attempt: int) -> str:
        key = key_of(session, position, purpose, attempt)
        return f"{key[:-9]}{os.getpid():06d}{next(numbers):03d}" if purpose == "undo" else key

    replace(Session, key_of=fresh)


def no_lock() -> None:
    """A saga is claimed without its lock."""

    def take(system: System, path: str, **_: object) -> int:
        return system.open(path, os.O_RDWR | os.O_CLOEXEC)

    lock.take = take
    lock.is_held = _nothing  # pyright: ignore[reportAttributeAccessIssue]


def other_boot() -> None:
    """The machine has restarted since the logs were written; no fault, but planted the same way."""
    boot.open = _another_boot  # pyright: ignore[reportAttributeAccessIssue]


def _another_boot(path: str, **_: Any) -> io.StringIO:
    return io.StringIO("00000000-0000-4000-8000-000000000000\n")


def _nothing(*_: Any) -> None:
    return None


FAULTS = {one.__name__: one for one in (no_intent, no_release, no_barrier, hasty, fresh_keys, no_lock, other_boot)}
