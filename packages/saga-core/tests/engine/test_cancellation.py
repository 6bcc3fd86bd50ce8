"""A cancellation neither loses an effect nor cuts an unwinding short, whoever sends it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from saga_core import Landed, Saga, Store, saga_scope

from .disks import Disk, store_on
from .world import Cut, World, declare, done, in_scope

SOON = timedelta(milliseconds=50)


class Gate:
    """A point at which an effect or an inverse stands until a test lets it go on."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.go = asyncio.Event()

    async def __call__(self) -> None:
        self.reached.set()
        await self.go.wait()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_timeout_around_a_call_leaves_a_doubt_that_the_end_settles(store: Store, world: World, moment: str) -> None:
    tools = declare(world, probe=True, lands_within=SOON)
    cut = Cut()
    getattr(world, moment)["flight"].append(cut)

    async def body(saga: Saga) -> None:
        await tools.charge("hotel")
        with pytest.raises(TimeoutError):
            async with cut:
                await tools.charge("flight")
        assert [step.state for step in saga.report.steps] == ["applied", "in_doubt"]
        await tools.charge("car")
        raise ValueError

    ended = in_scope(store, body)
    assert ended.states == ["undone", "not_landed" if moment == "before" else "undone", "undone"]
    assert world.standing == []
    assert ended.saga.report.is_clean


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_timeout_around_the_scope_undoes_everything_and_comes_out(store: Store, world: World, moment: str) -> None:
    tools = declare(world, probe=True, lands_within=SOON)
    cut = Cut()
    getattr(world, moment)["flight"].append(cut)
    sagas: list[Saga] = []

    async def main() -> None:
        async with cut, saga_scope(store=store) as saga:
            sagas.append(saga)
            await tools.charge("hotel")
            await tools.charge("flight")

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert world.standing == []
    assert sagas[0].report.state == "rolled_back"


@pytest.mark.parametrize("cancellations", [1, 2, 5])
def test_a_task_cancelled_in_mid_effect_ends_undone(store: Store, world: World, cancellations: int) -> None:
    """The cancellations behind the first one fall into the unwinding."""
    tools = declare(world, probe=True, lands_within=SOON)
    gate = Gate()
    world.after["flight"].append(gate)

    async def body(saga: Saga) -> None:
        await tools.charge("hotel")
        await tools.charge("flight")

    async def main() -> None:
        task = asyncio.ensure_future(scope())
        await gate.reached.wait()
        for _ in range(cancellations):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        assert "2 of 2 effects undone" in "".join(getattr(caught.value, "__notes__", ()))

    async def scope() -> None:
        async with saga_scope(store=store) as saga:
            await body(saga)

    asyncio.run(main())
    assert world.sent == ["charge hotel", "charge flight", "refund flight", "refund hotel"]


@pytest.mark.parametrize("cancellations", [1, 3])
def test_a_task_cancelled_in_mid_unwinding_goes_on_undoing_and_keeps_its_error(
    store: Store, world: World, cancellations: int
) -> None:
    tools = declare(world)
    gate = Gate()
    world.on_undo["flight"].append(gate)
    mine = ValueError("mine")

    async def scope() -> None:
        async with saga_scope(store=store):
            for item in ("hotel", "flight", "car"):
                await tools.charge(item)
            raise mine

    async def main() -> None:
        task = asyncio.ensure_future(scope())
        await gate.reached.wait()
        for _ in range(cancellations):
            task.cancel()
            await asyncio.sleep(0)
        gate.go.set()
        with pytest.raises(ValueError, match="mine") as caught:
            await task
        assert caught.value is mine
        assert "3 of 3 effects undone" in mine.__notes__[0]

    asyncio.run(main())
    assert world.standing == []


def test_a_cancellation_in_mid_inverse_does_not_reach_the_inverse(store: Store, world: World) -> None:
    tools = declare(world)
    gate = Gate()
    world.after_undo["hotel"].append(gate)

    async def scope() -> None:
        async with saga_scope(store=store):
            await tools.charge("hotel")
            raise ZeroDivisionError

    async def main() -> None:
        task = asyncio.ensure_future(scope())
        await gate.reached.wait()
        task.cancel()
        await asyncio.sleep(0)
        gate.go.set()
        with pytest.raises(ZeroDivisionError):
            await task

    asyncio.run(main())
    assert len(world.keys["hotel"]) == 1


def test_an_anyio_scope_inside_leaves_a_doubt_and_the_saga_goes_on(store: Store, world: World) -> None:
    tools = declare(world, probe=True, lands_within=SOON)
    limits: list[anyio.CancelScope] = []

    async def cut() -> None:
        limits[0].cancel()
        await anyio.sleep_forever()

    world.before["flight"].append(cut)

    async def body(saga: Saga) -> None:
        await tools.charge("hotel")
        with anyio.CancelScope() as limit:
            limits.append(limit)
            await tools.charge("flight")
        assert limit.cancelled_caught
        await tools.charge("car")

    ended = in_scope(store, body)
    assert ended.error is None
    assert world.standing == ["hotel", "car"]
    assert ended.states == ["applied", "not_landed", "applied"]
    assert ended.saga.report.is_clean


