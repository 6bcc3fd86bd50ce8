"""Undoing the newest steps of a scope while its saga goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saga_core.clock import SECOND
from saga_core.engine.unwind import unwind
from saga_core.records import UnwindBegan

if TYPE_CHECKING:
    from saga_core.engine.io import Io
    from saga_core.engine.node import Node
    from saga_core.view import StepView


async def rewind(io: Io, node: Node, since: int, reason: str, limit: float) -> None:
    """Undo the scope's steps from one number on; the decision is logged first, so that a resumed saga goes on with it.

    Raises:
        StoreError: The log cannot be written.
    """
    session = node.session
    until_up = session.clock.up() + int(limit * SECOND)
    with session.lock:
        newest = session.newest
        session.append(UnwindBegan(node.path, reason, session.clock.wall(), since, newest))

    def within(step: StepView) -> bool:
        return since <= step.number <= newest and node.holds(step.scope)

    await unwind(io, session, within, wait_until=until_up, work_until=until_up)
