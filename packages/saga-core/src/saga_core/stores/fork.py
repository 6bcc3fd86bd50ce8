"""What a forked child must not keep: the parent's locked descriptors.

A `flock` belongs to the open file, which a child shares: it is free only when parent and child have both closed it,
and unlocking in the child would free the parent's. So a child closes, nothing else. The gate is held while a
descriptor is opened or closed and across every fork, so that a child knows each of them.
"""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import suppress
from typing import Protocol


class Heir(Protocol):
    """Whoever has to begin anew in a forked child."""

    def die_in_child(self) -> None:
        """Drop what was the parent's; its descriptors are closed already."""
        ...


calm = threading.RLock()
"""Held while SQLite is at work, and across a fork; taken before the gate.

A child inherits what SQLite believes to hold of a file. Forked in the middle of a transaction, it would take its
parent's locks for its own, and roll its parent's transaction back when it ends.
"""

gate = threading.RLock()
"""Held while a descriptor appears or goes, and across a fork."""

descriptors: set[int] = set()
"""The descriptors that a child closes; changed under the gate."""

_heirs: weakref.WeakSet[Heir] = weakref.WeakSet()
_hooks: list[None] = []


def watch(heir: Heir) -> None:
    """Have an object told in every forked child; the first call sets the process's hooks."""
    with gate:
        _heirs.add(heir)
        if not _hooks:
            _hooks.append(
                os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
            )


def close(descriptor: int) -> None:
    """Close a descriptor of `descriptors`."""
    with gate:
        descriptors.discard(descriptor)
        os.close(descriptor)


def _before() -> None:
    calm.acquire()
    gate.acquire()


def _after_in_parent() -> None:
    gate.release()
    calm.release()


def _after_in_child() -> None:
    for descriptor in descriptors:
        with suppress(OSError):
            os.close(descriptor)
    descriptors.clear()
    for heir in _heirs:
        heir.die_in_child()
    gate.release()
    calm.release()
