"""Measure and print; `python -m benchmarks.recovery [--json] [--rounds N] [--quick] [--settled N]`."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import tempfile
import uuid
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.measure import Bar, in_turn, parser, show
from benchmarks.recovery import population

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
OPEN = 10
BARS = {
    "recover_10_of_1m_ms": Bar("<=", 15),
    "recover_memory_mb": Bar("<=", 16),
    "recover_beside_10k_suspended_ms": Bar("<=", 100),
    "recover_after_power_loss_ms": Bar("<=", 300),
}


def kill(store: Path, *, committed: int = 0, boot: tuple[str, ...] = ()) -> None:
    """Leave ten sagas open, each with a step that landed, by a process that is killed."""
    command = [sys.executable, "-m", "benchmarks.recovery.victim", f"file:{store}", str(OPEN), str(committed), *boot]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as victim:
        assert victim.stdout is not None
        said = victim.stdout.readline()
        victim.kill()
    if said != "landed\n":
        raise RuntimeError("the process that was to be killed ended before its steps had landed")


def lose_power(store: Path) -> None:
    """Cut what an earlier boot left in files: to half of each log if a journal holds it, else to a torn tail."""
    has_journal = any(store.glob("journals/*.j"))
    for log in store.glob("open/*.log"):
        if has_journal:
            log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
        else:
            with log.open("ab") as file:
                file.write(b"\0" * 20)


def recovered(store: Path) -> dict[str, float]:
    """Return what a fresh process says of one pass.

    Raises:
        RuntimeError: It did not undo the ten steps and settle the ten sagas.
    """
    command = [sys.executable, "-m", "benchmarks.recovery.recoverer", f"file:{store}"]
    ran = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    found = json.loads(ran.stdout)
    if (found["undone"], found["settled"]) != (OPEN, OPEN):
        raise RuntimeError(f"{OPEN} sagas were to be settled and as many steps undone: {found}")
    return found


def pass_over(store: Path) -> dict[str, float]:
    """Return what a pass costs after a kill."""
    kill(store)
    return recovered(store)


def pass_after_power_loss(folder: Path, committed: int) -> dict[str, float]:
    """Return what a pass costs in the boot behind the one in which the machine lost its power."""
    store = folder / uuid.uuid4().hex
    kill(store, committed=committed, boot=(str(uuid.uuid4()),))
    lose_power(store)
    return recovered(store)


def figures(folder: Path, *, settled: int, suspended: int, committed: int, rounds: int) -> dict[str, float]:
    """Return the figures."""
    population.settle(folder / "settled", settled)
    population.suspend(folder / "suspended", suspended)
    contenders: dict[str, Callable[[], dict[str, float]]] = {
        "settled": partial(pass_over, folder / "settled"),
        "suspended": partial(pass_over, folder / "suspended"),
        "power": partial(pass_after_power_loss, folder, committed),
    }
    found = in_turn(contenders, rounds=rounds)
    return {
        "recover_10_of_1m_ms": median(one["ms"] for one in found["settled"]),
        "recover_memory_mb": median(one["mb"] for one in found["settled"]),
        "recover_beside_10k_suspended_ms": median(one["ms"] for one in found["suspended"]),
        "recover_after_power_loss_ms": median(one["ms"] for one in found["power"]),
        "bare_sync_ms": median(one["sync_ms"] for said in found.values() for one in said),
    }


def main() -> None:
    """Measure and print."""
    line = parser("What recovery costs, by how much there is beside the ten sagas that need it.", rounds=5)
    line.add_argument("--settled", type=int, default=1_000_000, help="settled sagas (default: a million)")
    line.add_argument("--suspended", type=int, default=10_000, help="suspended sagas (default: ten thousand)")
    line.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs")
    chosen = line.parse_args()
    if chosen.quick:
        chosen.settled, chosen.suspended, chosen.rounds = 200, 5, 1
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as name:
        sizes = {"settled": chosen.settled, "suspended": chosen.suspended, "committed": 5 if chosen.quick else 500}
        show(figures(Path(name), **sizes, rounds=chosen.rounds), as_json=chosen.json, bars=BARS)


if __name__ == "__main__":
    main()
