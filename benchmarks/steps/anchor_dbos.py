"""DBOS with SQLite, run in an environment that has it; see `isolated.py` for how it is asked."""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import sys
import time


def main() -> None:
    """Answer with the seconds of a step inside one workflow."""
    logging.disable(logging.CRITICAL)
    dbos = importlib.import_module("dbos").DBOS
    dbos(config={"name": "benchmark", "system_database_url": f"sqlite:///{sys.argv[1]}/dbos.sqlite"})

    @dbos.step()
    async def tool(customer: str, amount: int) -> dict[str, object]:
        return {"id": "ch_2c41", "amount": amount}

    @dbos.workflow()
    async def workflow(steps: int) -> float:
        started = time.perf_counter()
        for _ in range(steps):
            await tool("cus_9f31c", 42_00)
        return (time.perf_counter() - started) / steps

    dbos.launch()
    print("ready", flush=True)
    for line in sys.stdin:
        _, steps = json.loads(line)
        print(asyncio.run(workflow(steps)), flush=True)
    dbos.destroy()


if __name__ == "__main__":
    main()
