"""Faults planted in the engine: each takes one of its decisions back."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

from saga_core import ids, plan
from saga_core.declaration import Declaration
from saga_core.engine import ending, landing, scope
from saga_core.engine.io import ASYNC, AsyncIo
from saga_core.engine.session import Session
from saga_core.plan import Move
from saga_core.records import Adopted, Committed, Intended, Released, UndoIntended

from .host import ProcessLog, ProcessStore

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from saga_core.records import Record

_log_answer: Callable[..., None] = landing._log_answer  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
_claim = ProcessStore.claim
_barrier = AsyncIo.barrier


def _believe(session: Any, step: Any, answer: Any, asked_up: int, final_up: int, **options: Any) -> None:
    """Take the first "not landed" for the last word."""
    _log_answer(session, step, answer, asked_up, min(asked_up, final_up), **options)


def _seize(self: ProcessStore, saga: str) -> Any:
    """Take a log over although its owner lives."""
    self.host.disk.give_up(saga, "open")
    return _claim(self, saga)


def _nobody(self: ProcessStore, saga: str) -> None:
    """Say that a log is free."""


def _new_key(self: Session, position: str, purpose: str, attempt: int) -> str:
    """Name every try of an undo anew."""
    trial = self.view.positions[position].undo_up if purpose == "undo" else ""
    return ids.step_key(self.saga_id, position, f"{purpose}{trial}", attempt)


def _one_key(self: Session, position: str, purpose: str, attempt: int) -> str:
    """Name the undo of every attempt alike."""
    return ids.step_key(self.saga_id, position, purpose, 1 if purpose == "undo" else attempt)


async def _leave_at_once(node: Any, error: Any, limits: Any) -> None:
    """End a scope with the caller's cancellation let through."""
    problem = await ending.end(ASYNC, node, error, limits)
    if problem is not None and error is None:
        raise problem


async def _commit_and_repent(io: Any, node: Any, until: int) -> bool:
    """Write the commit, and unwind after all when the wait for it is cancelled."""
    session: Session = node.session
    try:
        await io.barrier(session.log, session.append(Committed(session.clock.wall())))
    except asyncio.CancelledError:
        session.view.ended = None
        return False
    await ending.after_commit(io, session)
    return True


def _impatient(kind: type[Record]) -> Callable[..., Any]:
    """Return a barrier that does not wait where the newest record is of a kind."""

    async def barrier(self: AsyncIo, log: Any, position: int) -> None:
        if isinstance(log, ProcessLog) and isinstance(log.newest, kind):
            return
        await _barrier(self, log, position)

    return barrier


def _prove(self: Declaration, error: BaseException) -> bool:
    """Take every error for a proof that nothing landed."""
    return True


def _again(step: Any, *_: object) -> Move:
    """Send a held effect in doubt again, whatever is declared."""
    return Move("send", step)


def _forward(view: Any, *_: object) -> Move:
    """Send held effects whatever is in doubt."""
    first = next((step for step in view.steps.values() if step.is_unsent and view.ended == "committed"), None)
    return Move("done") if first is None or view.running else Move("send", first)


class Fault(NamedTuple):
    """What is replaced, and what the oracle says of it in the end."""

    replaced: tuple[tuple[Any, str, Any], ...]
    verdict: str


FAULTS = {
    "not landed is believed at once": Fault(((landing, "_log_answer", _believe),), "it stands, is not_landed"),
    "every error proves that nothing landed": Fault(
        ((Declaration, "proves_not_landed", _prove),), "it stands, is not_landed"
    ),
    "nobody claims before acting": Fault(
        ((ProcessStore, "claim", _seize), (ProcessStore, "owner", _nobody)), "which it does not own"
    ),
    "each try of an undo has a key of its own": Fault(((Session, "key_of", _new_key),), "was given back twice"),
    "the undos of all attempts share a key": Fault(((Session, "key_of", _one_key),), "it is undone and stands"),
    "the commit is not shielded": Fault(
        ((scope, "leave_on_loop", _leave_at_once), (ending, "_commit", _commit_and_repent)),
        "although its commit is in the log",
    ),
    "an effect does not wait for its intent": Fault(
        ((AsyncIo, "barrier", _impatient(Intended)),), "of which the disk knows nothing"
    ),
    "an undo does not wait for its intent": Fault(
        ((AsyncIo, "barrier", _impatient(UndoIntended)),), "of which the disk knows nothing"
    ),
    "a held effect does not wait for its release": Fault(
        ((AsyncIo, "barrier", _impatient(Released)),), "of which the disk knows nothing"
    ),
    "a held effect in doubt is sent again": Fault(((plan, "_doubted_hold", _again),), "a held effect was sent twice"),
    "held effects are sent whatever is in doubt": Fault(
        ((plan, "_forward", _forward),), "although something is in doubt"
    ),
    "a commit is acknowledged before it is on the disk": Fault(
        ((AsyncIo, "barrier", _impatient(Committed)),), "was told to be committed"
    ),
    "who takes a saga over does not wait for the disk": Fault(
        ((AsyncIo, "barrier", _impatient(Adopted)),), "although its end was not on the disk"
    ),
}
"""By what they take back."""


@contextmanager
def planted(name: str) -> Generator[None]:
    """Have the engine make a mistake inside the block."""
    with ExitStack() as stack:
        for target, attribute, replacement in FAULTS[name].replaced:
            stack.enter_context(patch.object(target, attribute, replacement))
        yield
