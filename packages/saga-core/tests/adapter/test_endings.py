"""A session ends once, as a block would, whoever ends it and whatever goes on in it."""

from __future__ import annotations

import asyncio
import gc
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from saga_core import Conflict, RollbackIncomplete, SagaClosed, Store, current_saga, saga_scope
from saga_core.adapter import Session
from saga_core.errors import ScopeMisuse

from ..engine.world import World, declare, done, eventually, left_open  # noqa: TID252

if TYPE_CHECKING:
    from .conftest import Door


def test_a_session_that_ends_well_is_committed(door: Door, world: World) -> None:
    session = door.begin()
    session.run_began()
    door.charge(session, "call-1", "a")
    session.run_ended()
    door.do(session, "end")
    assert (session.report.state, session.is_ended) == ("committed", True)
    assert done(door.store) == [session.saga.id]
    assert world.standing == ["a"]


def test_a_session_that_is_told_an_error_is_undone_and_the_error_gets_one_note(door: Door, world: World) -> None:
    session = door.begin()
    door.charge(session, "call-1", "a")
    door.charge(session, "call-2", "b")
    error = ValueError("the node failed")
    door.do(session, "end", error)
    assert world.undone == ["b", "a"]
    assert len(error.__notes__) == 1
    assert "rolled back" in error.__notes__[0]
    assert done(door.store) == [session.saga.id]


def test_a_run_that_has_not_ended_is_undone_although_nothing_failed(door: Door, world: World) -> None:
    session = door.begin()
    session.run_began()
    session.run_began()
    session.run_ended()
    door.charge(session, "call-1", "a")
    door.do(session, "end")
    assert world.standing == []
    assert session.report.state == "rolled_back"


def test_a_run_may_be_told_to_have_ended_more_often_than_it_began(door: Door, world: World) -> None:
    with saga_scope(store=door.store):
        outer = door.open()
        outer.run_began()
        inner = door.open()
        inner.run_ended()
        door.do(inner, "end")
        door.charge(outer, "call-1", "a")
        outer.run_ended()
        outer.run_ended()
        door.do(outer, "end")
    assert world.standing == ["a"]


def test_the_scope_around_an_unfinished_run_is_undone_with_it(door: Door, world: World) -> None:
    with saga_scope(store=door.store) as saga:
        door.call("before")
        session = door.open()
        session.run_began()
        door.charge(session, "call-1", "a")
    assert world.undone == ["a", "before"]
    assert saga.report.state == "rolled_back"
    door.do(session, "end")
    door.do(session, "end", ValueError())
    assert session.is_ended


def test_a_run_that_begins_after_the_end_holds_nothing_up(door: Door, world: World) -> None:
    with saga_scope(store=door.store) as saga:
        session = door.open()
        door.charge(session, "call-1", "a")
        door.do(session, "end")
        session.run_began()
    assert saga.report.state == "committed"
    assert world.standing == ["a"]


def test_a_session_in_a_scope_is_a_savepoint_of_it(door: Door, world: World) -> None:
    with saga_scope("around", store=door.store) as saga:
        with pytest.raises(ScopeMisuse):
            door.open(key="order")
        failed, kept, alone = door.open(), door.open(), door.open(new=True, store=door.store)
        assert failed.saga.id == kept.saga.id == saga.id != alone.saga.id
        for session, item in ((failed, "a"), (kept, "b"), (alone, "c")):
            door.charge(session, "call-1", item)
        door.do(failed, "end", ValueError())
        door.do(kept, "end")
        door.do(alone, "end")
        assert world.standing == ["b", "c"]
        saga.rollback("no more")
    assert world.standing == ["c"]


def test_ending_twice_changes_nothing(door: Door, world: World) -> None:
    for first, second, standing in ((None, ValueError(), ["a"]), (ValueError(), None, ["a"])):
        session = door.begin()
        door.charge(session, "call-1", "a")
        door.do(session, "end", first)
        door.do(session, "end", second)
        assert world.standing == standing
    assert [charge.back is None for charge in world.charges] == [True, False]


def test_a_session_that_was_undone_is_not_said_to_be_committed(door: Door, world: World) -> None:
    with saga_scope("around", store=door.store):
        for session in (door.begin(new=True), door.open()):
            door.charge(session, "call-1", "a")
            door.do(session, "end", ValueError())
            with pytest.raises(ScopeMisuse, match="was not committed"):
                door.do(session, "commit")
    assert world.standing == []


def test_a_session_that_was_committed_is_not_said_to_be_undone(door: Door, world: World) -> None:
    with saga_scope("around", store=door.store):
        for session in (door.begin(new=True), door.open()):
            door.charge(session, "call-1", "a")
            door.do(session, "commit")
            door.do(session, "commit")
            for since in ("call-1", None):
                with pytest.raises(ScopeMisuse, match="has ended"):
                    door.do(session, "unwind", "too late", since=since)
    assert world.standing == ["a", "a"]


