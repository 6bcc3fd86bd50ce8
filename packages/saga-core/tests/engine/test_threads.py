"""Effects in threads: counted, drained, and undone however late they land."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from saga_core import Saga, StepInDoubt, Store, current_step, saga_scope
from saga_core.records import Applied, Intended, UndoIntended
from saga_core.stores.store import Backend

from .world import Declined, World, declare, decline, done, eventually, in_plain_scope, in_scope

SHORT = timedelta(milliseconds=30)


class Gate:
    """A point at which an effect stands until a test lets it go on."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.go = threading.Event()

    def __call__(self) -> None:
        self.reached.set()
        assert self.go.wait(20)


@pytest.fixture
def gate() -> Iterator[Gate]:
    found = Gate()
    yield found
    found.go.set()


@pytest.fixture
def soon() -> Iterator[Callable[[Callable[[], None]], None]]:
    """Do something a moment later, from another thread."""
    timers: list[threading.Timer] = []

    def start(act: Callable[[], None]) -> None:
        timers.append(threading.Timer(0.05, act))
        timers[-1].start()

    yield start
    for timer in timers:
        timer.join()


def test_a_synchronous_action_in_a_worker_thread_belongs_to_the_scope(store: Store, world: World) -> None:
    tools = declare(world)

    async def body(saga: Saga) -> None:
        assert await asyncio.to_thread(tools.charge_now, "hotel") == {"id": "ch_1", "item": "hotel"}
        await tools.charge("flight")
        await asyncio.to_thread(tools.charge_now, saga, "car")
        raise ValueError

    ended = in_scope(store, body)
    assert ended.states == ["undone"] * 3
    assert world.undone == ["car", "flight", "hotel"]


@pytest.mark.parametrize("ends", ["failure", "success"])
def test_the_end_waits_for_an_effect_in_a_thread_that_nobody_waits_for(
    store: Store, world: World, gate: Gate, soon: Callable[[Callable[[], None]], None], ends: str
) -> None:
    tools = declare(world)
    world.before["hotel"].append(gate)

    async def body(saga: Saga) -> None:
        calls.append(pool.submit(tools.charge_now, saga, "hotel"))
        await asyncio.to_thread(gate.reached.wait)
        soon(gate.go.set)
        if ends == "failure":
            raise ValueError

    calls: list[Any] = []
    with ThreadPoolExecutor(1) as pool:
        ended = in_scope(store, body)
        assert calls[0].result(10)["id"] == "ch_1"
    assert world.landed("hotel") == 1
    assert world.standing == ([] if ends == "failure" else ["hotel"])
    assert ended.states == ["undone" if ends == "failure" else "applied"]
    assert ended.saga.report.is_clean


def test_the_end_waits_for_an_effect_of_a_task_that_nobody_waits_for(store: Store, world: World) -> None:
    tools = declare(world)
    reached, go = asyncio.Event(), asyncio.Event()

    async def stand() -> None:
        reached.set()
        await go.wait()

    world.before["hotel"].append(stand)

    results: list[Any] = []

    async def call() -> None:
        results.append(await tools.charge("hotel"))

    async def body(saga: Saga) -> None:
        tasks.append(asyncio.ensure_future(call()))
        await reached.wait()
        asyncio.get_running_loop().call_later(0.05, go.set)
        raise ZeroDivisionError

    tasks: list[asyncio.Task[None]] = []
    ended = in_scope(store, body)
    assert results == [{"id": "ch_1", "item": "hotel"}]
    assert world.sent == ["charge hotel", "refund hotel"]
    assert ended.saga.report.is_clean


def test_a_call_that_comes_while_the_scope_drains_is_refused(store: Store, world: World, gate: Gate) -> None:
    tools = declare(world)
    world.before["hotel"].append(gate)
    refused: list[BaseException | None] = []

    def late(saga: Saga) -> None:
        eventually(lambda: closed(saga))
        try:
            tools.charge_now(saga, "late")
        except Exception as error:  # noqa: BLE001
            refused.append(error)
        gate.go.set()

    def closed(saga: Saga) -> bool:
        return saga._node.closed is not None  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

    def body(saga: Saga) -> None:
        calls.append(pool.submit(tools.charge_now, saga, "hotel"))
        assert gate.reached.wait(10)
        calls.append(pool.submit(late, saga))

    calls: list[Any] = []
    with ThreadPoolExecutor(2) as pool:
        in_plain_scope(store, body)
        for call in calls:
            call.result(10)
    assert [type(error).__name__ for error in refused] == ["SagaClosed"]
    assert world.sent == ["charge hotel"]


def test_a_call_that_outlives_its_timeout_lands_and_is_undone(
    store: Store, world: World, gate: Gate, soon: Callable[[Callable[[], None]], None]
) -> None:
    tools, patient = declare(world, timeout=SHORT), declare(world)
    world.before["flight"].append(gate)

    def body(saga: Saga) -> None:
        patient.charge_now("hotel")
        with pytest.raises(TimeoutError) as caught:
            tools.charge_now("flight")
        assert "still running" in caught.value.__notes__[0]
        patient.charge_now("car")
        soon(gate.go.set)
        raise ValueError

    ended = in_plain_scope(store, body)
    assert world.landed("flight") == 1
    assert world.standing == []
    assert ended.states == ["undone"] * 3
    assert ended.saga.report.is_clean


