"""Calling a user's handler about a step, and when to call it again."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from saga_core.clock import SECOND
from saga_core.engine.context import STEP, Step

if TYPE_CHECKING:
    from collections.abc import Callable

    from saga_core.engine.io import Io
    from saga_core.engine.session import Session
    from saga_core.view import StepView

_LONGEST_ASKED_WAIT = 3600.0

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


def pause(error: BaseException, trial: int, jitter: Callable[[], float]) -> float:
    """Return the seconds until what raised is tried again: as many as the error asks for, else ever more."""
    return _retry_after(error) or min(FIRST_WAIT * 4 ** (trial - 1), LONGEST_WAIT) * jitter()


def _retry_after(error: BaseException) -> float | None:
    """Return the seconds that an error asks to wait (`retry_after`, a number or a timedelta), bounded."""
    asked = getattr(error, "retry_after", None)
    if isinstance(asked, timedelta):
        asked = asked.total_seconds()
    if isinstance(asked, (int, float)) and asked > 0:  # not true of NaN
        return min(float(asked), _LONGEST_ASKED_WAIT)
    return None


def ask_again(asked: int, since: int, final: int) -> int:
    """Return when to ask a remote again that could not tell: after as long as it took so far, within bounds."""
    waited = max(asked - since, int(FIRST_WAIT * SECOND))
    return max(min(asked + min(waited, int(LONGEST_WAIT * SECOND)), final), asked)
