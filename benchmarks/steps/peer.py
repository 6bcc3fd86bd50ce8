"""The peer's side, run in an environment that has agent-saga; see `isolated.py` for how it is asked."""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

ARGUMENTS = {"customer": "cus_9f31c", "amount": 42_00, "currency": "eur", "memo": "invoice 2231"}
STEPS = 20
FOLDER = Path(sys.argv[1])


async def _tool(customer: str, amount: int, currency: str, memo: str) -> dict[str, Any]:
    return {"id": "ch_2c41", "amount": amount, "currency": currency}


class Peer:
    """Sagas of agent-saga over one file, as its documentation opens them."""

    def __init__(self) -> None:
        package = importlib.import_module("agent_saga")
        semantics = importlib.import_module("agent_saga.semantics")
        self._context = package.SagaContext
        self._log = importlib.import_module("agent_saga.wal.file_wal").FileWAL
        self._kinds = semantics.ActionSemantics
        self._compensation = semantics.Compensation
        self._number = 0

    async def _log_file(self) -> Any:
        self._number += 1
        log = self._log(FOLDER / f"{self._number}.jsonl")
        await log.start()
        return log

    async def _step(self, saga: Any, kind: Any) -> None:
        await saga.execute("benchmark", kind, _tool, ARGUMENTS, self._undo)

    def _undo(self, result: Any) -> Any:
        return self._compensation(_tool, {"charge_id": result["id"]}, handler="benchmark.refund")

    async def fast_step(self, chunks: int) -> float:
        """Return the seconds of a step of the fast tier, which is not on disk when it returns."""
        log = await self._log_file()
        saga = self._context(wal=log)
        await saga.begin()
        taken: list[float] = []
        for _ in range(chunks):
            started = time.perf_counter()
            for _ in range(STEPS):
                await self._step(saga, self._kinds.REVERSIBLE)
            taken.append((time.perf_counter() - started) / STEPS)
        await saga.finish()
        await log.close()
        return median(taken)

    async def crowd(self, sagas: int, steps: int) -> float:
        """Return the durable steps per second of many sagas."""
        log = await self._log_file()
        opened, ended = asyncio.Barrier(sagas + 1), asyncio.Barrier(sagas + 1)

        async def one() -> None:
            saga = self._context(wal=log)
            await saga.begin()
            await opened.wait()
            for _ in range(steps):
                await self._step(saga, self._kinds.COMPENSABLE)
            await ended.wait()
            await saga.finish()

        tasks = [asyncio.create_task(one()) for _ in range(sagas)]
        await opened.wait()
        started = time.perf_counter()
        await ended.wait()
        taken = time.perf_counter() - started
        await asyncio.gather(*tasks)
        await log.close()
        return sagas * steps / taken

    async def short(self, at_once: int, each: int) -> float:
        """Return the sagas of three durable steps per second."""
        log = await self._log_file()

        async def one() -> None:
            for _ in range(each):
                saga = self._context(wal=log)
                await saga.begin()
                for _ in range(3):
                    await self._step(saga, self._kinds.COMPENSABLE)
                await saga.finish()

        started = time.perf_counter()
        await asyncio.gather(*(one() for _ in range(at_once)))
        taken = time.perf_counter() - started
        await log.close()
        return at_once * each / taken


def main() -> None:
    """Answer questions until the input ends."""
    logging.disable(logging.CRITICAL)
    peer = Peer()
    print("ready", flush=True)
    for line in sys.stdin:
        question, *numbers = json.loads(line)
        print(asyncio.run(getattr(peer, question)(*numbers)), flush=True)


if __name__ == "__main__":
    main()