def test_a_commit_is_refused_while_a_run_goes_on_or_something_else_was_decided(door: Door, world: World) -> None:
    session = door.begin(key="order")
    door.charge(session, "call-1", "a")
    session.run_began()
    with pytest.raises(ScopeMisuse, match="has not ended"):
        door.do(session, "commit")
    session.run_ended()
    session.latch("a guardrail tripped")
    with pytest.raises(ScopeMisuse, match="a guardrail tripped"):
        door.do(session, "commit")
    assert world.standing == ["a"]
    with pytest.raises(ScopeMisuse, match="a guardrail tripped"):
        door.do(session, "suspend", "waits")
    door.do(session, "end")
    assert world.standing == []
    with pytest.raises(ScopeMisuse, match="has ended"):
        door.do(session, "suspend", "waits")


def test_a_commit_does_not_undo_what_a_tool_wanted_suspended(door: Door, world: World) -> None:
    session = door.begin(key="order")
    with session.body("call-1") as saga:
        door.call("a")
        saga.suspend("the customer is asked")
    with pytest.raises(ScopeMisuse, match="the customer is asked"):
        door.do(session, "commit")
    door.do(session, "end")
    assert session.report.state == "suspended"
    assert world.standing == ["a"]


def test_a_seal_refuses_and_decides_nothing_and_a_latch_decides(door: Door, world: World) -> None:
    sealed, latched = door.begin(), door.begin()
    for session, close in ((sealed, sealed.seal), (latched, latched.latch)):
        door.charge(session, "call-1", "a")
        close("the budget is spent")
        with pytest.raises(SagaClosed, match="the budget is spent"):
            door.charge(session, "call-2", "b")
    assert (sealed.latched, latched.latched) == (None, "the budget is spent")
    door.do(sealed, "end")
    door.do(latched, "end")
    assert (sealed.report.state, latched.report.state) == ("committed", "rolled_back")
    assert world.standing == ["a"]


def test_an_ending_waits_for_a_tool_in_a_thread_and_undoes_it(door: Door, world: World) -> None:
    session = door.begin()
    started, released = threading.Event(), threading.Event()

    def work() -> object:
        started.set()
        assert released.wait(30)
        return None

    world.before["slow"].append(work)

    def tool() -> None:
        with session.body("call-1"):
            door.tools.charge_now("slow")

    thread = threading.Thread(target=tool)
    thread.start()
    assert started.wait(30)
    assert door.do(session, "drain", timedelta(0)) is False
    ending = threading.Thread(target=door.do, args=(session, "end", ValueError()))
    ending.start()
    eventually(lambda: session.is_ended)
    assert ending.is_alive()
    released.set()
    for one in (thread, ending):
        one.join(30)
    assert world.undone == ["slow"]
    assert door.do(session, "drain", timedelta(0)) is True
    assert session.report.is_clean


def test_an_error_that_comes_while_a_good_end_waits_for_a_tool_is_heeded(door: Door, world: World) -> None:
    session = door.begin()
    started, released = threading.Event(), threading.Event()

    def work() -> object:
        started.set()
        assert released.wait(30)
        return None

    world.before["slow"].append(work)

    def tool() -> None:
        with session.body("call-1"):
            door.tools.charge_now("slow")

    refusals: list[ScopeMisuse] = []

    def commit() -> None:
        with pytest.raises(ScopeMisuse, match="was not committed") as refused:
            door.do(session, "commit")
        refusals.append(refused.value)

    threads = [threading.Thread(target=tool), threading.Thread(target=commit)]
    threads[0].start()
    assert started.wait(30)
    threads[1].start()
    eventually(lambda: session.is_ended)
    threads.append(threading.Thread(target=door.do, args=(session, "end", ValueError())))
    threads[2].start()
    eventually(lambda: session.latched is not None)
    released.set()
    for one in threads:
        one.join(30)
    assert len(refusals) == 1
    assert world.undone == ["slow"]
    assert session.report.state == "rolled_back"


def test_the_second_of_two_endings_returns_when_all_is_undone(door: Door, world: World) -> None:
    session = door.begin()
    door.charge(session, "call-1", "a")
    undoing, go_on = threading.Event(), threading.Event()
    seen: list[list[str]] = []

    def hold() -> object:
        undoing.set()
        assert go_on.wait(30)
        return None

    world.on_undo["a"].append(hold)
    first = threading.Thread(target=door.do, args=(session, "end", ValueError()))
    first.start()
    assert undoing.wait(30)

    def end_too() -> None:
        door.do(session, "end")
        seen.append(world.standing)

    second = threading.Thread(target=end_too)
    second.start()
    second.join(0.05)
    assert seen == []
    go_on.set()
    first.join(30)
    second.join(30)
    assert seen == [[]]


