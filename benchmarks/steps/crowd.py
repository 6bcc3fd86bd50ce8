"""Many sagas at once in one process."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from benchmarks.steps.tool import ARGUMENTS, power_step
from saga_core import saga_scope

if TYPE_CHECKING:
    from saga_core import Store


def steps_per_second(store: Store, sagas: int, steps: int) -> float:
    """Return the durable steps per second of sagas; their opening and their end are left out."""

    async def run() -> float:
        opened, ended = asyncio.Barrier(sagas + 1), asyncio.Barrier(sagas + 1)

        async def one() -> None:
            async with saga_scope(store=store):
                await opened.wait()
                for _ in range(steps):
                    await power_step(**ARGUMENTS)
                await ended.wait()

        tasks = [asyncio.create_task(one()) for _ in range(sagas)]
        await opened.wait()
        started = time.perf_counter()
        await ended.wait()
        taken = time.perf_counter() - started
        await asyncio.gather(*tasks)
        return sagas * steps / taken

    return asyncio.run(run())


def sagas_per_second(store: Store, at_once: int, each: int) -> float:
    """Return how many sagas of three durable steps are opened, run and committed in a second."""

    async def run() -> float:
        async def one() -> None:
            for _ in range(each):
                async with saga_scope(store=store):
                    for _ in range(3):
                        await power_step(**ARGUMENTS)

        started = time.perf_counter()
        await asyncio.gather(*(one() for _ in range(at_once)))
        return at_once * each / (time.perf_counter() - started)

    return asyncio.run(run())
