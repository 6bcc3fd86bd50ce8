"""Calling a user's handler about a step, and when to call it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saga_core.clock import SECOND
from saga_core.engine.context import STEP, Step

if TYPE_CHECKING:
    from collections.abc import Callable

    from saga_core.engine.io import Io
    from saga_core.engine.session import Session
    from saga_core.view import StepView

FIRST_WAIT = 0.2
LONGEST_WAIT = 60.0
"""Seconds between two calls of the same handler, at least and at most."""


async def with_step(
    io: Io, session: Session, step: StepView, purpose: str, fn: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """Call a handler with `current_step()` answering for this step."""
    running = Step(session, step, purpose)
    outer = STEP.get()
    STEP.set(running)
    try:
        return await io.ask(fn, *args, **kwargs)
    finally:
        running.is_over = True
        STEP.set(outer)


def ask_again(asked: int, since: int, final: int) -> int:
    """Return when to ask a remote again that could not tell: after as long as it took so far, within bounds."""
    waited = max(asked - since, int(FIRST_WAIT * SECOND))
    return max(min(asked + min(waited, int(LONGEST_WAIT * SECOND)), final), asked)
