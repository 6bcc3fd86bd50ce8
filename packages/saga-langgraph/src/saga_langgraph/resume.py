"""Going on with a saga where LangGraph's checkpoints know less of it than its log."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from saga_core.errors import ScopeMisuse
from saga_langgraph.run import config_here

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from saga_core.adapter import Session

_LOST = "the run was cut off before its checkpoint was written"
_UNREAD = "its thread's checkpoint could not be read"


def undo_unknown_sync(session: Session, graph: Any, config: Mapping[str, Any]) -> None:
    """Undo what an earlier run of the saga did behind the checkpoint that this one goes on from: it will do it again.

    Raises:
        Exception: What reading the checkpoint raises; the saga waits on.
        StoreError: The log cannot be written.
    """
    if session.found is None:
        return
    checkpoint = _named(config)
    try:
        if checkpoint is None and hasattr(graph.checkpointer, "get_tuple"):
            checkpoint = _id_of(graph.checkpointer.get_tuple(config))
    except BaseException:
        with suppress(ScopeMisuse):  # a savepoint is its scope's business
            session.suspend_sync(_UNREAD)
        raise
    lost = _first_behind(session.places, checkpoint)
    if lost is not None:
        session.unwind_sync(_LOST, since=lost)


async def undo_unknown(session: Session, graph: Any, config: Mapping[str, Any]) -> None:
    """Do as `undo_unknown_sync` does, on the run's loop."""
    if session.found is None:
        return
    checkpoint = _named(config)
    try:
        if checkpoint is None and hasattr(graph.checkpointer, "aget_tuple"):
            checkpoint = _id_of(await graph.checkpointer.aget_tuple(config))
    except BaseException:
        with suppress(ScopeMisuse):
            await session.suspend(_UNREAD)
        raise
    lost = _first_behind(session.places, checkpoint)
    if lost is not None:
        await session.unwind(_LOST, since=lost)


def _named(config: Mapping[str, Any]) -> str | None:
    """Return the root checkpoint that the run is told to go on from, by the graph around it or by its config."""
    around = config_here().get("configurable", {}).get("checkpoint_map", {}).get("")
    return around or config.get("configurable", {}).get("checkpoint_id")


def _id_of(found: Any) -> str | None:
    return None if found is None else found.checkpoint["id"]


def _first_behind(places: Sequence[str], checkpoint: str | None) -> str | None:
    """Return the first place of a step that began at a later checkpoint; their ids are ordered by time.

    Without a checkpoint the graph begins anew, so that every place is one.
    """
    behind = (place for place in places if checkpoint is None or place.partition("/")[0] > checkpoint)
    return next(behind, None)
