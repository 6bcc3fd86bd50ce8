"""Steps of the power tier, of one saga, back to back: over one write and sync of the same bytes, and their syncs."""

from __future__ import annotations

import asyncio
import os
import time
from itertools import chain
from statistics import median, quantiles
from typing import TYPE_CHECKING

from benchmarks.steps.disk import Disk, store_on
from benchmarks.steps.tool import ARGUMENTS, power_step
from saga_core import saga_scope

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from saga_core import Store

IN_A_ROW = 10
THINKING = 0.02
"""Seconds between two steps of an agent that thinks; far more than the log's lazy sync waits."""


class Written(Disk):
    """A disk that counts the bytes of its writes."""

    bytes = 0

    def pwrite(self, descriptor: int, data: bytes | memoryview, offset: int, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride] -- static there
        """Write, and count."""
        self.bytes += len(data)
        return os.pwrite(descriptor, data, offset)


def step_bytes(folder: Path, calls: int) -> int:
    """Return how many bytes a step's two records take in the log, by what a disk is given."""
    disk = Written()
    latencies(store_on(disk, folder / "warm"), 1)
    disk.bytes = 0
    latencies(store_on(disk, folder / "counted"), calls + 1)
    many, disk.bytes = disk.bytes, 0
    latencies(store_on(disk, folder / "one"), 1)
    return max(1, (many - disk.bytes) // calls)


def latencies(store: Store, calls: int) -> list[float]:
    """Return the seconds of each step of one saga."""

    async def run() -> list[float]:
        async with saga_scope(store=store):
            return [await _step() for _ in range(calls)]

    return asyncio.run(run())


async def _step() -> float:
    started = time.perf_counter()
    await power_step(**ARGUMENTS)
    return time.perf_counter() - started


class Raw:
    """A file at whose end the same number of bytes is written and synced each time."""

    def __init__(self, disk: Disk, path: Path, size: int) -> None:
        self._disk = disk
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self._data = os.urandom(size)
        self._end = 0

    def append(self) -> float:
        """Return the seconds of one write and sync."""
        started = time.perf_counter()
        self._disk.write_all(self._descriptor, self._data, self._end)
        self._disk.sync_data(self._descriptor)
        self._end += len(self._data)
        return time.perf_counter() - started


def step_and_sync(disk: Disk, folder: Path, size: int, *, turns: int) -> list[tuple[list[float], list[float]]]:
    """Return, for each turn, the seconds of ten steps of one saga and of ten raw writes and syncs.

    They take turns so often because the disk's own speed changes from one second to the next.
    """
    store = store_on(disk, folder / "store")
    raw = Raw(disk, folder / "raw", size)

    async def run() -> list[tuple[list[float], list[float]]]:
        taken: list[tuple[list[float], list[float]]] = []
        async with saga_scope(store=store):
            for _ in range(turns):
                await power_step(**ARGUMENTS)  # whatever the pause before it left to do is not the next step's
                steps = [await _step() for _ in range(IN_A_ROW)]
                taken.append((steps, [raw.append() for _ in range(IN_A_ROW)]))
        return taken

    return asyncio.run(run())


def syncs(folder: Path, calls: int, *, thinking: float) -> float:
    """Return the syncs of a step: those from the first step's start to the last one's end, by the number of steps."""
    disk = Disk()
    store = store_on(disk, folder)

    async def run() -> int:
        async with saga_scope(store=store):
            await power_step(**ARGUMENTS)  # the first sync of a log proves the file's own name too
            before = disk.syncs
            for _ in range(calls):
                await asyncio.sleep(thinking)
                await power_step(**ARGUMENTS)
            return disk.syncs - before

    return asyncio.run(run()) / calls


def figures(folder: Path, *, turns: int) -> Iterator[tuple[str, float]]:
    """Yield the figures."""
    size = step_bytes(folder, 16)
    for milliseconds in (1, 2):
        place = folder / f"slow{milliseconds}"
        place.mkdir()
        taken = step_and_sync(Disk(milliseconds / 1000), place, size, turns=turns)
        yield f"power_step_over_sync_{milliseconds}ms", median(median(steps) / median(raw) for steps, raw in taken)
        if milliseconds == 1:
            last_step = quantiles(chain.from_iterable(steps for steps, _ in taken), n=100)[-1]
            last_sync = quantiles(chain.from_iterable(raw for _, raw in taken), n=100)[-1]
            yield "power_step_p99_over_sync_p99", last_step / last_sync
    calls = turns * IN_A_ROW // 4
    yield "syncs_per_step", syncs(folder / "counting", calls, thinking=0)
    yield "syncs_per_step_thinking", syncs(folder / "thinking", calls // 4 + 1, thinking=THINKING)
