"""The peer: the same work by agent-saga, which keeps one file for all sagas and syncs it for many at once."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from benchmarks.measure import in_turn
from benchmarks.steps.crowd import sagas_per_second, steps_per_second
from benchmarks.steps.isolated import Isolated
from benchmarks.steps.process import full

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from saga_core import Store

PACKAGES = ("agent-saga==2.3.11",)


def figures(store: Store, folder: Path, *, sagas: int, steps: int, rounds: int) -> Iterator[tuple[str, float]]:
    """Yield the figures.

    Raises:
        Unavailable: The peer cannot be had here.
    """
    at_once, each, chunks = max(1, sagas // 4), max(1, steps // 2), steps * 5
    with Isolated("peer.py", PACKAGES, folder / "peer") as peer:
        contenders: dict[str, Callable[[], float]] = {
            "crowd": lambda: steps_per_second(store, sagas, steps),
            "peer_crowd": lambda: peer.ask("crowd", sagas, steps),
            "short": lambda: sagas_per_second(store, at_once, each),
            "peer_short": lambda: peer.ask("short", at_once, each),
            "fast": lambda: median(full(store, chunks)),
            "peer_fast": lambda: peer.ask("fast_step", chunks),
        }
        found = {name: median(values) for name, values in in_turn(contenders, rounds=rounds).items()}
    yield "power_steps_per_second_over_peer", found["crowd"] / found["peer_crowd"]
    yield "short_sagas_per_second_over_peer", found["short"] / found["peer_short"]
    yield "peer_process_step_over_ours", found["peer_fast"] / found["fast"]
    yield "power_steps_per_second", found["crowd"]
    yield "short_sagas_per_second", found["short"]
