"""Putting something before a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saga_core.engine.session import log
from saga_core.records import CaseOpened
from saga_core.secrets import mask

if TYPE_CHECKING:
    from saga_core.engine.session import Session
    from saga_core.view import StepView


MAY_BE_HIDDEN = "it was not found, but a neighbour that is not undone may hide it"
"""What a person must know of a step that was found missing while nobody can tell what a neighbour hides."""


def open_case(session: Session, step: StepView | None, words: str, *, logged: str | None = None) -> None:
    """Put something before a person; `logged` are the words for the log line where `words` hold values."""
    words = mask(words)
    with session.lock:
        number = len(session.view.cases) + 1
        session.append(CaseOpened(number, session.clock.wall(), None if step is None else step.number, words))
    what = "" if step is None else f" step {step.number} {step.action}:"
    log.warning("saga %s case %d:%s %s", session.saga_id, number, what, logged or words)