def test_an_inverse_that_ends_its_own_session_does_not_wait_for_itself(store: Store, world: World) -> None:
    tools = declare(world, sync_inverse=True)
    session = Session.open_sync(store=store)

    def end_again() -> object:
        session.end_sync()
        return None

    with session.body("call-1"):
        tools.charge_now("a")
    world.on_undo["a"].append(end_again)
    session.end_sync(ValueError())
    assert world.standing == []
    assert session.report.is_clean


def test_many_endings_at_once_undo_once(store: Store, world: World) -> None:
    tools = declare(world)

    async def main() -> None:
        session = await Session.open(store=store)
        with session.body("call-1"):
            await tools.charge("a")
        await asyncio.gather(*(session.end(ValueError()) for _ in range(10)))
        assert world.standing == []

    asyncio.run(main())
    assert world.sent == ["charge a", "refund a"]


@pytest.mark.parametrize("kind", ["committed", "rolled back"])
def test_an_ending_after_that_of_the_scope_around_it_changes_nothing(door: Door, world: World, kind: str) -> None:
    with saga_scope("around", store=door.store) as saga:
        session = door.open()
        door.charge(session, "call-1", "a")
        if kind == "rolled back":
            saga.rollback("no more")
    standing = ["a"] if kind == "committed" else []
    assert world.standing == standing
    assert session.is_ended
    door.do(session, "end", ValueError())
    door.do(session, "end")
    session.latch("too late")
    with pytest.raises(SagaClosed):
        door.charge(session, "call-2", "b")
    assert world.standing == standing


def test_a_session_that_a_tool_opened_is_ended_after_the_tools_body(door: Door, world: World) -> None:
    session = door.begin()
    with session.body("call-1"):
        inner = door.open()
    assert not inner.is_ended
    door.charge(inner, "call-1", "a")
    door.do(inner, "end", ValueError("the inner run failed"))
    assert world.standing == []
    door.do(session, "end")


class Watching:
    """What an adapter has beside its session."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def look(self) -> None:
        assert self.session.latched


def test_a_session_that_is_dropped_is_undone_in_the_background(door: Door, world: World) -> None:
    session = door.begin()
    saga = session.saga.id
    door.charge(session, "call-1", "a")
    watching = Watching(session)
    session.on_latch(watching.look)
    del session, watching
    gc.collect()
    world.wait_until(lambda: world.standing == [])
    eventually(lambda: done(door.store) == [saga])


def test_what_cannot_be_undone_is_raised_only_where_there_is_no_error(door: Door, world: World) -> None:
    world.on_undo["a"] = [lambda: Conflict(wrote=1, found=2)] * 3
    for error in (None, ValueError()):
        session = door.begin()
        door.charge(session, "call-1", "a")
        session.latch("no more")
        if error is None:
            with pytest.raises(RollbackIncomplete):
                door.do(session, "end")
        else:
            door.do(session, "end", error)
            assert "needs human" in error.__notes__[0]
        assert not session.report.is_clean
    session = door.begin()
    door.charge(session, "call-1", "a")
    assert door.do(session, "unwind", "no more").state == "needs_human"
    assert len(world.standing) == len(left_open(door.store)) == 3


def test_a_cancelled_ending_is_finished_first(store: Store, world: World) -> None:
    tools = declare(world)

    async def main() -> None:
        session = await Session.open(store=store)
        with session.body("call-1"):
            await tools.charge("a")
        undoing = asyncio.Event()

        async def hold() -> object:
            undoing.set()
            await asyncio.sleep(0.02)
            return None

        world.on_undo["a"].append(hold)
        task = asyncio.ensure_future(session.unwind("no more"))
        await undoing.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert world.standing == []
        assert session.report.is_clean

    asyncio.run(main())


def test_an_interrupted_tool_is_undone_and_the_interrupt_comes_out(door: Door, world: World) -> None:
    def interrupt() -> object:
        raise KeyboardInterrupt

    session = door.begin()
    door.charge(session, "call-1", "a")
    world.after["b"].append(interrupt)
    tools: Any = declare(world, probe=True, lands_within=timedelta(0))
    with pytest.raises(KeyboardInterrupt) as caught, session.body("call-2"):
        tools.charge_now("b")
    door.do(session, "end", caught.value)
    assert world.undone == ["b", "a"]
    assert len(caught.value.__notes__) == 1
    assert current_saga() is None


def test_whoever_asked_is_told_when_it_is_decided_that_a_session_unwinds(door: Door) -> None:
    session, told = door.begin(), list[str]()
    inner = session.savepoint("inner")
    session.on_latch(lambda: told.append("outer"))
    inner.on_latch(lambda: told.append("inner"))
    inner.latch("only this part")
    assert told == ["inner"]
    with session.body("call-1") as saga:
        saga.rollback("a tool wants it")
    assert "outer" in told
    late = list[str]()
    session.on_latch(lambda: late.append("at once"))
    assert late == ["at once"]
    door.do(session, "end", None)
