"""What a forked child must not keep: the parent's locked descriptors.

A `flock` belongs to the open file, which a child shares: it is freed only when parent and child have both closed it,
and unlocking in the child would free the parent's. So a child closes, nothing else. The gate is held while a
descriptor is opened or closed and across every fork, so that a child knows each of them.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

gate = threading.RLock()
"""Held while a descriptor appears or goes, and across a fork."""

descriptors: set[int] = set()
"""The descriptors that a child closes; changed under the gate."""

_in_child: list[Callable[[], None]] = []
_hooked = False


def on_fork(action: Callable[[], None]) -> None:
    """Run an action in every forked child from now on, behind the closing of the descriptors."""
    global _hooked  # noqa: PLW0603 -- hooks of the process cannot be taken back, so they are set once
    with gate:
        _in_child.append(action)
        if not _hooked:
            _hooked = True
            os.register_at_fork(before=gate.acquire, after_in_parent=gate.release, after_in_child=_after_in_child)


def close(descriptor: int) -> None:
    """Close a descriptor that a child would have closed."""
    with gate:
        descriptors.discard(descriptor)
        os.close(descriptor)


def _after_in_child() -> None:
    for descriptor in descriptors:
        os.close(descriptor)
    descriptors.clear()
    for action in _in_child:
        action()
    gate.release()
