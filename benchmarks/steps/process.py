"""Steps of the process tier: over a bare awaited call, in both drivers, and their two records alone.

Each contender runs in chunks of about a millisecond, and the medians are those of the chunks: a chunk during which
another process took the core is an outlier then, whereas in a long run it would be a share of the figure.
"""

from __future__ import annotations

import asyncio
import time
from itertools import chain
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.measure import in_turn
from benchmarks.steps.tool import ARGUMENTS, process_step, process_step_now, tool
from saga_core import Gate, Store, saga_scope
from saga_core.ids import new_saga_id
from saga_core.records import Applied, Intended
from saga_core.stores.store import Backend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BARE_CALLS, STEPS = 1000, 20
"""Calls of a chunk."""


def bare(chunks: int) -> list[float]:
    """Return the seconds of an awaited call without a saga, a figure a chunk."""

    async def run() -> list[float]:
        taken: list[float] = []
        for _ in range(chunks):
            started = time.perf_counter()
            for _ in range(BARE_CALLS):
                await tool(**ARGUMENTS)
            taken.append((time.perf_counter() - started) / BARE_CALLS)
        return taken

    return asyncio.run(run())


def full(store: Store, chunks: int, gate: Gate | None = None) -> list[float]:
    """Return the seconds of an awaited step of one saga, its opening and its end left out, a figure a chunk."""

    async def run() -> list[float]:
        taken: list[float] = []
        async with saga_scope(store=store, gate=gate):
            for _ in range(chunks):
                started = time.perf_counter()
                for _ in range(STEPS):
                    await process_step(**ARGUMENTS)
                taken.append((time.perf_counter() - started) / STEPS)
        return taken

    return asyncio.run(run())


def full_now(store: Store, chunks: int) -> list[float]:
    """Return the seconds of a synchronous step of one saga, as `full` does."""
    taken: list[float] = []
    with saga_scope(store=store):
        for _ in range(chunks):
            started = time.perf_counter()
            for _ in range(STEPS):
                process_step_now(**ARGUMENTS)
            taken.append((time.perf_counter() - started) / STEPS)
    return taken


def records_of_a_step(store: Store) -> tuple[Intended, Applied]:
    """Return the two records that one step leaves, read back from its log."""
    assert isinstance(store, Backend)

    async def run() -> str:
        async with saga_scope(store=store) as saga:
            await process_step(**ARGUMENTS)
            return saga.id

    reading = store.read(asyncio.run(run()))
    assert reading is not None
    (intended,) = [record for record in reading.records if isinstance(record, Intended)]
    (applied,) = [record for record in reading.records if isinstance(record, Applied)]
    return intended, applied


def records(store: Store, intended: Intended, applied: Applied, chunks: int) -> list[float]:
    """Return the seconds that it takes to make a step's two records and to append them, a figure a chunk."""
    assert isinstance(store, Backend)
    log = store.create(new_saga_id())
    before = tuple(getattr(intended, name) for name in intended.__struct_fields__[2:])
    after = tuple(getattr(applied, name) for name in applied.__struct_fields__[2:])
    taken: list[float] = []
    try:
        for _ in range(chunks):
            started = time.perf_counter()
            for step in range(STEPS):
                log.append(Intended(step, time.time_ns(), *before))
                log.append(Applied(step, time.time_ns(), *after))
            taken.append((time.perf_counter() - started) / STEPS)
    finally:
        log.settle()
    return taken


def figures(store: Store, encrypted: Store, *, chunks: int, rounds: int) -> Iterator[tuple[str, float]]:
    """Yield the figures."""
    intended, applied = records_of_a_step(store)
    contenders: dict[str, Callable[[], list[float]]] = {
        "bare": lambda: bare(chunks),
        "records": lambda: records(store, intended, applied, chunks),
        "full": lambda: full(store, chunks),
        "full_now": lambda: full_now(store, chunks),
        "encrypted": lambda: full(encrypted, chunks),
    }
    taken = {name: median(chain(*lists)) for name, lists in in_turn(contenders, rounds=rounds).items()}
    yield "process_step_over_bare", taken["full"] / taken["bare"]
    yield "log_step_over_bare", taken["records"] / taken["bare"]
    yield "process_step_encrypted_over_bare", taken["encrypted"] / taken["bare"]
    yield "sync_step_over_async_step", taken["full_now"] / taken["full"]
    yield "bare_call_us", taken["bare"] * 1e6
    yield "process_step_us", taken["full"] * 1e6
