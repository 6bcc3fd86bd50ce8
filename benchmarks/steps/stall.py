"""How long one call with a large argument keeps the event loop from everything else."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from benchmarks.steps.tool import ARGUMENTS, long_step
from saga_core import saga_scope
from saga_core.errors import BadArguments

if TYPE_CHECKING:
    from saga_core import Store

TICK = 0.001


async def _longest_gap(running: asyncio.Event) -> float:
    longest, last = 0.0, time.perf_counter()
    while not running.is_set():
        await asyncio.sleep(TICK)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return longest


def longest_stall(store: Store, letters: int) -> float | None:
    """Return the seconds of the longest stall while a call takes a text of that length; None if it is refused."""
    arguments: dict[str, Any] = {**ARGUMENTS, "memo": "x" * letters}

    async def run() -> float | None:
        async with saga_scope(store=store):
            ended = asyncio.Event()
            ticker = asyncio.create_task(_longest_gap(ended))
            await asyncio.sleep(5 * TICK)
            try:
                await long_step(**arguments)
            except BadArguments:
                return None
            finally:
                ended.set()
            return await ticker

    return asyncio.run(run())
