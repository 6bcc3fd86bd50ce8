"""A place is a call's identity: a body that is run again is answered from the log."""

from __future__ import annotations

import pytest

from saga_core import StepInDoubt, StepMismatch, Store, irreversible, saga_scope
from saga_core.adapter import Session

from ..engine.world import World, declare, decline, lose, unique  # noqa: TID252
from .conftest import Door

HOSTILE = [
    "a/b",
    "a.b",
    "a%2Fb",
    "a%2Eb",
    "a@b",
    "a#1",
    "a+b",
    "a-1",
    "1",
    ".",
    "..",
    "/",
    "@",
    "#",
    "-",
    "+",
    " ",
    "a b",
    "a\nb",
    "\0",
    "ä",
    "日本語",
    "call_" + "x" * 5000,
    "1.x-1/charge#1",
]


def test_a_body_that_is_run_again_returns_what_is_recorded(door: Door, world: World) -> None:
    session = door.begin()
    first = door.charge(session, "call-1", "a")
    assert door.charge(session, "call-1", "a") == first
    assert door.charge(session, "call-2", "a") != first
    assert world.sent == ["charge a", "charge a"]
    door.do(session, "end")
    assert world.standing == ["a", "a"]


def test_a_body_run_again_with_other_arguments_is_refused(door: Door, world: World) -> None:
    session = door.begin()
    door.charge(session, "call-1", "a")
    with pytest.raises(StepMismatch):
        door.charge(session, "call-1", "b")
    door.do(session, "end")
    assert world.standing == ["a"]


def test_what_did_not_land_is_tried_anew(store: Store, world: World) -> None:
    from ..engine.world import Declined  # noqa: PLC0415, TID252

    tools = declare(world, not_landed=Declined)
    for form in ("sync", "async"):
        door = Door(form, store, tools)
        world.before["a"].append(decline)
        session = door.begin()
        with pytest.raises(Declined):
            door.charge(session, "call-1", "a")
        door.charge(session, "call-1", "a")
        door.charge(session, "call-1", "a")
        door.do(session, "end")
    assert world.standing == ["a", "a"]
    assert len({charge.key for charge in world.charges}) == 2


def test_what_may_have_landed_is_not_sent_again(door: Door, world: World) -> None:
    world.after["a"].append(lose)
    session = door.begin()
    with pytest.raises(ConnectionError):
        door.charge(session, "call-1", "a")
    with pytest.raises(StepInDoubt):
        door.charge(session, "call-1", "a")
    with pytest.raises(StepInDoubt):
        door.charge(session, "call-2", "a")
    assert world.landed("a") == 1
    door.do(session, "end", ValueError())


def test_two_calls_of_one_action_in_a_body_are_two_steps(door: Door, world: World) -> None:
    session = door.begin()
    runs: list[list[str]] = []
    for _ in range(2):
        with session.body("call-1"):
            runs.append([door.call("a")["id"], door.call("a")["id"]])
    assert runs == [["ch_1", "ch_2"], ["ch_1", "ch_2"]]
    door.do(session, "end", ValueError())
    assert world.undone == ["a"]
    assert world.standing == []


@pytest.mark.parametrize("place", HOSTILE, ids=lambda place: ascii(place[:12]))
def test_a_hostile_place_is_a_place_like_any_other(world: World, store: Store, place: str) -> None:
    tools = declare(world)
    door = Door("sync", store, tools)
    session = door.begin(key="order")
    first = door.charge(session, place, "a")
    assert door.charge(session, place, "a") == first
    with session.body(place), saga_scope("inner"):
        tools.charge_now("b")
    part = session.savepoint("part", place=place + "x")
    door.charge(part, place, "c")
    door.do(part, "end")
    found = session.recorded(place, tools.charge_now)
    assert found is not None
    assert found.state == "applied"
    door.do(session, "suspend", "waits")
    again = door.begin(key="order")
    assert door.charge(again, place, "a") == first
    assert len(world.charges) == 3
    door.do(again, "unwind", "changed my mind", since=place)
    assert world.standing == []
    door.do(again, "end")
    assert again.report.is_clean


