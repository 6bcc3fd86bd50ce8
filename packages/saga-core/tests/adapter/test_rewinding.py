"""`unwind(since=place)` undoes the newest part of a session, which then goes on."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from saga_core import Conflict, StepInDoubt, Store, saga_scope
from saga_core.adapter import Session
from saga_core.errors import ScopeMisuse

from ..engine.world import World, declare, raising  # noqa: TID252

if TYPE_CHECKING:
    from .conftest import Door


def three(door: Door, session: Session) -> None:
    for item in "abc":
        door.charge(session, f"call-{item}", item)


@pytest.mark.parametrize("ends_well", [True, False])
def test_later_steps_are_undone_newest_first_and_the_rest_goes_on(door: Door, world: World, *, ends_well: bool) -> None:
    session = door.begin()
    three(door, session)
    report = door.do(session, "unwind", "another branch", since="call-b")
    assert [step.state for step in report.steps] == ["applied", "undone", "undone"]
    assert world.undone == ["c", "b"]
    assert world.standing == ["a"]
    door.charge(session, "call-d", "d")
    door.do(session, "commit") if ends_well else door.do(session, "unwind", "all of it")
    assert world.standing == (["a", "d"] if ends_well else [])
    assert world.sent.count("refund b") == world.sent.count("refund c") == 1
    assert session.report.is_clean


def test_an_undone_place_is_played_anew(door: Door, world: World) -> None:
    session = door.begin()
    three(door, session)
    for _ in range(2):
        door.do(session, "unwind", "another branch", since="call-b")
        three(door, session)
    assert world.standing == ["a", "b", "c"]
    assert [world.landed(item) for item in "abc"] == [1, 3, 3]
    door.do(session, "end", ValueError())
    assert world.standing == []


def test_a_place_at_which_nothing_is_recorded_is_refused(door: Door, world: World) -> None:
    session = door.begin()
    three(door, session)
    with pytest.raises(ScopeMisuse, match="nothing is recorded at 'call-x'"):
        door.do(session, "unwind", "back", since="call-x")
    assert world.undone == []
    door.do(session, "end")


def test_only_the_sessions_own_steps_are_undone(door: Door, world: World) -> None:
    with saga_scope(store=door.store):
        one, two = door.open(), door.open()
        door.charge(one, "call-1", "a")
        door.charge(two, "call-1", "b")
        door.charge(one, "call-2", "c")
        door.do(one, "unwind", "back", since="call-1")
        assert world.undone == ["c", "a"]
        door.do(one, "end")
        door.do(two, "end")
    assert world.standing == ["b"]


def test_what_could_not_be_undone_in_time_is_not_returned_as_recorded_and_stays_to_be_undone(
    door: Door, world: World
) -> None:
    session = door.begin(key="order", unwind_timeout=timedelta(0))
    three(door, session)
    report = door.do(session, "unwind", "another branch", since="call-b")
    assert [step.state for step in report.steps] == ["applied", "applied", "applied"]
    action = door.action.name
    assert session.notice() == (
        f"In effect: step 1 {action}. "
        f"Not known, a person or a later check settles it; do not repeat it: step 2 {action}; step 3 {action}."
    )
    with pytest.raises(StepInDoubt, match="is being undone"):
        door.charge(session, "call-b", "b")
    assert world.landed("b") == 1
    assert door.charge(session, "call-a", "a")["id"] == "ch_1"
    door.do(session, "suspend", "waits")
    again = door.begin(key="order")
    assert world.standing == ["a"]
    door.do(again, "end")
    assert again.report.state == "committed"
    assert world.undone == ["c", "b"]


def test_what_a_failed_savepoint_could_not_undo_in_time_is_undone_although_it_is_opened_again(
    store: Store, world: World
) -> None:
    tools = declare(world)
    session = Session.open_sync(store=store)
    with session.body("node"), pytest.raises(ZeroDivisionError), saga_scope("inner", unwind_timeout=timedelta(0)):
        tools.charge_now("a")
        raise ZeroDivisionError
    assert world.standing == ["a"]
    with session.body("node"), saga_scope("inner"):
        with pytest.raises(StepInDoubt):
            tools.charge_now("a")
        tools.charge_now("b")
    session.end_sync()
    assert world.standing == ["b"]
    assert session.report.state == "committed"


def test_what_cannot_be_undone_is_in_the_report_and_holds_up_no_other(door: Door, world: World) -> None:
    session = door.begin()
    three(door, session)
    world.on_undo["b"].append(lambda: Conflict(wrote=1, found=2))
    report = door.do(session, "unwind", "another branch", since="call-a")
    assert [step.state for step in report.steps] == ["undone", "conflict", "undone"]
    assert world.standing == ["b"]
    with pytest.raises(StepInDoubt):
        door.charge(session, "call-b", "b")
    door.do(session, "end")
    assert not session.report.is_clean
    assert len(session.report.cases) == 1


def test_an_inverse_that_fails_once_is_tried_again(door: Door, world: World) -> None:
    session = door.begin()
    three(door, session)
    world.on_undo["b"].append(raising(ConnectionError()))
    door.do(session, "unwind", "another branch", since="call-b")
    assert world.standing == ["a"]
    door.do(session, "end")


def test_a_cancelled_rewinding_is_finished_first(store: Store, world: World) -> None:
    tools = declare(world)

    async def main() -> Session:
        session = await Session.open(store=store)
        for item in "ab":
            with session.body(item):
                await tools.charge(item)
        undoing = asyncio.Event()

        async def hold() -> object:
            undoing.set()
            await asyncio.sleep(0.02)
            return None

        world.on_undo["b"].append(hold)
        task = asyncio.ensure_future(session.unwind("back", since="a"))
        await undoing.wait()
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert world.standing == []
        await session.commit()
        return session

    assert asyncio.run(main()).report.is_clean


def test_a_replay_of_a_committed_saga_is_never_rewound(door: Door, world: World) -> None:
    session = door.begin(key="order")
    part = session.savepoint("part", place="node")
    door.charge(part, "call-1", "a")
    door.do(part, "end")
    door.do(session, "end")
    replay = door.begin(key="order", if_settled="return")
    part = replay.savepoint("part", place="node")
    assert door.charge(part, "call-1", "a")["id"] == "ch_1"
    for one in (part, replay):
        with pytest.raises(ScopeMisuse, match="committed"):
            door.do(one, "unwind", "back", since="call-1")
        with pytest.raises(ScopeMisuse, match="committed"):
            door.do(one, "unwind", "back")
    assert world.standing == ["a"]
