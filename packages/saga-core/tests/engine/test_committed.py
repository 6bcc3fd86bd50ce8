"""What is committed stays committed, whoever looks at it later."""

from __future__ import annotations

from datetime import timedelta

from saga_core import Attempt, Store
from saga_core.codec import freeze
from saga_core.fold import fold
from saga_core.ids import new_saga_id
from saga_core.records import (
    EMPTY,
    Applied,
    Began,
    CaseOpened,
    Committed,
    Doubted,
    Intended,
    Missed,
    ScopeEnded,
    ScopeOpened,
    UndoEnded,
    UndoIntended,
    UnwindBegan,
)
from saga_core.recovery import recover
from saga_core.stores.boot import boot_id
from saga_core.stores.store import Backend

from .world import World, declare


def named(attempt: Attempt) -> str:
    """Return the letter before the dot: `a.1` and `a.2` are of one resource."""
    return attempt.args["item"].split(".")[0]


def test_recovery_leaves_a_committed_saga_committed(store: Store, world: World) -> None:
    """A case keeps it open, and there is still something to ask about; neither makes the commit undone."""
    tools = declare(world, resource=named, probe=True, lands_within=timedelta(0))
    world.charge("a.above", "k")
    backend, saga, action = store, new_saga_id(), tools.charge.name
    assert isinstance(backend, Backend)
    undo = tools.refund.bind("ch_1")

    def intended(step: int, scope: str) -> Intended:
        args = freeze({"item": f"a.{step}"})
        position, tier = f"{scope}/{action}#{step}", "power"
        return Intended(step, 1, action, 1, "compensable", scope, position, 1, None, args, EMPTY, EMPTY, tier, 0, "a")

    log = backend.create(saga)
    for record in (
        Began(saga, "saga", None, 1, 1, boot_id(), 1, "host", {}),
        ScopeOpened("1", "", "inner", 1),
        intended(1, ""),
        intended(2, "1"),
        Applied(2, 1, freeze(None), undo),
        Doubted(1, 1, 1, "Lost"),
        Missed(1, 1, "the remote knows nothing of it", (2,)),
        intended(3, ""),
        Applied(3, 1, freeze(None), undo),
        UnwindBegan("1", "Failure", 1),
        UndoIntended(2, 1, "key", undo, 1),
        UndoEnded(2, 1, 1, "undone"),
        ScopeEnded("1", kept=False, at=1),
        CaseOpened(1, 1, None, "look at it"),
        Committed(1),
    ):
        log.append(record)
    log.release()
    for _ in range(2):
        recover(store, wait=timedelta(0))
        reading = backend.read(saga)
        assert reading is not None
        assert fold(reading.records).state == "committed"
    assert world.undone == []