def test_no_two_places_are_one(world: World, store: Store) -> None:
    tools = declare(world)
    session = Session.open_sync(store=store)
    for place in HOSTILE:
        with session.body(place):
            tools.charge_now("a")
            with session.body(place), saga_scope("inner"):
                tools.charge_now("a")
    assert len(world.charges) == 2 * len(HOSTILE)
    session.end_sync(ValueError())
    assert world.standing == []


@pytest.mark.parametrize("place", ["", "\ud800"])
def test_what_is_no_place_is_refused_before_anything_runs(world: World, store: Store, place: str) -> None:
    session = Session.open_sync(store=store)
    with pytest.raises(ValueError):  # noqa: PT011 -- the words are Python's own for the second
        session.body(place)
    with pytest.raises(ValueError):  # noqa: PT011
        session.recorded(place, declare(world).charge)
    session.end_sync()


def test_a_framework_inside_a_tool_may_count_its_calls_from_one_again(door: Door, world: World) -> None:
    session = door.begin()
    for _ in range(2):
        with session.body("call-1"):
            door.call("a")
            door.charge(session, "call-1", "a")
            door.charge(session, "call-2", "a")
        door.charge(session, "call-2", "a")
    assert len(world.charges) == 4
    door.do(session, "unwind", "back", since="call-1")
    assert world.standing == []
    door.do(session, "end")


def test_unplaced_bodies_are_found_again_by_their_order(door: Door, world: World) -> None:
    session = door.begin(key="order")
    made = [door.charge(session, None, "a"), door.charge(session, None, "b")]
    door.do(session, "suspend", "waits")
    again = door.begin(key="order")
    assert [door.charge(again, None, "a"), door.charge(again, None, "b")] == made
    door.charge(again, None, "a")
    door.do(again, "end")
    assert world.standing == ["a", "b", "a"]


def test_a_savepoint_with_a_place_finds_its_steps_again(door: Door, world: World) -> None:
    session = door.begin(key="order")
    for _ in range(2):
        part = session.savepoint("part", place="node-1")
        door.charge(part, None, "a")
        door.charge(part, "call-1", "b")
        door.do(part, "end")
    assert world.standing == ["a", "b"]
    door.do(session, "suspend", "waits")
    session = door.begin(key="order")
    part = session.savepoint("part", place="node-1")
    door.charge(part, None, "a")
    door.do(part, "end", ValueError("the node failed"))
    assert world.undone == ["b", "a"]
    part = session.savepoint("part", place="node-1")
    door.charge(part, None, "a")
    door.do(part, "end")
    door.do(session, "end")
    assert world.standing == ["a"]


def test_what_is_recorded_is_told(door: Door, world: World) -> None:
    session = door.begin()
    assert session.recorded("call-1", door.action) is None
    made = door.charge(session, "call-1", "a")
    assert session.recorded("call-1", door.action) == ("applied", made)
    assert session.recorded("call-1", declare(world).charge) is None
    assert session.recorded("call-2", door.action) is None
    door.do(session, "unwind", "back", since="call-1")
    assert session.recorded("call-1", door.action) == ("undone", None)
    made = door.charge(session, "call-1", "a")
    assert session.recorded("call-1", door.action) == ("applied", made)
    world.after["b"].append(lose)
    with pytest.raises(ConnectionError):
        door.charge(session, "call-2", "b")
    assert session.recorded("call-2", door.action) == ("in_doubt", None)
    door.do(session, "end", ValueError())


def test_a_held_call_is_staged_in_a_body_and_sent_when_the_session_commits(door: Door, world: World) -> None:
    @irreversible(unique("mail"), hold=True)
    def mail(to: str) -> None:
        world.charge(to, "")

    session = door.begin(key="order")
    with session.body("call-1"):
        given = mail("ana")
    assert session.recorded("call-1", mail) == ("held", given)
    assert f"Staged, in effect once the run has committed: step 1 {mail.name}." in session.notice()
    with session.body("call-2"):
        mail("bo")
    door.do(session, "unwind", "back", since="call-2")
    assert session.recorded("call-2", mail) == ("not_landed", None)
    door.do(session, "suspend", "waits")
    session = door.begin(key="order")
    with session.body("call-1"):
        assert mail("ana") == given
    assert world.sent == []
    door.do(session, "end")
    assert world.standing == ["ana"]
    assert session.report.is_clean
