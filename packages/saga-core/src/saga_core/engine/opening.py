"""How a saga comes into this process: begun, resumed by its key, or adopted."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Literal

from saga_core import fold, ids
from saga_core.clock import SYSTEM, Clock
from saga_core.engine.session import Session
from saga_core.engine.unwind import unwind
from saga_core.errors import LogDamaged, SagaBusy, SagaClosed, SagaUnsettled, StoreError
from saga_core.records import Adopted, Began, RolledBack
from saga_core.stores.boot import boot_id
from saga_core.stores.memory import MemoryStore
from saga_core.stores.tombstone import Tombstone
from saga_core.view import is_proven

if TYPE_CHECKING:
    from collections.abc import Mapping

    from saga_core.engine.io import Io
    from saga_core.errors import SagaError
    from saga_core.gate import Gate
    from saga_core.stores.store import Backend, Log, Reading

_SECOND = 1_000_000_000
_SETTLE_WITHIN = 30 * _SECOND


def begin(
    store: Backend,
    name: str,
    *,
    gate: Gate,
    tags: Mapping[str, str],
    stray: str,
    key: str | None = None,
    generation: int = 1,
    clock: Clock = SYSTEM,
) -> Session:
    """Create a saga's log and write that it began.

    Raises:
        StoreError: The store cannot take it.
    """
    saga = ids.new_saga_id()
    log = store.create(saga)
    began = Began(
        saga,
        name,
        key,
        clock.wall(),
        clock.up(),
        boot_id(),
        os.getpid(),
        socket.gethostname(),
        dict(tags),
        stray,
        generation,
    )
    try:
        position = log.append(began)
    except StoreError:
        log.settle()  # an empty log: nothing happened
        raise
    except BaseException:
        log.release()  # perhaps the record is there: recovery looks
        raise
    session = Session(store, log, fold.fold([began]), gate=gate, clock=clock)
    session.written = position
    return session


async def begin_or_resume(
    io: Io,
    store: Backend,
    name: str,
    key: str,
    if_settled: Literal["raise", "new", "return"],
    *,
    gate: Gate,
    tags: Mapping[str, str],
    stray: str,
    clock: Clock = SYSTEM,
) -> Session:
    """Return the saga of a key: a new one, or the unfinished one with all that it did.

    Raises:
        SagaBusy: A live owner has it.
        SagaClosed: It is committed, and `if_settled` is `raise`.
        SagaUnsettled: Recovery or a person has to end it first.
        StoreError: The store cannot be used.
    """
    while True:
        holder = await io.offload(store.key_holder, key)
        generation = 0
        if holder is not None:
            saga, generation = holder
            found = await _found(io, store, saga, key, gate, clock)
            if isinstance(found, Session):
                return found
            if isinstance(found, Tombstone) and if_settled != "new":
                raise _gone(found, key)
            if found == "committed":
                if if_settled == "return":
                    return _replay(store, saga, gate)
                if if_settled == "raise":
                    raise SagaClosed(
                        f"the saga of key {key!r} is committed",
                        saga_id=saga,
                        world="nothing was done now",
                        next='choose if_settled="return" for its results, or "new" for another saga of the key',
                    )
        session = begin(store, name, gate=gate, tags=tags, stray=stray, key=key, generation=generation + 1, clock=clock)
        try:
            await io.offload(session.log.sync, session.written)
            if await io.offload(store.take_key, key, session.saga_id, generation + 1):
                return session
        except BaseException:
            session.log.release()
            raise
        await io.offload(session.log.sync, session.append(RolledBack(session.clock.wall())))
        session.log.settle()


async def _found(
    io: Io, store: Backend, saga: str, key: str, gate: Gate, clock: Clock
) -> Session | Tombstone | Literal["committed", "rolled_back"]:
    """Look at the newest saga of a key: resume it, or say how it ended, or what stays of it."""
    try:
        claimed = await io.offload(store.claim, saga)
    except LogDamaged as damage:
        raise _unsettled(saga, key, "its log is damaged") from damage
    if claimed is None:
        reading = await io.offload(store.read, saga)
        if reading is None:
            stone = await io.offload(store.tombstone, saga)
            if stone is None:
                raise _unsettled(saga, key, "its log is gone")
            return stone
        if not reading.settled:
            owner = await io.offload(store.owner, saga)
            raise SagaBusy(
                f"the saga of key {key!r} is owned by {owner or 'another process'}",
                saga_id=saga,
                world="nothing was done",
                next="wait for it to end, or end that process: then the saga is resumed here",
            )
        return _ending(reading, key)
    log, reading = claimed
    try:
        view = fold.fold(reading.records)
        if view.is_settled:  # its end may be in the page cache alone
            await io.barrier(log, adopt(store, log, reading, gate, "settle", clock).written)
            log.settle()
            return "committed" if view.state == "committed" else "rolled_back"
        if view.state in {"running", "suspended", "committing"}:
            return await resume(io, store, log, reading, gate, clock)
    except fold.FoldError as misfit:
        log.release()
        raise _unsettled(saga, key, f"its records contradict each other: {misfit}") from misfit
    except BaseException:
        log.release()
        raise
    log.release()
    waits = ", and not all of its held effects are sent" if any(step.is_unsent for step in view.steps.values()) else ""
    raise _unsettled(saga, key, f"it is {view.state.replace('_', ' ')}{waits}")


def _ending(reading: Reading, key: str) -> Literal["committed", "rolled_back"]:
    """Return how a settled saga ended; one of which that cannot be read may have been committed."""
    try:
        state = fold.fold(reading.records).state
    except fold.FoldError as misfit:
        raise _unsettled(reading.saga, key, f"its records contradict each other: {misfit}") from misfit
    if state in {"committed", "rolled_back", "left_in_place"}:
        return "committed" if state == "committed" else "rolled_back"
    raise _unsettled(reading.saga, key, reading.damage or "its log does not say how it ended")


def _gone(stone: Tombstone, key: str) -> SagaError:
    return SagaClosed(
        f"the saga of key {key!r} is settled, and its log was {stone.why}",
        saga_id=stone.saga,
        world="nothing was done now; what it did before is no longer recorded here",
        next='choose if_settled="new" for another saga of the key',
    )


def _unsettled(saga: str, key: str, why: str) -> SagaError:
    return SagaUnsettled(
        f"the last saga of key {key!r} is not settled: {why}",
        saga_id=saga,
        world="nothing was done",
        next=f"run: saga recover, then look: saga show {saga}",
    )


def adopt(store: Backend, log: Log, reading: Reading, gate: Gate, why: str, clock: Clock = SYSTEM) -> Session:
    """Take a claimed saga over under a new epoch; the barrier before the first act makes it durable."""
    view = fold.fold(reading.records)
    session = Session(store, log, view, gate=gate, clock=clock)
    session.found = view.state
    epoch = 2 if view.adopted is None else view.adopted.epoch + 1
    record = Adopted(
        epoch, clock.wall(), clock.up(), boot_id(), os.getpid(), socket.gethostname(), why, reading.dropped
    )
    session.append(record)
    return session


async def resume(io: Io, store: Backend, log: Log, reading: Reading, gate: Gate, clock: Clock = SYSTEM) -> Session:
    """Take a saga over to go on with it; what was being undone is undone first."""
    session = adopt(store, log, reading, gate, "resume", clock)
    await io.barrier(log, session.written)
    view = session.view
    if any(view.is_doomed(step) and not is_proven(step) for step in view.steps.values()):
        until = session.clock.up() + _SETTLE_WITHIN
        await unwind(io, session, view.is_doomed, wait_until=until, work_until=until)
    return session


def _replay(store: Backend, saga: str, gate: Gate) -> Session:
    reading = store.read(saga)
    if reading is None:
        raise _unsettled(saga, saga, "its log is gone")
    session = Session(store, MemoryStore().create(saga), fold.fold(reading.records), gate=gate)
    session.is_replay = True
    return session
