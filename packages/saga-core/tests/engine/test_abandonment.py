"""Streams, tasks, loops and handles that nobody ends: what landed in their scopes is undone all the same."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncGenerator, Generator
from datetime import timedelta
from typing import Any

import pytest

from saga_core import Saga, Store, saga_scope

from .world import World, declare, done, eventually

SOON = timedelta(milliseconds=50)


class Gate:
    """A point at which an effect or an inverse stands until a test lets it go on."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.go = asyncio.Event()

    async def __call__(self) -> None:
        self.reached.set()
        await self.go.wait()


def stream(store: Store, world: World, sagas: list[Saga], tools: Any) -> AsyncGenerator[str]:
    async def found() -> AsyncGenerator[str]:
        async with saga_scope(store=store) as saga:
            sagas.append(saga)
            for item in ("hotel", "flight", "car"):
                await tools.charge(saga, item)
                yield item

    return found()


@pytest.mark.parametrize("how", ["aclose", "del", "end of the loop"])
def test_an_abandoned_stream_is_undone(store: Store, world: World, how: str) -> None:
    tools = declare(world)
    sagas: list[Saga] = []

    async def main() -> None:
        chunks = stream(store, world, sagas, tools)
        assert await anext(chunks) == "hotel"
        assert await anext(chunks) == "flight"
        if how == "aclose":
            await chunks.aclose()
            assert world.undone == ["flight", "hotel"]
        elif how == "del":
            del chunks
            gc.collect()
            await asyncio.to_thread(world.wait_until, lambda: world.standing == [])

    asyncio.run(main())
    gc.collect()
    world.wait_until(lambda: world.standing == [])
    eventually(lambda: done(store) == [sagas[0].id])
    assert world.undone == ["flight", "hotel"]


def test_a_stream_read_to_its_end_is_kept(store: Store, world: World) -> None:
    tools = declare(world)
    sagas: list[Saga] = []

    async def main() -> None:
        assert [item async for item in stream(store, world, sagas, tools)] == ["hotel", "flight", "car"]

    asyncio.run(main())
    assert world.standing == ["hotel", "flight", "car"]
    assert sagas[0].report.state == "committed"


def test_a_stream_consumed_in_several_contexts_works(store: Store, world: World) -> None:
    """Each step of the stream runs in another task; there only the handle finds the saga."""
    tools = declare(world)
    sagas: list[Saga] = []

    async def main() -> None:
        chunks = stream(store, world, sagas, tools)
        for _ in range(2):
            await asyncio.ensure_future(anext(chunks))
        await asyncio.ensure_future(chunks.athrow(ValueError("mine")))

    with pytest.raises(ValueError, match="mine"):
        asyncio.run(main())
    assert world.standing == []


def test_a_stream_whose_loop_is_gone_is_undone_by_the_janitor(store: Store, world: World) -> None:
    tools = declare(world)
    sagas: list[Saga] = []
    loop = asyncio.new_event_loop()
    chunks = stream(store, world, sagas, tools)
    loop.run_until_complete(anext(chunks))
    loop.close()
    del chunks
    gc.collect()
    world.wait_until(lambda: world.standing == [], 5)
    eventually(lambda: done(store) == [sagas[0].id])


@pytest.mark.parametrize("where", ["body", "effect"])
def test_a_task_whose_loop_is_gone_is_undone_by_the_janitor(store: Store, world: World, where: str) -> None:
    """A closed loop destroys its pending tasks: the scope is left where no loop runs."""
    tools = declare(world, probe=True, lands_within=SOON)
    sagas: list[Saga] = []

    async def scope(gate: Gate) -> None:
        async with saga_scope(store=store) as saga:
            sagas.append(saga)
            await tools.charge("hotel")
            await tools.charge("flight")
            await gate()

    def run() -> None:
        gate = Gate()
        if where == "effect":
            world.after["flight"].append(gate)
        loop = asyncio.new_event_loop()
        task = loop.create_task(scope(gate))
        loop.run_until_complete(gate.reached.wait())
        loop.close()
        assert not task.done()

    run()
    gc.collect()
    world.wait_until(lambda: world.standing == [], 5)
    eventually(lambda: done(store) == [sagas[0].id])


def test_an_ending_whose_loop_is_closed_under_it_is_taken_over(store: Store, world: World) -> None:
    """Nobody collects anything here: the loop is closed, and the task of the ending is still referred to."""
    tools = declare(world, keyed=True)
    sagas: list[Saga] = []
    gate = Gate()
    world.on_undo["flight"].append(gate)

    async def scope() -> None:
        async with saga_scope(store=store, drain_timeout=SOON, unwind_timeout=SOON) as saga:
            sagas.append(saga)
            await tools.charge("hotel")
            await tools.charge("flight")
            raise ZeroDivisionError

    loop = asyncio.new_event_loop()
    task = loop.create_task(scope())
    loop.run_until_complete(gate.reached.wait())
    loop.close()
    world.wait_until(lambda: world.standing == [], 10)
    eventually(lambda: done(store) == [sagas[0].id])
    assert not task.done()
    assert len(world.keys["flight"]) == 1


def generate(store: Store, sagas: list[Saga], tools: Any) -> Generator[str]:
    with saga_scope(store=store) as saga:
        sagas.append(saga)
        for item in ("hotel", "flight", "car"):
            tools.charge_now(item)
            yield item


@pytest.mark.parametrize("how", ["close", "del"])
def test_an_abandoned_generator_is_undone(store: Store, world: World, how: str) -> None:
    tools = declare(world, sync_inverse=True)
    sagas: list[Saga] = []
    chunks = generate(store, sagas, tools)
    assert next(chunks) == "hotel"
    assert next(chunks) == "flight"
    if how == "close":
        chunks.close()
    else:
        del chunks
        gc.collect()
    assert world.undone == ["flight", "hotel"]
    assert sagas[0].report.state == "rolled_back"


def test_a_scope_whose_handle_is_dropped_is_undone_by_the_janitor(store: Store, world: World) -> None:
    """Entered by hand and never left."""
    tools = declare(world)

    def enter() -> Saga:
        scope = saga_scope(store=store)
        saga = scope.__enter__()
        tools.charge_now(saga, "hotel")
        return saga

    caller = threading.Thread(target=enter)
    caller.start()
    caller.join()
    gc.collect()
    world.wait_until(lambda: world.standing == [])
    eventually(lambda: len(done(store)) == 1)
