"""Faults planted into the engine: each is one that the oracle here must catch, or its silence means nothing."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from .inquest import Inquest
from .scene import cut_short, ended
from .test_torn_logs import lose_power

if TYPE_CHECKING:
    from pathlib import Path

    from .scene import Scene


def wrongs(scene: Scene, plan: str = "failing") -> list[str]:
    return Inquest.over(scene.store).wrongs(scene.ledger.state(), {1: plan})


def test_a_step_without_its_intent_is_caught(scene: Scene) -> None:
    scene.die(scene.victim(at="charge 1 after", faults=("no_intent",)))
    scene.rescue(watch=20.0)
    assert wrongs(scene) == [
        "saga 1 is rolled_back: {1} stand where set() should, cases: set()",
        "saga 1 counts as settled: {1} stand where set() should",
    ]


@pytest.mark.parametrize("faults", [(), ("no_barrier",)])
def test_a_missing_barrier_is_caught_by_a_loss_of_power(scene: Scene, tmp_path: Path, faults: tuple[str, ...]) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    scene.die(scene.victim(at="charge 1 after", disk=str(disk), faults=faults))
    (log,) = scene.store.glob("open/*.log")
    lose_power(log, disk, "nothing")
    scene.rescue(watch=20.0, faults=("other_boot",))
    assert wrongs(scene) == (["saga 1 left no record, and {1} stand"] if faults else [])


def test_a_commit_that_nobody_waited_for_is_caught_by_a_loss_of_power(scene: Scene, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    # Killed when it has committed: at its end it would bring everything to the disk.
    scene.die(scene.victim(plan="committing", at="move 1 after", disk=str(disk), faults=("no_barrier",)))
    (log,) = scene.store.glob("done/*/*.log")
    lose_power(log, disk, "nothing")
    log.rename(scene.store / "open" / log.name)
    scene.rescue(watch=20.0, faults=("other_boot",))
    assert wrongs(scene, "committing") == ["saga 1 left no record, and {1, 2} stand"]


def test_a_not_landed_believed_at_once_is_caught(scene: Scene) -> None:
    cut_short(scene, "charge", "hold")
    scene.rescue(watch=20.0, faults=("hasty",))
    scene.ledger.release()
    scene.ledger.wait_until(lambda state: bool(state.charges))
    assert "saga 1 counts as settled: {1} stand where set() should" in wrongs(scene)


def test_an_undo_under_another_key_is_caught(keyed_scene: Scene) -> None:
    scene = keyed_scene
    cut_short(scene, "refund", "hold_answer", remote="keyed")
    scene.rescue(wait=0.0, faults=("fresh_keys",))
    assert [wrong for wrong in wrongs(scene) if "nothing to give back" in wrong]


def test_a_claim_without_the_lock_is_caught(scene: Scene) -> None:
    scene.ledger.fail("hold_answer")
    victim = scene.start(scene.victim(plan="committing"))
    scene.ledger.wait_until(lambda state: state.held == 1)
    victim.send_signal(signal.SIGSTOP)
    scene.rescue(watch=20.0, faults=("no_lock",))
    victim.send_signal(signal.SIGCONT)
    scene.ledger.release()
    ended(victim)
    assert wrongs(scene, "committing")
