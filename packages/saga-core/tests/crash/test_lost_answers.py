"""Answers that never came: what landed late is undone, what did not land is not, and nothing is undone twice."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from .inquest import Inquest
from .scene import LONG, cut_short, ended

if TYPE_CHECKING:
    from ..ledger import Fault  # noqa: TID252 -- the one ledger stands beside this folder
    from .scene import Scene


def outcomes(scene: Scene, **orders: object) -> list[str]:
    """Recover in one process and return what the saga came to in each pass."""
    return [one.outcome for found in scene.rescue(**orders).passes for one in found]


@pytest.mark.parametrize("remote", ["probed", "unasked"])
def test_a_charge_that_lands_after_its_caller_died_is_refunded(scene: Scene, remote: str) -> None:
    cut_short(scene, "charge", "hold", remote=remote)
    first = outcomes(scene, wait=0.0)
    assert scene.ledger.state().refunds == {}
    assert first == ["waiting"]
    scene.ledger.release()
    scene.ledger.wait_until(lambda state: len(state.charges) == 1)
    assert outcomes(scene, watch=20.0, wait=0.0)[-1] == "settled"
    assert Inquest.over(scene.store).wrongs(scene.ledger.state(), {1: "failing"}) == []
    assert len(scene.ledger.state().refunds) == 1


def test_a_charge_that_never_lands_is_never_refunded(scene: Scene) -> None:
    scene.ledger.fail("drop")
    scene.die(scene.victim(at="write 3 before"))
    assert outcomes(scene, watch=20.0, wait=0.0)[-1] == "settled"
    assert scene.ledger.state().sent("refund") == []


def test_a_probe_that_lags_is_believed_only_when_it_counts(scene: Scene) -> None:
    cut_short(scene, "charge", "hold")
    rescuer = scene.start(scene.rescuer(wait=20.0))
    scene.ledger.wait_until(lambda state: bool(state.sent("find")))
    scene.ledger.release()
    assert b'"settled"' in ended(rescuer)
    assert Inquest.over(scene.store).wrongs(scene.ledger.state(), {1: "failing"}) == []
    assert len(scene.ledger.state().refunds) == 1


def test_a_later_pass_stays_with_a_saga_as_long_as_it_is_told(scene: Scene) -> None:
    cut_short(scene, "charge", "hold")
    assert outcomes(scene, wait=0.0) == ["waiting"]
    assert outcomes(scene, wait=20.0) == ["settled"]


@pytest.mark.parametrize("operation", ["charge", "refund"])
def test_a_pass_before_anything_is_due_leaves_the_file_as_it_is(scene: Scene, operation: str) -> None:
    cut_short(scene, operation, "hold")
    assert outcomes(scene, wait=0.0) == ["waiting"]
    files = scene.files()
    assert outcomes(scene, wait=0.0) == ["waiting"]
    assert scene.files() == files


@pytest.mark.parametrize("fault", ["hold", "hold_answer"])
def test_an_undo_cut_short_is_asked_about_before_it_is_sent_again(scene: Scene, fault: Fault) -> None:
    cut_short(scene, "refund", fault)
    rescuer = scene.start(scene.rescuer(wait=20.0))
    scene.ledger.wait_until(lambda state: bool(state.sent("find")))
    scene.ledger.release()
    assert b'"settled"' in ended(rescuer)
    assert Inquest.over(scene.store).wrongs(scene.ledger.state(), {1: "failing"}) == []


@pytest.mark.parametrize("fault", ["hold", "hold_answer"])
def test_a_keyed_undo_cut_short_is_sent_again_under_the_same_key(keyed_scene: Scene, fault: Fault) -> None:
    scene = keyed_scene
    cut_short(scene, "refund", fault, remote="keyed")
    assert outcomes(scene, watch=20.0, wait=0.0)[-1] == "settled"
    scene.ledger.release()
    world = scene.ledger.wait_until(lambda state: state.held == 0)
    assert Inquest.over(scene.store).wrongs(world, {1: "failing"}) == []
    assert len(world.sent("refund")) == 3
    assert len(set(world.sent("refund"))) == 2


@pytest.mark.parametrize("fault", ["hold", "hold_answer"])
def test_an_undo_that_nobody_can_ask_about_is_never_sent_again(scene: Scene, fault: Fault) -> None:
    cut_short(scene, "refund", fault, remote="blind")
    (found,) = scene.rescue().passes[0]
    assert found.outcome == "needs_human"
    assert [case for case in found.cases if "step 2 bank.charge_blind" in case]
    scene.ledger.release()
    world = scene.ledger.wait_until(lambda state: len(state.refunds) == 2)
    assert Inquest.over(scene.store).wrongs(world, {1: "failing"}) == []


def test_an_undo_whose_answer_was_lost_before_the_crash_is_not_sent_twice(scene: Scene) -> None:
    scene.ledger.fail("lose_answer", "refund")
    scene.die(scene.victim(at="write 9 after"))
    assert outcomes(scene, watch=20.0, wait=0.0)[-1] == "settled"
    assert Inquest.over(scene.store).wrongs(scene.ledger.state(), {1: "failing"}) == []


def test_a_late_undo_whose_answer_was_lost_is_not_sent_twice(scene: Scene) -> None:
    """The inverse raised: that says no more about what landed than a crash does."""
    scene.ledger.fail("late", "refund")
    victim = scene.start(scene.victim(), lands_within=LONG)
    scene.ledger.wait_until(lambda state: "find" in [name for name, *_ in state.requests[-1:]])
    scene.ledger.release()
    ended(victim)
    assert Inquest.over(scene.store).wrongs(scene.ledger.state(), {1: "failing"}) == []


def test_a_stopped_owner_is_named_and_left_alone(scene: Scene) -> None:
    scene.ledger.fail("hold_answer")
    victim = scene.start(scene.victim(plan="committing", key="k"))
    scene.ledger.wait_until(lambda state: state.held == 1)
    victim.send_signal(signal.SIGSTOP)
    files = scene.files()
    (found,) = scene.rescue().passes[0]
    assert found.outcome == "owned"
    assert f"pid {victim.pid}" in found.words
    assert scene.live(scene.victim(plan="committing", key="k")).error == "SagaBusy"
    assert scene.files() == files
    victim.send_signal(signal.SIGCONT)
    scene.ledger.release()
    ended(victim)
    assert [body.state for body in Inquest.over(scene.store).bodies[1]] == ["committed"]
    assert Inquest.over(scene.store).wrongs(scene.ledger.state(), {1: "committing"}) == []
