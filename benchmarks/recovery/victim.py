"""A process that is killed with sagas open; `python -m benchmarks.recovery.victim URL OPEN COMMITTED [BOOT]`.

It commits some sagas, opens others, has one step land in each of them, and says so.
"""

from __future__ import annotations

import asyncio
import io
import sys
from functools import partial
from typing import Any

from benchmarks.recovery.actions import take
from saga_core import open_store, saga_scope
from saga_core.stores import boot


def _boot_file(boot_id: str, *_: object, **__: object) -> io.StringIO:
    return io.StringIO(boot_id)


async def _committed(store: Any, number: int) -> None:
    async with saga_scope(store=store):
        await take(number)


async def _open(store: Any, number: int, landed: asyncio.Barrier) -> None:
    async with saga_scope(store=store, new=True):
        await take(number)
        await landed.wait()
        await asyncio.Event().wait()


async def _run(url: str, left_open: int, committed: int) -> None:
    store = open_store(url)
    landed = asyncio.Barrier(left_open + 1)
    await asyncio.gather(*(_committed(store, number) for number in range(committed)))
    tasks = [asyncio.create_task(_open(store, number, landed)) for number in range(left_open)]
    await landed.wait()
    print("landed", flush=True)
    await asyncio.gather(*tasks)


if __name__ == "__main__":
    address, opened, ended, *other = sys.argv[1:]
    if other:  # what it writes is of a boot that is over when it is read
        setattr(boot, "open", partial(_boot_file, other[0]))  # noqa: B010 -- a name that the module does not have
    asyncio.run(_run(address, int(opened), int(ended)))
