"""A killed saga with a key goes on where it was, and recovery keeps its hands off meanwhile."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec
import pytest

from .inquest import Inquest
from .orders import KEPT, Rescued, Told
from .scene import ended, go_on, said

if TYPE_CHECKING:
    from .scene import Scene

AT_WORK = "charge 2 before"


def outcome(rescued: Rescued) -> list[str]:
    return [one.outcome for one in rescued.passes[-1]]


@pytest.mark.parametrize(
    ("plan", "again", "remote"),
    [
        ("resume", "resume", "probed"),
        ("resume", "resume", "replayed"),
        ("suspending", "resume", "probed"),
        ("half", "half", "probed"),
    ],
)
def test_whatever_the_moment_of_death_a_resumed_run_charges_once_and_commits(
    keyed_scene: Scene, plan: str, again: str, remote: str
) -> None:
    scene = keyed_scene
    first = scene.victim(plan=plan, key="k1", remote=remote)
    orders = [
        msgspec.structs.replace(first, base=base, key=f"k{base}", at=moment)
        for base, moment in enumerate(scene.moments(first), 2)
    ]
    scene.die_all(orders)
    resuming = [msgspec.structs.replace(one, plan=again, at="") for one in [first, *orders]]
    ends = dict(zip(["", *(one.at for one in orders)], scene.live_all(resuming), strict=True))
    scene.rescue()  # a saga that died before it had its key is not resumed; it did nothing
    world = scene.ledger.state()
    assert {at: told.error for at, told in ends.items() if told.error not in {"", "SagaClosed"}} == {}
    plans = dict.fromkeys((one.base for one in [first, *orders]), again)
    assert Inquest.over(scene.store).wrongs(world, plans) == []
    assert sorted(world.standing.values()) == sorted(base * 10 + step for base in plans for step in KEPT[again])
    assert len(world.refunds) == len(world.charges) - len(world.standing)


def test_whatever_the_moment_of_its_death_a_resumed_run_can_be_resumed_again(scene: Scene) -> None:
    """The second charge is in doubt when the first resumer comes."""
    dying = scene.victim(plan="resume", key="k1", at="charge 2 after")
    scene.die(dying)
    moments = scene.moments(msgspec.structs.replace(dying, at=""))
    orders = [msgspec.structs.replace(dying, base=base, key=f"k{base}") for base, _ in enumerate(moments, 2)]
    scene.die_all(orders)
    scene.die_all(msgspec.structs.replace(one, at=moment) for one, moment in zip(orders, moments, strict=True))
    ends = scene.live_all(msgspec.structs.replace(one, at="") for one in orders)
    world = scene.ledger.state()
    assert {told.error for told in ends} <= {"", "SagaClosed"}
    bases = [1, *(one.base for one in orders)]
    assert Inquest.over(scene.store).wrongs(world, dict.fromkeys(bases, "resume")) == []
    assert sorted(world.charges.values()) == [base * 10 + step for base in bases for step in (1, 2)]


def test_a_run_that_died_behind_its_commit_record_gives_its_results_again(scene: Scene) -> None:
    scene.die(scene.victim(plan="resume", key="k", at="move 1 before"))
    told = scene.live(scene.victim(plan="resume", key="k", if_settled="return"))
    assert (told.error, told.results) == ("", ["ch_1", "ch_2"])
    assert len(scene.ledger.state().charges) == 2


def test_recorded_positions_return_their_results(scene: Scene) -> None:
    scene.die(scene.victim(plan="resume", key="k", at="write 5 after"))
    told = scene.live(scene.victim(plan="resume", key="k"))
    assert told.results == ["ch_1", "ch_2"]
    assert list(scene.ledger.state().charges) == ["ch_1", "ch_2"]


def test_other_arguments_at_a_recorded_position_are_refused_and_all_is_undone(scene: Scene) -> None:
    scene.die(scene.victim(plan="resume", key="k", at=AT_WORK))
    told = scene.live(scene.victim(plan="resume", key="k", base=2))
    assert (told.error, told.state) == ("StepMismatch", "rolled_back")
    world = scene.ledger.state()
    assert list(world.charges.values()) == [11]
    assert world.standing == {}


@pytest.mark.parametrize("deaths", [["write 3 before"], ["write 3 before", "charge 1 before"]])
def test_recovery_leaves_a_killed_keyed_saga_to_whoever_may_resume_it(scene: Scene, deaths: list[str]) -> None:
    for moment in deaths:
        scene.die(scene.victim(plan="resume", key="k", at=moment))
    files = scene.files()
    assert outcome(scene.rescue(grace=60.0)) == ["not_due"]
    assert scene.files() == files
    assert outcome(scene.rescue(grace=0.0, watch=20.0)) == ["settled"]
    assert scene.ledger.state().standing == {}


def test_the_next_saga_of_a_key_begins_anew_behind_a_recovered_one(scene: Scene) -> None:
    scene.die(scene.victim(plan="resume", key="k", at=AT_WORK))
    scene.rescue(watch=20.0)
    told = scene.live(scene.victim(plan="resume", key="k", base=2))
    assert (told.error, told.state) == ("", "committed")
    assert sorted(scene.ledger.state().standing.values()) == [21, 22]


def test_a_key_whose_log_is_gone_is_not_begun_anew(scene: Scene) -> None:
    scene.die(scene.victim(plan="resume", key="k", at=AT_WORK))
    (log,) = scene.store.glob("open/*.log")
    log.unlink()
    assert scene.live(scene.victim(plan="resume", key="k")).error == "SagaUnsettled"
    assert list(scene.ledger.state().charges.values()) == [11]


def test_a_saga_that_died_in_mid_unwind_is_not_resumed(scene: Scene) -> None:
    scene.die(scene.victim(plan="failing", key="k", at="refund 2 before"))
    assert scene.live(scene.victim(plan="failing", key="k")).error == "SagaUnsettled"
    assert outcome(scene.rescue(grace=60.0, watch=20.0)) == ["settled"]
    assert Inquest.over(scene.store).wrongs(scene.ledger.state(), {1: "failing"}) == []


@pytest.mark.parametrize("first", ["resumer", "recoverer"])
def test_of_two_recoverers_and_a_resumer_one_wins_and_the_others_say_so(scene: Scene, first: str) -> None:
    """The winner is held in its first question to the ledger while the others try."""
    scene.die(scene.victim(plan="resume", key="k", at="charge 2 after"))
    scene.ledger.fail("hold_answer", "find")
    resumer = scene.start(scene.victim(plan="resume", key="k", at="start", act="pause"))
    recoverers = [scene.start(scene.rescuer(is_held=True)) for _ in range(2)]
    said(resumer, "start")
    for process in recoverers:
        said(process, "ready")
    order = [resumer, *recoverers] if first == "resumer" else [recoverers[0], resumer, recoverers[1]]
    go_on(order[0])
    scene.ledger.wait_until(lambda state: state.held == 1)
    files = scene.files()
    losers = order[1:]
    for process in losers:
        go_on(process)
    answers = {process.pid: ended(process) for process in losers}
    assert scene.files() == files
    scene.ledger.release()
    answers[order[0].pid] = ended(order[0])
    told = msgspec.json.decode(answers[resumer.pid], type=Told)
    rescues = [msgspec.json.decode(answers[process.pid], type=Rescued) for process in recoverers]
    outcomes = sorted(one.outcome for rescued in rescues for one in rescued.passes[-1])
    if first == "resumer":
        assert (told.error, told.state, outcomes) == ("", "committed", ["owned", "owned"])
    else:
        assert (told.error, outcomes) == ("SagaBusy", ["owned", "settled"])
    assert Inquest.over(scene.store).wrongs(scene.ledger.state(), {1: "resume"}, rescues) == []


def test_of_eight_at_once_exactly_one_has_the_saga(scene: Scene) -> None:
    """Nobody is held: whoever wins, the ledger has each charge once and either all of them or none stand."""
    scene.die(scene.victim(plan="resume", key="k", at="charge 2 after"))
    resumers = [scene.start(scene.victim(plan="resume", key="k", at="start", act="pause")) for _ in range(4)]
    recoverers = [scene.start(scene.rescuer(is_held=True, watch=20.0)) for _ in range(4)]
    for process in resumers:
        said(process, "start")
    for process in recoverers:
        said(process, "ready")
    for process in [*resumers, *recoverers]:
        go_on(process)
    told = [json.loads(ended(process)) for process in resumers]
    for process in recoverers:
        ended(process)
    assert {one["error"] for one in told} <= {"", "SagaBusy", "SagaUnsettled", "SagaClosed"}
    world = scene.ledger.state()
    assert sorted(world.standing.values()) in ([11, 12], [])
    assert Inquest.over(scene.store).wrongs(world, {1: "resume"}) == []
