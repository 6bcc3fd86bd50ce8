"""Taking turns: every contender runs once in each round, so that a busy machine is unfair to none."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")


class Bar(NamedTuple):
    """What a figure should reach; printed beside it, never enforced."""

    relation: Literal["<=", ">="]
    value: float

    def __str__(self) -> str:
        return f"{self.relation} {self.value:g}"


def seconds(run: Callable[[], object]) -> float:
    """Return how long one run takes."""
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def in_turn(contenders: Mapping[str, Callable[[], T]], *, rounds: int) -> dict[str, list[T]]:
    """Return what each contender says of itself in each round; the first round only warms up."""
    said: dict[str, list[T]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for name, run in contenders.items():
            answer = run()
            if turn:
                said[name].append(answer)
    return said


def medians(contenders: Mapping[str, Callable[[], object]], *, rounds: int) -> dict[str, float]:
    """Return each contender's median in seconds over the rounds; the first round only warms up."""
    taken = in_turn({name: partial(seconds, run) for name, run in contenders.items()}, rounds=rounds)
    return {name: statistics.median(values) for name, values in taken.items()}


def parser(what: str, *, rounds: int = 7) -> argparse.ArgumentParser:
    """Return the command line that all benchmarks have: `--json` and `--rounds`."""
    made = argparse.ArgumentParser(description=what)
    made.add_argument("--json", action="store_true", help="print one JSON object")
    made.add_argument("--rounds", type=int, default=rounds, help=f"how often each contender runs (default: {rounds})")
    return made


def options(what: str) -> argparse.Namespace:
    """Return the command line: `--json` and `--rounds`."""
    return parser(what).parse_args()


def show(figures: Mapping[str, float], *, as_json: bool, bars: Mapping[str, Bar] | None = None) -> None:
    """Print the figures, and for people the bars beside them."""
    if as_json:
        print(json.dumps({name: round(value, 4) for name, value in figures.items()}))
        return
    width = max(map(len, figures))
    for name, value in figures.items():
        bar = (bars or {}).get(name)
        print(f"{name:<{width}}  {value:10.4f}" + (f"  bar {bar}" if bar else ""))
