"""Cases: opened once, settled by people with a name and evidence, and never acted on before."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest

from saga_core import Attempt, Conflict, Landed, Saga, SagaBusy, Store, Unknown
from saga_core import cases as desk
from saga_core.cases import Case, How
from saga_core.errors import CaseConflict, NotFound
from saga_core.fold import fold
from saga_core.recovery import recover
from saga_core.stores.store import Backend
from saga_core.view import SagaView

from .world import World, declare, done, in_plain_scope, in_scope, left_open, lose

NO_WAIT = timedelta(0)


def view_of(store: Store, saga: str) -> SagaView:
    assert isinstance(store, Backend)
    reading = store.read(saga)
    assert reading is not None
    return fold(reading.records)


def state_of(store: Store, saga: str) -> str:
    return view_of(store, saga).state


def unwound(store: Store, world: World, *stuck: str, others: tuple[str, ...] = ("hotel",)) -> list[Case]:
    """Leave a saga whose failing undos are before a person."""
    tools = declare(world, money=("amount", "usd"))
    for item in stuck:
        world.on_undo[item].append(lambda: Conflict(wrote="ours", found="theirs"))

    async def body(saga: Saga) -> None:
        for item in (*others, *stuck):
            await tools.charge(item)
        raise ValueError("no")

    ended = in_scope(store, body, key=f"trip {len(desk.open_cases(store))}")
    assert ended.saga.report.state == ("needs_human" if stuck else "rolled_back")
    return [case for case in desk.open_cases(store) if case.saga_id == ended.saga.id]


def test_a_case_tells_what_a_person_must_know(store: Store, world: World) -> None:
    (case,) = unwound(store, world, "flight")
    assert (case.name, case.step, case.state, case.amount, case.currency) == ("saga", 2, "conflict", 100, "usd")
    assert case.id == f"{case.saga_id}:1"
    assert "theirs" in case.words or "conflict" in case.words
    assert desk.get(store, case.id.lower()) == case


@pytest.mark.parametrize(("how", "state"), [("undone", "rolled_back"), ("left", "left_in_place")])
def test_the_last_case_settles_the_saga(store: Store, world: World, how: How, state: str) -> None:
    first, second = unwound(store, world, "flight", "car")
    desk.resolve(store, first.id, by="ana", how="undone", evidence="cancelled by phone")
    assert (state_of(store, first.saga_id), left_open(store)) == ("needs_human", [first.saga_id])
    settled = desk.resolve(store, second.id, by="ana", how=how, evidence="ticket 4")
    assert (settled.resolved, settled.by, settled.evidence) == (how, "ana", "ticket 4")
    assert state_of(store, first.saga_id) == state
    assert (done(store), left_open(store), desk.open_cases(store)) == ([first.saga_id], [], [])
    assert world.sent.count("refund flight") == 0


def test_a_released_case_is_tried_again_by_recovery(store: Store, world: World) -> None:
    (case,) = unwound(store, world, "flight")
    desk.resolve(store, case.id, by="ana", how="retry", evidence="they gave it back")
    assert desk.open_cases(store) == []
    assert world.standing == ["flight"]
    (found,) = recover(store, wait=NO_WAIT, resume_grace=NO_WAIT).found
    assert found.outcome == "settled"
    assert world.standing == []
    assert state_of(store, case.saga_id) == "rolled_back"


def test_a_released_case_that_fails_again_is_a_new_case(store: Store, world: World) -> None:
    (case,) = unwound(store, world, "flight")
    world.on_undo["flight"].append(lambda: Conflict(wrote="ours", found="theirs again"))
    desk.resolve(store, case.id, by="ana", how="retry", evidence="try")
    recover(store, wait=NO_WAIT, resume_grace=NO_WAIT)
    (again,) = desk.open_cases(store)
    assert again.id != case.id
    assert world.standing == ["flight"]


def test_of_two_cases_one_can_be_tried_again_and_the_other_waits(store: Store, world: World) -> None:
    first, second = unwound(store, world, "flight", "car")
    desk.resolve(store, first.id, by="ana", how="retry", evidence="free again")
    recover(store, wait=NO_WAIT, resume_grace=NO_WAIT)
    assert len(world.standing) == 1
    assert [case.id for case in desk.open_cases(store)] == [second.id]


def test_recovery_leaves_a_case_alone_and_opens_none_twice(store: Store, world: World) -> None:
    (case,) = unwound(store, world, "flight")
    sent = list(world.sent)
    for _ in range(3):
        assert recover(store, wait=NO_WAIT, resume_grace=NO_WAIT).needs_person
    assert [one.id for one in desk.open_cases(store)] == [case.id]
    assert world.sent == sent


def test_who_comes_second_is_told_who_was_first(store: Store, world: World) -> None:
    (case,) = unwound(store, world, "flight")
    desk.resolve(store, case.id, by="ana", how="left", evidence="ticket 4")
    with pytest.raises(CaseConflict, match=r"settled already: left by ana \(ticket 4\)") as late:
        desk.resolve(store, case.id, by="bo", how="undone", evidence="me too")
    assert "nothing was changed" in late.value.world
    with pytest.raises(CaseConflict, match="settled already"):
        desk.claim(store, case.id, by="bo")


def test_a_claim_keeps_others_away_until_it_is_released(store: Store, world: World) -> None:
    (case,) = unwound(store, world, "flight")
    assert desk.claim(store, case.id, by="ana").claimed_by == "ana"
    assert desk.claim(store, case.id, by="ana").claimed_by == "ana"
    with pytest.raises(CaseConflict, match="ana is at it"):
        desk.claim(store, case.id, by="bo")
    with pytest.raises(CaseConflict, match="ana is at it"):
        desk.resolve(store, case.id, by="bo", how="left", evidence="x")
    assert desk.release(store, case.id).claimed_by is None
    desk.claim(store, case.id, by="bo")
    assert desk.resolve(store, case.id, by="bo", how="left", evidence="x").by == "bo"


def test_a_saga_that_runs_is_left_to_its_owner(store: Store, world: World) -> None:
    tools = declare(world, probe=lambda _: Unknown("down"), lands_within=NO_WAIT)
    world.after["flight"].append(lose)

    def body(saga: Saga) -> None:
        with pytest.raises(ConnectionError):
            tools.charge_now("flight")

    ended = in_plain_scope(store, body, key="k")
    (case,) = desk.open_cases(store)
    assert ended.saga.report.state == "committed"
    assert isinstance(store, Backend)
    claimed = store.claim(case.saga_id)
    assert claimed is not None
    with pytest.raises(SagaBusy):
        desk.resolve(store, case.id, by="ana", how="left", evidence="x")
    claimed[0].release()
    desk.resolve(store, case.id, by="ana", how="left", evidence="seen on the vendor's page")
    assert done(store) == [case.saga_id]
    assert state_of(store, case.saga_id) == "committed"


def test_a_step_in_doubt_that_a_person_releases_is_asked_about_again(store: Store, world: World) -> None:
    is_down = [True]

    def probe(attempt: Attempt) -> Landed[Any] | Unknown:
        return Unknown("down") if is_down else Landed({"id": world.find(attempt.key), "item": "flight"})

    tools = declare(world, probe=probe, lands_within=NO_WAIT)
    world.after["flight"].append(lose)

    def body(saga: Saga) -> None:
        with pytest.raises(ConnectionError):
            tools.charge_now("flight")
        raise ValueError

    in_plain_scope(store, body)
    (case,) = desk.open_cases(store)
    is_down.clear()
    desk.resolve(store, case.id, by="ana", how="retry", evidence="it is up again")
    recover(store, wait=NO_WAIT, resume_grace=NO_WAIT)
    assert (world.standing, state_of(store, case.saga_id)) == ([], "rolled_back")


@pytest.mark.parametrize("wrong", ["", "nothing", "01M8RH3TH8ZMXQC2XPM2B1AJ91:1", "01M8RH3TH8ZMXQC2XPM2B1AJ91:x"])
def test_what_is_no_case_is_said_so(store: Store, world: World, wrong: str) -> None:
    with pytest.raises(NotFound, match="no case"):
        desk.resolve(store, wrong, by="ana", how="left", evidence="x")
    with pytest.raises(NotFound, match="no case"):
        desk.get(store, wrong)


def test_nameless_and_baseless_decisions_are_refused(store: Store, world: World) -> None:
    (case,) = unwound(store, world, "flight")
    for by, how, evidence in (("", "left", "x"), ("ana", "left", " "), ("ana", "forget", "x")):
        with pytest.raises(ValueError, match="case"):
            desk.resolve(store, case.id, by=by, how=how, evidence=evidence)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="name"):
        desk.claim(store, case.id, by=" ")
    assert desk.get(store, case.id) == case


def test_a_retry_without_an_undo_is_refused(store: Store, world: World) -> None:
    def raising(_: Any) -> Any:
        raise KeyError("id")

    tools = declare(world, undo=raising)

    def body(saga: Saga) -> None:
        tools.charge_now("flight")
        raise ValueError

    in_plain_scope(store, body)
    (case,) = desk.open_cases(store)
    with pytest.raises(CaseConflict, match="no undo is recorded"):
        desk.resolve(store, case.id, by="ana", how="retry", evidence="x")
    desk.resolve(store, case.id, by="ana", how="undone", evidence="by phone")
    assert state_of(store, case.saga_id) == "rolled_back"


@pytest.mark.parametrize("seed", range(20))
def test_any_sequence_of_decisions_ends_settled_and_says_what_stands(store: Store, world: World, seed: int) -> None:
    dice = random.Random(seed)
    stuck = tuple(dice.sample(["flight", "car", "ship"], dice.randint(1, 3)))
    saga = unwound(store, world, *stuck)[0].saga_id
    kept: set[str] = set()
    while open_now := [case for case in desk.open_cases(store) if case.saga_id == saga]:
        case = dice.choice(open_now)
        how: How = dice.choice(["retry", "undone", "left"])
        item = str(case.step)
        desk.resolve(store, case.id, by="ana", how=how, evidence="seen")
        if how != "retry":
            kept.add(item)
        recover(store, wait=NO_WAIT, resume_grace=NO_WAIT)
    assert done(store) == [saga]
    view = view_of(store, saga)
    by_hand = {number for number, step in view.steps.items() if step.words.startswith("by ana")}
    assert {str(number) for number in by_hand} == kept
    assert len(world.standing) == len(by_hand), "only what a person answered for stands"
    left = any(step.state == "left_in_place" for step in view.steps.values())
    assert view.state == ("left_in_place" if left else "rolled_back")