def test_an_anyio_scope_around_is_left_only_when_everything_is_undone(store: Store, world: World) -> None:
    """anyio delivers a cancellation again and again; the unwinding does not mind."""
    tools = declare(world, probe=True, lands_within=SOON)
    sagas: list[Saga] = []

    async def turn() -> None:
        for _ in range(20):
            await asyncio.sleep(0.001)

    world.on_undo["hotel"].append(turn)
    world.on_undo["flight"].append(turn)

    async def main() -> None:
        with anyio.CancelScope() as limit:
            async with saga_scope(store=store) as saga:
                sagas.append(saga)
                await tools.charge("hotel")
                await tools.charge("flight")
                limit.cancel()
                await anyio.sleep_forever()
        assert limit.cancelled_caught
        assert world.standing == []

    anyio.run(main)
    assert sagas[0].report.state == "rolled_back"
    assert world.undone == ["flight", "hotel"]


def test_an_anyio_task_group_whose_sibling_fails_undoes_everything(store: Store, world: World) -> None:
    tools = declare(world, probe=True, lands_within=SOON)
    gates: list[Gate] = []

    async def fail() -> None:
        await gates[0].reached.wait()
        raise ValueError("mine")

    async def main() -> None:
        gates.append(Gate())
        world.after["flight"].append(gates[0])
        async with saga_scope(store=store):
            await tools.charge("hotel")
            async with anyio.create_task_group() as group:
                group.start_soon(tools.charge, "flight")
                group.start_soon(fail)

    with pytest.raises(ExceptionGroup) as caught:
        anyio.run(main)
    assert caught.group_contains(ValueError, match="mine")
    assert "2 of 2 effects undone" in caught.value.__notes__[0]
    assert world.standing == []


def test_a_task_group_with_a_failing_step_undoes_its_siblings(store: Store, world: World) -> None:
    tools = declare(world, probe=True, lands_within=SOON)
    gate = Gate()
    world.after["b"].append(gate)

    async def fail() -> None:
        await gate.reached.wait()
        raise ValueError("mine")

    async def body(saga: Saga) -> None:
        async with asyncio.TaskGroup() as group:
            for item in ("a", "b", "c"):
                group.create_task(tools.charge(item))
            group.create_task(fail())

    ended = in_scope(store, body)
    assert isinstance(ended.error, ExceptionGroup)
    assert world.standing == []
    assert set(ended.states) <= {"undone", "not_landed"}
    assert "b" in world.undone
    assert ended.saga.report.is_clean


def test_a_cancellation_before_the_commit_undoes(store: Store, world: World) -> None:
    """The end still asks about a doubt: nothing is committed yet."""
    gate = Gate()

    async def probe(_: Any) -> Any:
        await gate()
        return Landed({"id": "ch_2", "item": "flight"})

    tools = declare(world, probe=probe)
    cut = Cut()
    world.after["flight"].append(cut)
    sagas: list[Saga] = []

    async def scope() -> None:
        async with saga_scope(store=store) as saga:
            sagas.append(saga)
            await tools.charge("hotel")
            with pytest.raises(TimeoutError):
                async with cut:
                    await tools.charge("flight")

    async def main() -> None:
        task = asyncio.ensure_future(scope())
        await gate.reached.wait()
        task.cancel()
        await asyncio.sleep(0)
        gate.go.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert world.standing == []
    assert sagas[0].report.state == "rolled_back"


@pytest.mark.parametrize("cancellations", [1, 3])
def test_a_cancellation_behind_the_commit_record_comes_after_the_commit(
    tmp_path: Path, world: World, cancellations: int
) -> None:
    disk = Disk()
    store = store_on(disk, tmp_path)
    tools = declare(world)
    sagas: list[Saga] = []

    async def scope() -> None:
        async with saga_scope(store=store) as saga:
            sagas.append(saga)
            await tools.charge("hotel")
            disk.go.clear()

    async def main() -> None:
        task = asyncio.ensure_future(scope())
        await asyncio.to_thread(disk.waiting.wait, 10)
        for _ in range(cancellations):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        disk.go.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert world.standing == ["hotel"]
    assert sagas[0].report.state == "committed"
    assert done(store) == [sagas[0].id]
    store.close()


def test_a_call_cancelled_while_its_intent_goes_to_the_disk_is_never_sent(tmp_path: Path, world: World) -> None:
    disk = Disk()
    store = store_on(disk, tmp_path)
    tools = declare(world)
    sagas: list[Saga] = []

    async def main() -> None:
        async with saga_scope(store=store) as saga:
            sagas.append(saga)
            disk.go.clear()
            call = asyncio.ensure_future(tools.charge("hotel"))
            await asyncio.to_thread(disk.waiting.wait, 10)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            disk.go.set()
            await tools.charge("hotel")

    asyncio.run(main())
    assert world.sent == ["charge hotel"]
    assert [step.state for step in sagas[0].report.steps] == ["not_landed", "applied"]
    assert sagas[0].report.is_clean
    store.close()
