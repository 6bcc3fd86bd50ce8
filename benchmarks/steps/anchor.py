"""Others that keep a durable record of each step, for scale: their promises differ, so no bar stands beside them."""

from __future__ import annotations

import sqlite3
import sys
import time
from contextlib import ExitStack, closing
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.measure import in_turn
from benchmarks.steps.isolated import Isolated, Unavailable
from benchmarks.steps.power import latencies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from saga_core import Store

ELSEWHERE: dict[str, tuple[str, tuple[str, ...]]] = {
    "dbos": ("anchor_dbos.py", ("dbos>=3,<4",)),
    "langgraph_saver": ("anchor_langgraph.py", ("langgraph>=1,<2", "langgraph-checkpoint-sqlite>=3,<4")),
}
_RECORD = b"x" * 220


def _sqlite(path: Path, steps: int) -> float:
    """Return the seconds of a step that is one transaction."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = full")
        connection.execute("create table if not exists log (record blob)")
        started = time.perf_counter()
        for _ in range(steps):
            connection.execute("insert into log values (?)", (_RECORD,))
        return (time.perf_counter() - started) / steps


def figures(store: Store, folder: Path, *, steps: int, rounds: int, alone: bool) -> Iterator[tuple[str, float]]:
    """Yield the milliseconds of a step of each; what cannot be had is named on standard error."""
    with ExitStack() as stack:
        contenders: dict[str, Callable[[], float]] = {
            "power": lambda: median(latencies(store, steps)),
            "sqlite": partial(_sqlite, folder / "anchor.sqlite", steps),
        }
        for name in () if alone else ELSEWHERE:
            program, packages = ELSEWHERE[name]
            try:
                other = stack.enter_context(Isolated(program, packages, folder / name))
            except Unavailable as why:
                print(f"{name} is left out: {why}", file=sys.stderr)
                continue
            contenders[name] = partial(other.ask, "step", steps)
        for name, values in in_turn(contenders, rounds=rounds).items():
            yield f"{name}_step_ms", median(values) * 1000
