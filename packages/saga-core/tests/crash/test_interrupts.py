"""Ctrl-C, wherever it falls, costs the world nothing: not while the process lives on, and not when it ends."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import msgspec
import pytest

from .inquest import Inquest
from .orders import Told
from .scene import EVERYTHING, ended, go_on, said, to_die_at

if TYPE_CHECKING:
    import subprocess

    from .scene import Scene


def interrupted(scene: Scene, operation: str, **orders: object) -> subprocess.Popen[bytes]:
    """Interrupt a victim whose request the ledger has taken and does not answer."""
    scene.ledger.fail("hold_answer", operation)  # pyright: ignore[reportArgumentType]
    victim = scene.start(scene.victim(**orders))
    scene.ledger.wait_until(lambda state: state.held == 1)
    victim.send_signal(signal.SIGINT)
    return victim


def told(victim: subprocess.Popen[bytes]) -> Told:
    return msgspec.json.decode(ended(victim), type=Told)


@pytest.mark.parametrize("plan", ["committing", "committing_async"])
def test_an_interrupt_in_mid_effect_undoes_what_landed(scene: Scene, plan: str) -> None:
    end = told(interrupted(scene, "charge", plan=plan))
    assert (end.error, end.state) == ("KeyboardInterrupt", "rolled_back")
    assert list(scene.ledger.state().charges.values()) == [11]
    assert Inquest.over(scene.store).wrongs(scene.ledger.state(), {1: plan}) == []


@pytest.mark.parametrize("plan", ["failing", "half"])
def test_an_interrupt_in_mid_unwind_leaves_the_rest_to_recovery(scene: Scene, plan: str) -> None:
    victim = interrupted(scene, "refund", plan=plan)
    since = time.monotonic()
    assert told(victim).error == "KeyboardInterrupt"
    assert time.monotonic() - since < 25.0, "it waited for the answer, which is given up after 30 s"
    rescued = scene.rescue(watch=20.0)
    assert Inquest.over(scene.store).wrongs(scene.ledger.state(), {1: plan}, [rescued]) == []


@pytest.mark.parametrize("plan", ["failing_async", "half_async"])
def test_a_first_interrupt_in_mid_unwind_on_a_loop_waits_for_its_end(scene: Scene, plan: str) -> None:
    victim = interrupted(scene, "refund", plan=plan)
    scene.ledger.release()
    assert told(victim).state == "rolled_back"
    assert Inquest.over(scene.store).wrongs(scene.ledger.state(), {1: plan}) == []


@pytest.mark.parametrize("plan", ["committing", "committing_async"])
def test_a_second_interrupt_ends_the_unwinding_and_recovery_goes_on(scene: Scene, plan: str) -> None:
    scene.ledger.fail("hold_answer", "refund")
    victim = interrupted(scene, "charge", plan=plan)
    scene.ledger.wait_until(lambda state: len(state.refunds) == 1)
    victim.send_signal(signal.SIGINT)
    assert told(victim).error == "KeyboardInterrupt"
    rescued = scene.rescue(watch=20.0)
    assert Inquest.over(scene.store).wrongs(scene.ledger.state(), {1: plan}, [rescued]) == []


@pytest.mark.parametrize("plan", ["committing", "committing_async"])
def test_a_second_interrupt_in_a_process_that_lives_on_leaves_no_undo_unknown(scene: Scene, plan: str) -> None:
    scene.ledger.fail("hold_answer", "refund")
    victim = interrupted(scene, "charge", plan=plan, caught=True)
    scene.ledger.wait_until(lambda state: len(state.refunds) == 1)
    victim.send_signal(signal.SIGINT)
    said(victim, "caught")
    scene.ledger.release()
    rescued = scene.rescue(watch=20.0)
    assert Inquest.over(scene.store).wrongs(scene.ledger.state(), {1: plan}, [rescued]) == []
    go_on(victim)
    ended(victim)


@pytest.mark.parametrize("plan", ["failing", "half"])
def test_while_an_interrupted_undo_still_runs_the_saga_is_not_handed_over(scene: Scene, plan: str) -> None:
    """The undo is held in this process, before it sends anything."""
    scene.ledger.fail("hold", "find")
    victim = scene.start(scene.victim(plan=plan, at="refund 1 before", act="hold", caught=True))
    scene.ledger.wait_until(lambda state: state.held == 1)
    victim.send_signal(signal.SIGINT)
    said(victim, "caught")
    first = scene.rescue()
    scene.ledger.release()
    scene.ledger.wait_until(lambda state: len(state.refunds) >= 1)
    rescued = scene.rescue(watch=20.0)
    go_on(victim)
    ended(victim)
    assert Inquest.over(scene.store).wrongs(scene.ledger.state(), {1: plan}, [rescued]) == []
    assert [one.outcome for one in first.passes[0]] == ["owned"]


@pytest.mark.parametrize(
    "plan",
    ["half", "resume", "parallel_async", *(["failing", "committing", "committing_async"] if EVERYTHING else [])],
)
def test_an_interrupt_at_any_moment_is_recovered_while_its_process_lives_on(scene: Scene, plan: str) -> None:
    """Behind a write, too: there the file knows more than the state in memory."""
    key = "k1" if plan == "resume" else None
    passed = scene.live(scene.victim(plan=plan, key=key)).moments
    moments = to_die_at(passed)
    if EVERYTHING or not plan.endswith("_async"):  # a loop takes an interrupt at its next turn, wherever it fell
        moments += [moment.partition(" (")[0] for moment in passed if moment.startswith("write")]
    chosen = dict.fromkeys(moment for moment in moments if "torn" not in moment)
    orders = [
        scene.victim(plan=plan, base=base, key=key and f"k{base}", at=moment, act="interrupt", caught=True)
        for base, moment in enumerate(chosen, 2)
    ]
    victims = {one.at: scene.start(one) for one in orders}
    for victim in victims.values():
        said(victim, "caught")
    rescued = scene.rescue(watch=5.0)
    plans = dict.fromkeys((one.base for one in orders), plan)
    wrongs = Inquest.over(scene.store).wrongs(scene.ledger.state(), plans, [rescued])
    assert (wrongs, [one.words for one in rescued.passes[-1] if one.outcome != "settled"]) == ([], []), dict(
        enumerate(victims, 2)
    )
    for victim in victims.values():
        go_on(victim)
        ended(victim)


@pytest.mark.parametrize("plan", ["failing", "failing_async"])
def test_a_hanging_undo_holds_its_caller_no_longer_than_it_was_told(scene: Scene, plan: str) -> None:
    """What remains goes on in the background, and behind the process's end by recovery."""
    scene.ledger.fail("hold_answer", "refund")
    since = time.monotonic()
    assert scene.live(scene.victim(plan=plan, unwind=0.5)).error == "Hallucinated"
    assert time.monotonic() - since < 25.0, "it waited for the answer, which is given up after 30 s"
    rescued = scene.rescue(watch=20.0)
    assert Inquest.over(scene.store).wrongs(scene.ledger.state(), {1: plan}, [rescued]) == []
