"""The benchmarks run, and print every figure that they promise; how large the figures are is nobody's business here."""

import json
import math
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.measure import Bar, in_turn, show
from benchmarks.recovery import __main__ as recovery
from benchmarks.recovery.population import saga_id
from benchmarks.steps import phase
from benchmarks.steps.__main__ import BARS
from benchmarks.steps.disk import Disk
from saga_core.ids import start_date

ROOT = Path(__file__).parents[1]
FROM_THE_NETWORK = {
    "power_steps_per_second_over_peer",
    "short_sagas_per_second_over_peer",
    "peer_process_step_over_ours",
}


def printed(module: str) -> dict[str, float]:
    """Return what a benchmark prints with tiny sizes."""
    command = [sys.executable, "-m", module, "--quick", "--json"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_the_benchmark_of_steps_prints_each_figure_that_has_a_bar() -> None:
    found = printed("benchmarks.steps")
    assert set(BARS) - set(found) <= FROM_THE_NETWORK
    assert all(math.isfinite(value) and value > 0 for value in found.values()), found


def test_the_benchmark_of_recovery_prints_each_figure_that_has_a_bar() -> None:
    found = printed("benchmarks.recovery")
    assert set(recovery.BARS) <= set(found)
    assert all(math.isfinite(value) and value >= 0 for value in found.values()), found


def test_a_pass_that_undoes_too_little_is_no_figure(tmp_path: Path) -> None:
    store = tmp_path / "store"
    recovery.kill(store)
    next(store.glob("open/*.log")).unlink()
    with pytest.raises(RuntimeError, match="'settled': 9"):
        recovery.recovered(store)


def test_a_made_up_saga_is_one_of_its_day() -> None:
    made = saga_id(1_767_225_599_999)
    assert start_date(made) == "2025-12-31"
    assert made < saga_id(1_767_225_600_000)


def test_contenders_take_turns_and_the_first_round_counts_for_nothing() -> None:
    turns: list[str] = []

    def contender(name: str) -> int:
        turns.append(name)
        return len(turns)

    said = in_turn({"a": lambda: contender("a"), "b": lambda: contender("b")}, rounds=2)
    assert turns == ["a", "b"] * 3
    assert said == {"a": [3, 5], "b": [4, 6]}


def test_a_bar_is_printed_beside_its_figure_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    show({"fast": 2.0, "other": 1.0}, as_json=False, bars={"fast": Bar("<=", 1.15)})
    fast, other = capsys.readouterr().out.splitlines()
    assert fast.endswith("2.0000  bar <= 1.15")
    assert "bar" not in other


def test_a_slower_disk_syncs_the_real_file_and_counts(tmp_path: Path) -> None:
    disk = Disk(latency=0.001)
    with (tmp_path / "file").open("wb", buffering=0) as file:
        file.write(b"x")
        disk.sync_data(file.fileno())
        disk.sync_data(file.fileno())
    assert disk.syncs == 2
    with pytest.raises(OSError, match="Bad file descriptor"):
        disk.sync_data(10**6)


def test_a_phase_is_named_by_the_longest_name_that_fits() -> None:
    assert phase.phase_of("saga_core.stores.log") == phase.PHASES["stores"]
    assert phase.phase_of("saga_core.engine.judge") == phase.PHASES["gate"]
    assert phase.phase_of("saga_core.engine.step") == phase.PHASES["engine"]
    assert phase.phase_of("saga_core.errors") == "saga_core.errors"
    assert phase.phase_of("asyncio.events") is None


def test_what_runs_while_somebody_looks_is_counted() -> None:
    seen: Counter[str] = Counter()
    source = "def spin(seen):\n    while not seen:\n        pass\n"
    module: dict[str, object] = {"__name__": "saga_core.fold"}
    exec(compile(source, "spin", "exec"), module)  # noqa: S102 -- a function that says it is of the state
    spin = module["spin"]
    assert callable(spin)
    alarm = signal.getitimer(signal.ITIMER_REAL)
    with phase.looking(seen):
        spin(seen)
    assert bool(signal.getitimer(signal.ITIMER_REAL)[0]) == bool(alarm[0])
    assert set(seen) == {phase.PHASES["fold"]}
    assert phase.lines(seen, 10.0)[0].endswith("the state")
