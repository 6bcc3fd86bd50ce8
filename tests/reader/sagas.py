"""A process that leaves a store behind: `sagas.py STORE BOOT` fills it with sagas of every kind and kills itself.

BOOT is the boot in which it says to run, "" for the real one.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from typing import Any

from saga_core import (
    AlreadyUndone,
    Call,
    Compensation,
    Conflict,
    compensable,
    current_saga,
    current_step,
    inverse,
    irreversible,
    open_store,
    saga_scope,
)
from saga_core.stores import boot

BIG = "x\u00e9\0" * 800_000


class Hallucination(Exception):
    """The agent fails."""


@inverse("ledger.take_back")
def take_back(item: str) -> AlreadyUndone | Conflict | None:
    """Undo, or find that somebody else has."""
    if item == "gone":
        return AlreadyUndone()
    return Conflict(wrote=item, found="other") if item == "changed" else None


@compensable("ledger.put")
def put(item: str, more: dict[str, Any] | None = None) -> str:
    """Write."""
    current_step().note_sync(ref=item[:9], score=0.1, big=2**64 - 1, small=-(2**63))
    if item == "refused":
        raise Hallucination
    return item[:40]


@put.undo
def undo_put(call: Call[str]) -> Compensation:
    """Name what to take back."""
    return take_back.bind(item=call.result)


@irreversible("mail.send", hold=True)
def mail(to: str) -> None:
    """Send, or not, nobody can tell."""
    if to == "refused":
        raise Hallucination


@compensable("ledger.put_async")
async def put_async(item: str) -> dict[str, str]:
    """Write on a loop."""
    await asyncio.sleep(0)
    return {"item": item[:40]}


@put_async.undo
def undo_put_async(call: Call[dict[str, str]]) -> Compensation:
    """Name what to take back."""
    return take_back.bind(item=call.result["item"])


def finished() -> None:
    """Leave sagas that came to an end of their own."""
    with saga_scope("kept", store=STORE, tags={"run": "7", "\u00fc": ""}):
        put("a", {"n": [1, -1, 1.5, None, True], "e": {}, "long": "y" * 70_000})
        with suppress(Hallucination), saga_scope("inner"):
            put("b")
            raise Hallucination
        with saga_scope("kept inner"):
            put("c")
    with suppress(Hallucination), saga_scope("undone", store=STORE):
        for item in ("a", "gone", BIG):
            put(item)
        raise Hallucination
    with suppress(Hallucination), saga_scope("in conflict", store=STORE):
        put("a")
        put("changed")
        raise Hallucination
    for day in ("tomorrow", "the day after"):
        with saga_scope("waiting", store=STORE, key="k") as saga:
            put(BIG)
            saga.suspend(f"until {day}")
    with saga_scope("held", store=STORE):
        mail("ana")
        with suppress(Hallucination), saga_scope("dropped"):
            mail("never")
            raise Hallucination
        mail("refused")
        mail("waits")
    with suppress(Hallucination), saga_scope("in doubt", store=STORE):
        put("refused")


async def running() -> None:
    """Run many sagas at once, and die in the midst of them."""
    begun = asyncio.Barrier(9)

    async def run(number: int) -> None:
        async with saga_scope(f"running {number}", store=STORE):
            for item in range(number):
                await put_async(f"{number}.{item}")
            if number == 4:
                await put_async(BIG)
                await put_async("the last")
            await begun.wait()
            await asyncio.sleep(3600)

    async with asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(run(number))
        await begun.wait()
        os.kill(os.getpid(), signal.SIGKILL)


def say_to_run_in(name: str) -> None:
    """Have this process believe in another boot."""
    for module in [*sys.modules.values()]:
        if hasattr(module, "boot_id"):
            vars(module)["boot_id"] = lambda: name


if __name__ == "__main__":
    assert hasattr(boot, "boot_id")
    if sys.argv[2]:
        say_to_run_in(sys.argv[2])
    STORE = open_store(sys.argv[1])
    finished()
    assert current_saga() is None
    asyncio.run(running())
