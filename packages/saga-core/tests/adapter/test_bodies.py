"""A body makes the session ambient for one run of a tool, wherever that is, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from saga_core import NoActiveSaga, SagaClosed, Store, current_saga, saga_scope
from saga_core.adapter import Session

from ..engine.world import World, declare  # noqa: TID252

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator

    from .conftest import Door


def test_nothing_is_ambient_before_and_behind_a_body(door: Door, world: World) -> None:
    session = door.begin()
    with pytest.raises(NoActiveSaga):
        door.call("outside")
    for place in (None, "call-1"):
        with session.body(place) as saga:
            found = current_saga()
            assert found is not None
            assert (found.id, found.name) == (saga.id, saga.name) == (session.saga.id, "door")
        assert current_saga() is None
    door.do(session, "end")
    assert world.sent == []


def test_a_body_in_a_thread_without_the_context_records_in_the_session(door: Door, world: World) -> None:
    session = door.begin()
    with ThreadPoolExecutor(4) as pool:
        for made in [pool.submit(door.charge, session, f"call-{number}", f"item-{number}") for number in range(8)]:
            made.result(30)
    assert len(world.standing) == 8
    door.do(session, "end", ValueError("the run failed"))
    assert world.standing == []
    assert session.report.is_clean


def test_bodies_of_tasks_on_one_loop_do_not_meet(store: Store, world: World) -> None:
    tools = declare(world)

    async def main() -> tuple[Session, Session]:
        one, two = await Session.open("one", store=store), await Session.open("two", store=store)
        turn = asyncio.Barrier(2)

        async def work(session: Session, item: str) -> None:
            with session.body("call-1"):
                await turn.wait()
                await tools.charge(item)
                await turn.wait()
                found = current_saga()
                assert found is not None
                assert found.id == session.saga.id

        await asyncio.gather(work(one, "a"), work(two, "b"))
        await one.end(ValueError())
        await two.end()
        return one, two

    one, two = asyncio.run(main())
    assert world.standing == ["b"]
    assert (one.report.state, two.report.state) == ("rolled_back", "committed")


def test_a_body_in_a_generator_that_is_driven_from_several_contexts_leaves_nothing_behind(
    store: Store, world: World
) -> None:
    tools = declare(world)
    session = Session.open_sync(store=store)

    def tool() -> Generator[str]:
        with session.body("call-1"):
            yield tools.charge_now("a")["id"]
            yield tools.charge_now(session.saga, "b")["id"]

    running = tool()
    first = contextvars.copy_context()
    assert first.run(next, running) == "ch_1"
    assert next(running) == "ch_2"
    assert next(running, None) is None
    assert current_saga() is None
    with pytest.raises(NoActiveSaga):
        tools.charge_now("c")
    session.end_sync()
    with pytest.raises((NoActiveSaga, SagaClosed)):
        first.run(tools.charge_now, "late")
    assert world.standing == ["a", "b"]


def test_a_body_in_an_asynchronous_generator_takes_the_steps_of_its_reader_and_no_later_ones(
    store: Store, world: World
) -> None:
    tools = declare(world)

    async def main() -> None:
        session = await Session.open(store=store)

        async def tool() -> AsyncIterator[str]:
            with session.body("call-1"):
                for item in "ab":
                    yield (await tools.charge(item))["id"]

        assert [made async for made in tool()] == ["ch_1", "ch_2"]
        with pytest.raises(NoActiveSaga):
            await tools.charge("c")
        await session.end()

    asyncio.run(main())
    assert world.standing == ["a", "b"]


def test_a_scope_inside_a_body_that_is_left_behind_it_leaves_nothing_ambient(store: Store, world: World) -> None:
    tools = declare(world)
    session = Session.open_sync(store=store)
    body, scope = session.body("call-1"), saga_scope("inner")
    with body:
        scope.__enter__()
        tools.charge_now("a")
    scope.__exit__(None, None, None)
    assert current_saga() is None
    session.end_sync()
    assert world.standing == ["a"]


def test_a_body_that_outlives_the_scope_around_it_makes_nothing_ambient_that_is_over(
    store: Store, world: World
) -> None:
    tools = declare(world)
    session = Session.open_sync(store=store)
    for place in (None, "call-1"):
        scope, body = saga_scope("around", store=store), session.body(place)
        scope.__enter__()
        body.__enter__()
        scope.__exit__(None, None, None)
        body.__exit__(None, None, None)
        assert current_saga() is None
        with pytest.raises(NoActiveSaga):
            tools.charge_now("a")
    session.end_sync()
    assert world.sent == []


def test_a_savepoint_that_the_tool_opened_takes_the_steps_of_bodies_inside_it(door: Door, world: World) -> None:
    session = door.begin()
    with session.body("node"):
        door.call("before")
        with pytest.raises(ZeroDivisionError), saga_scope("inner"):
            door.charge(session, "call-1", "a")
            raise ZeroDivisionError
    assert world.standing == ["before"]
    door.do(session, "end")
    assert world.standing == ["before"]


def test_a_thread_started_in_a_body_that_is_over_still_belongs_to_the_savepoint_around_it(
    store: Store, world: World
) -> None:
    tools = declare(world)
    session = Session.open_sync(store=store)
    with session.body("node"), pytest.raises(ZeroDivisionError), saga_scope("inner"):
        with session.body("call-1"):
            context = contextvars.copy_context()

        def work() -> None:
            with session.body("call-2"):
                tools.charge_now("a")

        context.run(work)
        assert world.standing == ["a"]
        raise ZeroDivisionError
    assert world.standing == []
    session.end_sync()


def test_rollback_inside_a_body_is_the_sessions(door: Door, world: World) -> None:
    session = door.begin()
    door.charge(session, "call-1", "a")
    with session.body("call-2") as saga:
        saga.rollback("the address is wrong")
        with pytest.raises(SagaClosed, match="the address is wrong"):
            door.call("b")
    assert session.latched == "the address is wrong"
    door.do(session, "end")
    assert world.landed("b") == 0
    assert world.standing == []


@pytest.mark.parametrize("place", [None, "call-2"])
def test_a_late_tool_of_a_session_that_has_ended_is_refused(door: Door, world: World, place: str | None) -> None:
    with saga_scope("around", store=door.store):
        session = door.open()
        door.charge(session, "call-1", "a")
        entered, over = threading.Event(), threading.Event()
        refusals: list[SagaClosed] = []

        def late() -> None:
            with session.body(place):
                entered.set()
                assert over.wait(30)
                with pytest.raises(SagaClosed) as refused:
                    door.call("late")
                refusals.append(refused.value)

        thread = threading.Thread(target=late)
        thread.start()
        assert entered.wait(30)
        door.do(session, "end")
        over.set()
        thread.join(30)
        with pytest.raises(SagaClosed):
            door.charge(session, place, "later")
    assert len(refusals) == 1
    assert world.standing == ["a"]
    assert len(world.charges) == 1
