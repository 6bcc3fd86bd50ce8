"""What became of a run's saga, asked by the run's result."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agents.result import RunResultBase

    from saga_core import Report
    from saga_core.adapter import Session

_sessions: dict[int, Session] = {}


def remember(result: RunResultBase, session: Session) -> None:
    """Keep the session as long as the result lives; by its identity, since the SDK's results have no hash."""
    _sessions[id(result)] = session
    weakref.finalize(result, _sessions.pop, id(result), None).atexit = False


def report_of(result: RunResultBase) -> Report:
    """Return what has become, up to now, of the saga of a run, by the result that `SagaRunner` returned.

    Raises:
        LookupError: The result did not come from `SagaRunner`.
    """
    try:
        return _sessions[id(result)].report
    except KeyError:
        raise LookupError("this result did not come from SagaRunner: its run had no saga of its own") from None
