"""Measure and print; `python -m benchmarks.steps [--json] [--rounds N] [--quick] [--only NAME]`."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.measure import Bar, in_turn, parser, show
from benchmarks.steps import anchor, phase, power, process, rival, rules, stall, start
from benchmarks.steps.crowd import steps_per_second
from benchmarks.steps.disk import Disk, store_on
from benchmarks.steps.isolated import Unavailable
from saga_core import open_store
from saga_core.stores.encryption import KEY_SIZE, Encryption

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from saga_core import Store

BARS = {
    "process_step_over_bare": Bar("<=", 30),
    "log_step_over_bare": Bar("<=", 12),
    "process_step_encrypted_over_bare": Bar("<=", 40),
    "sync_step_over_async_step": Bar("<=", 1.2),
    "power_step_over_sync_1ms": Bar("<=", 1.15),
    "power_step_over_sync_2ms": Bar("<=", 1.10),
    "power_step_p99_over_sync_p99": Bar("<=", 2),
    "syncs_per_step": Bar("<=", 1),
    "syncs_per_step_thinking": Bar("<=", 2),
    "power_scaling": Bar(">=", 4),
    "power_scaling_2ms": Bar(">=", 40),
    "power_steps_per_second_over_peer": Bar(">=", 6),
    "short_sagas_per_second_over_peer": Bar(">=", 2),
    "peer_process_step_over_ours": Bar(">=", 4),
    "import_over_msgspec": Bar("<=", 1.35),
    "large_argument_stall_ms": Bar("<=", 30),
    "gate_ten_rules": Bar("<=", 1.5),
    "budget_step_over_sync": Bar("<=", 10),
    "budget_scaling": Bar(">=", 5),
}
PARTS = ("process", "power", "scaling", "stall", "start", "rules", "peer", "anchors")


def encrypted_store(folder: Path) -> Store:
    """Return a store whose logs are encrypted with a key that is made now."""
    key = os.urandom(KEY_SIZE)
    return open_store(f"file:{folder / 'encrypted'}", encryption=Encryption("benchmark", lambda _: key))


def scaling(folder: Path, *, quick: bool, rounds: int) -> Iterator[tuple[str, float]]:
    """Yield how many times the durable steps of one saga many sagas make."""
    many, each, alone = (4, 2, 4) if quick else (256, 8, 100)
    for name, latency in (("power_scaling", 0.0), ("power_scaling_2ms", 0.002)):
        store = store_on(Disk(latency), folder / name)
        contenders = {
            "one": lambda store=store: steps_per_second(store, 1, alone),
            "many": lambda store=store: steps_per_second(store, many, each),
        }
        found = {who: median(values) for who, values in in_turn(contenders, rounds=rounds).items()}
        yield name, found["many"] / found["one"]


def measured(folder: Path, chosen: argparse.Namespace) -> Iterator[tuple[str, float]]:
    """Yield all figures that can be had; what is left out is named on standard error."""
    quick, rounds = chosen.quick, chosen.rounds
    store = store_on(Disk(), folder / "store")
    if "process" in chosen.only:
        yield from process.figures(store, encrypted_store(folder), chunks=2 if quick else 50, rounds=rounds)
    if "power" in chosen.only:
        yield from power.figures(folder, turns=1 if quick else 20 * rounds)
    if "scaling" in chosen.only:
        yield from scaling(folder, quick=quick, rounds=min(3, rounds))
    if "stall" in chosen.only:
        stalls = [stall.longest_stall(store, 2_000 if quick else 20_000_000) for _ in range(rounds)]
        known = [seconds for seconds in stalls if seconds is not None]
        if known:
            yield "large_argument_stall_ms", median(known) * 1000
        else:
            print("large_argument_stall_ms is left out: a text of 20 MB is refused", file=sys.stderr)
    if "start" in chosen.only:
        yield from start.figures(folder, starts=2 if quick else 20)
    if "rules" in chosen.only:
        yield from rules.figures(store, folder, quick=quick, rounds=rounds)
    if "peer" in chosen.only:
        try:
            yield from rival.figures(store, folder, sagas=256, steps=8, rounds=rounds)
        except Unavailable as why:
            print(f"the peer is left out: {why}", file=sys.stderr)
    if "anchors" in chosen.only:
        steps = 5 if quick else 50
        yield from anchor.figures(store, folder, steps=steps, rounds=min(3, rounds), alone=quick)


def phases(folder: Path, step_us: float) -> list[str]:
    """Return where the time of a step of the process tier goes, a line a phase."""
    store = store_on(Disk(), folder / "phases")
    seen: Counter[str] = Counter()
    with phase.looking(seen):
        for _ in range(20):
            process.full(store, 50)
    return phase.lines(seen, step_us)


def main() -> None:
    """Measure and print."""
    line = parser("What a step costs.")
    line.add_argument(
        "--quick", action="store_true", help="tiny sizes and nothing from the network: shows that it runs"
    )
    line.add_argument("--only", nargs="+", choices=PARTS, help="measure these parts alone")
    chosen = line.parse_args()
    if chosen.quick:
        chosen.rounds = 1
    chosen.only = chosen.only or [part for part in PARTS if not (chosen.quick and part == "peer")]
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as name:
        figures = dict(measured(Path(name), chosen))
        show(figures, as_json=chosen.json, bars=BARS)
        if not chosen.json and "process_step_us" in figures:
            print("where a step of the process tier spends its time:")
            print("\n".join(phases(Path(name), figures["process_step_us"])))


if __name__ == "__main__":
    main()
