"""Scenarios of runs whose process is killed inside an effect, and of the recovery by another process."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Literal

from saga_core.conformance.adapter.actions import charge, reserve
from saga_core.conformance.adapter.ledger import DEATH, PATIENCE
from saga_core.conformance.adapter.scenario import call
from saga_core.conformance.adapter.script import Script
from saga_core.conformance.adapter.victim import Orders
from saga_core.conformance.expectation import expect
from saga_core.conformance.twin import Twin
from saga_core.recovery import recover

if TYPE_CHECKING:
    from saga_core.conformance.adapter.scenario import Stage

_START = "from saga_core.conformance.adapter.victim import main; main()"


def a_run_killed_before_its_second_effect_landed_is_undone_once_by_recovery(stage: Stage) -> None:
    """What did not land is not undone."""
    _kill(stage, "before")
    stage.have_landed("a")
    _recover_twice(stage)
    stage.are_undone("a")


def a_run_killed_after_its_second_effect_landed_is_undone_once_by_recovery(stage: Stage) -> None:
    """What landed without an outcome in the log is undone too."""
    _kill(stage, "after")
    stage.have_landed("a", "b")
    _recover_twice(stage)
    stage.are_undone("b", "a")


def _kill(stage: Stage, when: Literal["before", "after"]) -> None:
    """Play the harness in another process, which is killed at its second effect."""
    script = Script([[call(charge, "a", amount=5)], [call(reserve, "b")], "all done"])
    orders = Orders(Twin.of(stage.harness), stage.form, stage.store, script)
    ended = subprocess.run(
        [sys.executable, "-c", _START],
        input=pickle.dumps(orders),
        env={**os.environ, DEATH: f"{when}:b"},
        capture_output=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    said = ended.stderr.decode(errors="replace")[-2000:]
    expect(ended.returncode == -signal.SIGKILL, f"the process should die in its second effect; it said: {said}")


def _recover_twice(stage: Stage) -> None:
    for _ in range(2):
        found = recover(stage.store).found
        stuck = [one.words for one in found if one.outcome != "settled"]
        expect(not stuck, f"recovery should settle the killed run: {stuck}")
        stage.stand()
        stage.ended("rolled_back")