def test_an_effect_that_outlives_its_timeout_still_knows_its_step(
    store: Store, world: World, gate: Gate, soon: Callable[[Callable[[], None]], None]
) -> None:
    tools = declare(world, timeout=SHORT)
    keys: list[str] = []

    def stand() -> None:
        keys.append(current_step().key)
        gate()
        keys.append(current_step().key)
        current_step().note_sync(behind=True)

    world.before["flight"].append(stand)

    def body(saga: Saga) -> None:
        with pytest.raises(TimeoutError):
            tools.charge_now("flight")
        soon(gate.go.set)
        raise ValueError

    ended = in_plain_scope(store, body)
    assert len(keys) == 2
    assert keys[0] == keys[1]
    assert ended.states == ["undone"]


def test_a_call_that_outlives_its_timeout_is_not_sent_again(store: Store, world: World, gate: Gate) -> None:
    tools = declare(world, timeout=SHORT)
    world.before["flight"].append(gate)

    def body(saga: Saga) -> None:
        with pytest.raises(TimeoutError):
            tools.charge_now("flight")
        try:
            for _ in range(2):
                with pytest.raises(StepInDoubt):
                    tools.charge_now("flight")
            with suppress(TimeoutError):  # it may be slow, too
                tools.charge_now("flight", 5)
        finally:
            gate.go.set()

    ended = in_plain_scope(store, body)
    assert ended.error is None
    assert world.landed("flight") == 2


def test_a_call_that_outlives_its_timeout_is_not_sent_again_at_its_position(
    store: Store, world: World, gate: Gate
) -> None:
    tools = declare(world, timeout=SHORT, probe=True, lands_within=timedelta(0))
    world.before["flight"].append(gate)

    def body(saga: Saga) -> None:
        with pytest.raises(TimeoutError):
            tools.charge_now.at("line-1")("flight")
        try:
            with pytest.raises(StepInDoubt):
                tools.charge_now.at("line-1")("flight")
        finally:
            gate.go.set()
        raise ValueError

    ended = in_plain_scope(store, body)
    assert world.landed("flight") == 1
    assert world.standing == []
    assert ended.saga.report.state == "rolled_back"


def test_equal_calls_at_once_are_two_calls(store: Store, world: World) -> None:
    """Nobody saw either of them fail."""
    tools = declare(world)
    both = threading.Barrier(2)
    world.before["flight"] += [both.wait, both.wait]

    def body(saga: Saga) -> None:
        with ThreadPoolExecutor(2) as pool:
            calls = [pool.submit(tools.charge_now, saga, "flight") for _ in range(2)]
            assert {call.result(10)["id"] for call in calls} == {"ch_1", "ch_2"}

    assert in_plain_scope(store, body).states == ["applied", "applied"]


@pytest.mark.parametrize("stray", ["undo", "case"])
def test_what_lands_behind_its_timeout_is_a_stray_at_the_commit(
    store: Store, world: World, gate: Gate, soon: Callable[[Callable[[], None]], None], stray: str
) -> None:
    """Its caller saw it fail: the commit does not keep it silently."""
    tools, patient = declare(world, timeout=SHORT), declare(world)
    world.before["flight"].append(gate)

    def body(saga: Saga) -> None:
        patient.charge_now("hotel")
        with pytest.raises(TimeoutError):
            tools.charge_now("flight")
        soon(gate.go.set)

    ended = in_plain_scope(store, body, stray=stray)
    assert ended.error is None
    assert world.landed("flight") == 1
    assert world.standing == (["hotel"] if stray == "undo" else ["hotel", "flight"])
    assert ended.saga.report.state == "committed"
    assert ended.saga.report.is_clean == (stray == "undo")
    assert len(ended.saga.report.cases) == (0 if stray == "undo" else 1)


def test_what_fails_behind_its_timeout_with_a_proof_is_over(
    store: Store, world: World, gate: Gate, soon: Callable[[Callable[[], None]], None]
) -> None:
    tools = declare(world, timeout=SHORT, not_landed=Declined)
    world.before["flight"] += [lambda: (gate(), decline())]

    def body(saga: Saga) -> None:
        with pytest.raises(TimeoutError):
            tools.charge_now("flight")
        soon(gate.go.set)
        raise ValueError

    ended = in_plain_scope(store, body)
    assert ended.states == ["not_landed"]
    assert ended.saga.report.is_clean
    assert world.sent == []


