"""Taking turns: every contender runs once in each round, so that a busy machine is unfair to none."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def seconds(run: Callable[[], object]) -> float:
    """Return how long one run takes."""
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def medians(contenders: Mapping[str, Callable[[], object]], *, rounds: int) -> dict[str, float]:
    """Return each contender's median in seconds over the rounds; the first round only warms up."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for name, run in contenders.items():
            took = seconds(run)
            if turn:
                taken[name].append(took)
    return {name: statistics.median(values) for name, values in taken.items()}


def options(what: str) -> argparse.Namespace:
    """Return the command line: `--json` and `--rounds`."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--rounds", type=int, default=7, help="how often each contender runs (default: 7)")
    return parser.parse_args()


def show(figures: Mapping[str, float], *, as_json: bool) -> None:
    """Print the figures."""
    if as_json:
        print(json.dumps({name: round(value, 4) for name, value in figures.items()}))
        return
    width = max(map(len, figures))
    for name, value in figures.items():
        print(f"{name:<{width}}  {value:10.4f}")
