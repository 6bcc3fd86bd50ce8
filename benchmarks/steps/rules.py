"""What rules and budgets cost a step."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import timedelta
from itertools import chain
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.measure import in_turn
from benchmarks.steps import process
from benchmarks.steps.tool import ARGUMENTS, power_step
from saga_core import Gate, Proposal, Refuse, saga_scope
from saga_core.rules import above, deny_actions, needs_undo_window, only_actions, rate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from saga_core import Store
    from saga_core.gate import Rule


def known_customer(proposal: Proposal) -> Refuse | None:
    """Look at an argument, as users' rules do."""
    return None if proposal.args["customer"].startswith("cus_") else Refuse("no customer")


def plain_memo(proposal: Proposal) -> Refuse | None:
    """Look at another one."""
    return None if proposal.args["memo"].isprintable() else Refuse("an odd memo")


TEN: tuple[Rule, ...] = (
    above({"eur": 100_00}),
    above({"eur": 1_000_00}, refuse=True),
    only_actions("benchmark.*"),
    deny_actions("bank.*", "mail.*"),
    deny_actions("*.delete"),
    needs_undo_window(timedelta(hours=1)),
    above({"eur": 10}, actions="bank.*"),
    known_customer,
    plain_memo,
    only_actions("*.process", "*.power"),
)


def synced(place: Path, times: int) -> list[float]:
    """Return the seconds of one raw write of a step's bytes and its sync, each."""
    taken: list[float] = []
    descriptor = os.open(place, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        for number in range(times):
            started = time.perf_counter()
            os.pwrite(descriptor, b"x" * 400, number * 400)
            os.fdatasync(descriptor)
            taken.append(time.perf_counter() - started)
    finally:
        os.close(descriptor)
    return taken


def metered(store: Store, tasks: int, each: int) -> float:
    """Return the seconds of a step that a rate meters, opening and end left out: of all by their number."""

    async def run() -> float:
        gate = Gate(rate(10**9, per=timedelta(days=1)))
        opened, ended = asyncio.Barrier(tasks + 1), asyncio.Barrier(tasks + 1)

        async def one() -> None:
            async with saga_scope(store=store, gate=gate):
                await opened.wait()
                for _ in range(each):
                    await power_step(**ARGUMENTS)
                await ended.wait()

        running = [asyncio.create_task(one()) for _ in range(tasks)]
        await opened.wait()
        started = time.perf_counter()
        await ended.wait()
        taken = time.perf_counter() - started
        await asyncio.gather(*running)
        return taken / (tasks * each)

    return asyncio.run(run())


def figures(store: Store, folder: Path, *, quick: bool, rounds: int) -> Iterator[tuple[str, float]]:
    """Yield the figures."""
    chunks = 2 if quick else 50
    judged = {
        "free": lambda: process.full(store, chunks),
        "ruled": lambda: process.full(store, chunks, gate=Gate(*TEN)),
    }
    taken = {name: median(chain(*lists)) for name, lists in in_turn(judged, rounds=rounds).items()}
    yield "gate_ten_rules", taken["ruled"] / taken["free"]
    times, tasks = (2, 4) if quick else (30, 64)
    contenders: dict[str, Callable[[], float]] = {
        "sync": lambda: median(synced(folder / "raw", times)),
        "alone": lambda: metered(store, 1, times),
        "many": lambda: metered(store, tasks, 2 if quick else 8),
    }
    found = {name: median(values) for name, values in in_turn(contenders, rounds=min(5, rounds)).items()}
    yield "budget_step_over_sync", found["alone"] / found["sync"]
    yield "budget_scaling", found["alone"] / found["many"]