@pytest.mark.parametrize("form", ["plain", "async"])
@pytest.mark.parametrize("has_probe", [True, False])
def test_nothing_is_called_rolled_back_while_an_effect_still_runs(
    store: Store, world: World, gate: Gate, form: str, *, has_probe: bool
) -> None:
    """A probe that says "not landed" proves nothing while the effect runs here; what lands later is undone then."""
    tools = declare(world, probe=has_probe, lands_within=timedelta(0), timeout=SHORT)
    patient = declare(world)
    world.before["flight"].append(gate)

    def act() -> None:
        with pytest.raises(TimeoutError):
            tools.charge_now("flight")

    def body(saga: Saga) -> None:
        patient.charge_now("hotel")
        act()
        raise ValueError

    async def async_body(saga: Saga) -> None:
        await patient.charge("hotel")
        await asyncio.to_thread(act)
        raise ValueError

    limits = {"drain_timeout": timedelta(milliseconds=50), "unwind_timeout": timedelta(milliseconds=100)}
    ended = in_plain_scope(store, body, **limits) if form == "plain" else in_scope(store, async_body, **limits)
    assert isinstance(ended.error, ValueError)
    assert ended.saga.report.state == "unwinding"
    assert not ended.saga.report.is_clean
    assert ended.states[1] in {"intended", "in_doubt"}
    assert isinstance(store, Backend)
    assert store.claim(ended.saga.id) is None
    gate.go.set()
    world.wait_until(lambda: world.landed("flight") == 1 and world.standing == [])
    eventually(lambda: done(store) == [ended.saga.id])
    assert ended.states == ["undone", "undone"]
    assert ended.saga.report.is_clean


def test_a_commit_with_an_effect_still_running_is_not_clean_and_undoes_nothing(
    store: Store, world: World, gate: Gate
) -> None:
    tools, patient = declare(world, timeout=SHORT), declare(world)
    world.before["flight"].append(gate)

    def body(saga: Saga) -> None:
        patient.charge_now("hotel")
        with pytest.raises(TimeoutError):
            tools.charge_now("flight")

    limits = {"drain_timeout": timedelta(milliseconds=50), "unwind_timeout": timedelta(milliseconds=50)}
    ended = in_plain_scope(store, body, **limits)
    assert ended.error is None
    assert (ended.saga.report.state, ended.saga.report.is_clean) == ("committed", False)
    gate.go.set()
    eventually(lambda: ended.states == ["applied", "applied"])
    assert world.standing == ["hotel", "flight"]
    assert world.undone == []
    assert not ended.saga.report.is_clean
    assert len(ended.saga.report.cases) == 1


@pytest.mark.parametrize("ends", ["failure", "success"])
@pytest.mark.parametrize("tier", ["power", "process"])
def test_many_threads_in_one_saga_lose_nothing(store: Store, world: World, ends: str, tier: str) -> None:
    tools = declare(world, tier=tier, not_landed=Declined)
    start = threading.Barrier(8)
    results: list[str] = []

    def hammer(saga: Saga, worker: int) -> None:
        start.wait(10)
        for number in range(15):
            item = f"{worker}.{number}"
            if number % 5 == 4:
                world.before[item].append(decline)
                with pytest.raises(Declined):
                    tools.charge_now(saga, item)
            else:
                results.append(tools.charge_now(saga, item)["id"])
            assert saga.report.state == "running"

    def body(saga: Saga) -> None:
        with ThreadPoolExecutor(8) as pool:
            for call in [pool.submit(hammer, saga, worker) for worker in range(8)]:
                call.result(60)
        if ends == "failure":
            raise ValueError

    ended = in_plain_scope(store, body)
    assert isinstance(ended.error, ValueError) == (ends == "failure")
    assert len(results) == len(set(results)) == 96
    assert len(world.standing) == (0 if ends == "failure" else 96)
    assert ended.saga.report.is_clean
    assert sorted(ended.states) == sorted(["not_landed"] * 24 + ["applied" if ends == "success" else "undone"] * 96)
    assert isinstance(store, Backend)
    reading = store.read(ended.saga.id)
    assert reading is not None
    intents = [record for record in reading.records if isinstance(record, Intended)]
    assert [record.step for record in intents] == list(range(1, 121))
    assert len({record.position for record in intents}) == 120
    if ends == "failure":
        landed = [record.step for record in reading.records if isinstance(record, Applied)]
        assert [record.step for record in reading.records if isinstance(record, UndoIntended)] == landed[::-1]


def test_many_tasks_in_one_saga_lose_nothing(store: Store, world: World) -> None:
    tools = declare(world)

    async def body(saga: Saga) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(100):
                group.create_task(tools.charge(str(number)))
        assert len(world.standing) == 100
        raise ValueError

    ended = in_scope(store, body)
    assert ended.states == ["undone"] * 100
    assert world.standing == []


def test_many_sagas_at_once_do_not_mix(store: Store, world: World) -> None:
    tools = declare(world)

    async def one(number: int) -> None:
        async with saga_scope(store=store):
            for part in "abc":
                await tools.charge(f"{number}{part}")
            if number % 2:
                raise ValueError(number)

    async def main() -> None:
        await asyncio.gather(*(one(number) for number in range(20)), return_exceptions=True)

    asyncio.run(main())
    assert sorted(world.standing) == sorted(f"{number}{part}" for number in range(0, 20, 2) for part in "abc")
    assert len(done(store)) == 20
