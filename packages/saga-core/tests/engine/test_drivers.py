"""Synchronous and asynchronous tools, handlers and scopes, in every combination that can work."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from saga_core import (
    Action,
    Attempt,
    Call,
    Compensation,
    Landed,
    NoActiveSaga,
    Pending,
    Saga,
    Store,
    compensable,
    current_saga,
    current_step,
    inverse,
    read_only,
    saga_scope,
)
from saga_core.errors import ScopeMisuse, WrongThread

from .world import Lost, World, declare, in_plain_scope, in_scope, lose, unique


def test_a_synchronous_action_on_the_loops_thread_is_refused_with_the_way_out(store: Store, world: World) -> None:
    tools = declare(world)

    async def body(saga: Saga) -> None:
        with pytest.raises(WrongThread, match=r"asyncio\.to_thread"):
            tools.charge_now("hotel")
        with pytest.raises(WrongThread):
            tools.charge_now(saga, "hotel")
        with pytest.raises(WrongThread):
            tools.charge.blocking()("hotel")
        await asyncio.to_thread(tools.charge_now, "hotel")

    ended = in_scope(store, body)
    assert ended.error is None
    assert world.sent == ["charge hotel"]
    assert len(ended.states) == 1


def test_an_asynchronous_action_that_makes_no_step_has_a_blocking_form_too(store: Store) -> None:
    async def look_up(name: str) -> str:
        await asyncio.sleep(0)
        return f"{name} is known"

    read = read_only(unique("drivers.look_up"))(look_up)
    free = compensable(unique("drivers.write_down"), outside="allow")(look_up)
    assert free.blocking()("Ann") == "Ann is known"
    with saga_scope(store=store) as saga:
        assert read.blocking()("Ann") == "Ann is known"
        assert read.blocking()(saga, "Bob") == "Bob is known"
    assert saga.report.steps == ()


def test_a_plain_with_on_a_loops_thread_is_refused(store: Store) -> None:
    async def main() -> None:
        with pytest.raises(ScopeMisuse, match="async with"), saga_scope(store=store):
            raise AssertionError("it opened")
        assert current_saga() is None

    asyncio.run(main())


def test_a_plain_with_around_a_loop_works(store: Store, world: World) -> None:
    tools = declare(world)

    async def main() -> None:
        await tools.charge("hotel")
        await tools.charge("flight")

    def body(saga: Saga) -> None:
        asyncio.run(main())
        tools.charge_now("car")
        raise ValueError

    ended = in_plain_scope(store, body)
    assert world.undone == ["car", "flight", "hotel"]
    assert ended.saga.report.is_clean


def test_an_asynchronous_action_under_a_plain_scope_is_run_by_whoever_awaits_it(store: Store, world: World) -> None:
    tools = declare(world)

    def body(saga: Saga) -> None:
        assert asyncio.run(tools.charge("hotel"))["id"] == "ch_1"
        raise ValueError

    assert in_plain_scope(store, body).states == ["undone"]


def test_a_blocking_twin_is_the_same_declaration(store: Store, world: World) -> None:
    tools = declare(world)
    charge = tools.charge.blocking()
    assert isinstance(charge, Action)
    assert (charge.name, charge.__name__) == (tools.charge.name, tools.charge.__name__)

    def body(saga: Saga) -> None:
        assert charge("hotel") == {"id": "ch_1", "item": "hotel"}
        assert charge.at("x")("flight") == charge.at("x")("flight")
        with pytest.raises(Lost):
            charge("car")
        raise ValueError

    world.before["car"].append(lose)
    ended = in_plain_scope(store, body)
    assert ended.states == ["undone", "undone", "in_doubt"]
    assert world.standing == []


def test_a_blocking_twin_sees_the_callers_context(store: Store) -> None:
    seen: list[Any] = []
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")

    @inverse(unique("back"))
    async def back() -> None:
        pass

    @compensable(unique("act"), undo=lambda _: back.bind())
    async def act() -> None:
        await asyncio.sleep(0)
        found = current_saga()
        assert found is not None
        seen.append((variable.get(), current_step().position, found.id))

    def body(saga: Saga) -> None:
        variable.set("mine")
        act.blocking()()

    ended = in_plain_scope(store, body)
    ((value, position, saga_id),) = seen
    assert (value, saga_id) == ("mine", ended.saga.id)
    assert act.name in position


def test_a_blocking_twin_with_a_timeout_runs_and_times_out(store: Store, world: World) -> None:
    tools = declare(world, timeout=timedelta(seconds=20))
    hasty = declare(world, timeout=timedelta(milliseconds=30), probe=True, lands_within=timedelta(0))
    world.before["flight"].append(lambda: asyncio.sleep(60))

    def body(saga: Saga) -> None:
        assert tools.charge.blocking()("hotel") == {"id": "ch_1", "item": "hotel"}
        with pytest.raises(TimeoutError):
            hasty.charge.blocking()("flight")
        raise ValueError

    ended = in_plain_scope(store, body)
    assert world.standing == []
    assert world.undone == ["hotel"]
    assert ended.states[0] == "undone"


def test_every_handler_may_be_asynchronous_under_a_plain_scope(store: Store, world: World) -> None:
    called: list[str] = []

    @inverse(unique("back"))
    async def back(charge_id: str) -> Any:
        await asyncio.sleep(0)
        called.append("inverse")
        raise Lost

    @back.probe
    async def probe_undo(charge_id: str) -> Any:  # pyright: ignore[reportUnusedFunction]
        await asyncio.sleep(0)
        called.append("probe of the undo")
        return Landed(None)

    @compensable(unique("act"), undo=lambda call: back.bind(call.result))
    def act(item: str) -> str:
        world.charge(item, current_step().key)
        raise Lost

    @act.prepare
    async def prepare(args: Mapping[str, Any]) -> Mapping[str, Any]:  # pyright: ignore[reportUnusedFunction]
        await asyncio.sleep(0)
        called.append("prepare")
        return {**args, "item": args["item"] + "!"}

    @act.capture
    async def capture(attempt: Attempt) -> str:  # pyright: ignore[reportUnusedFunction]
        await asyncio.sleep(0)
        called.append("capture")
        return attempt.args["item"]

    @act.probe
    async def probe(attempt: Attempt) -> Landed[str]:  # pyright: ignore[reportUnusedFunction]
        await asyncio.sleep(0)
        called.append("probe")
        return Landed(attempt.captured)

    def body(saga: Saga) -> None:
        assert act("hotel") == "hotel!"
        raise ValueError

    ended = in_plain_scope(store, body)
    assert called == ["prepare", "capture", "probe", "inverse", "probe of the undo"]
    assert ended.states == ["undone"]


def test_every_handler_may_be_synchronous_under_an_asynchronous_scope(store: Store, world: World) -> None:
    """Each of them waits for the loop: it would hang if it ran on the loop's thread."""
    called: list[str] = []
    loops: list[asyncio.AbstractEventLoop] = []

    def wait_for_the_loop(what: str) -> None:
        called.append(what)
        turned = threading.Event()
        loops[0].call_soon_threadsafe(turned.set)
        assert turned.wait(10)

    @inverse(unique("back"))
    def back(charge_id: str) -> Any:
        wait_for_the_loop("inverse")
        return Pending("re_1", check_after=timedelta(0))

    @back.observe
    def observe(pending: Pending, charge_id: str) -> None:  # pyright: ignore[reportUnusedFunction]
        wait_for_the_loop("observe")

    @compensable(unique("act"), undo=lambda call: back.bind(call.result))
    async def act(item: str) -> str:
        world.charge(item, current_step().key)
        raise Lost

    @act.prepare
    def prepare(args: Mapping[str, Any]) -> Mapping[str, Any]:  # pyright: ignore[reportUnusedFunction]
        wait_for_the_loop("prepare")
        return args

    @act.capture
    def capture(attempt: Attempt) -> str:  # pyright: ignore[reportUnusedFunction]
        wait_for_the_loop("capture")
        return attempt.key

    @act.probe
    def probe(attempt: Attempt) -> Landed[str]:  # pyright: ignore[reportUnusedFunction]
        wait_for_the_loop("probe")
        return Landed("ch_1")

    async def body(saga: Saga) -> None:
        loops.append(asyncio.get_running_loop())
        assert await act("hotel") == "ch_1"
        raise ValueError

    ended = in_scope(store, body)
    assert called == ["prepare", "capture", "probe", "inverse", "observe"]
    assert ended.states == ["undone"]


def test_an_undo_is_given_the_capture(store: Store, world: World) -> None:
    restored: list[Any] = []
    current = {"status": "open"}

    @inverse(unique("restore"))
    def restore(before: dict[str, str]) -> None:
        restored.append(before)
        current.update(before)

    @compensable(unique("patch"))
    def patch(status: str) -> None:
        current["status"] = status

    @patch.capture
    def capture(attempt: Attempt) -> dict[str, str]:  # pyright: ignore[reportUnusedFunction]
        return dict(current)

    @patch.undo
    def undo(call: Call[None]) -> Compensation:  # pyright: ignore[reportUnusedFunction]
        return restore.bind(call.captured)

    def body(saga: Saga) -> None:
        patch("won")
        patch("lost")
        raise ValueError

    in_plain_scope(store, body)
    assert restored == [{"status": "won"}, {"status": "open"}]
    assert current == {"status": "open"}


def test_a_capture_that_raises_reaches_the_caller_and_nothing_is_called(store: Store, world: World) -> None:
    tools = declare(world)

    @tools.charge_now.capture
    def capture(attempt: Attempt) -> None:  # pyright: ignore[reportUnusedFunction]
        raise PermissionError("no such record")

    def body(saga: Saga) -> None:
        with pytest.raises(PermissionError):
            tools.charge_now("hotel")

    ended = in_plain_scope(store, body)
    assert world.sent == []
    assert ended.states == []
    assert ended.saga.report.is_clean


def test_a_step_cannot_be_asked_for_outside_an_effect(store: Store, world: World) -> None:
    def body(saga: Saga) -> None:
        with pytest.raises(NoActiveSaga):
            current_step()

    assert in_plain_scope(store, body).error is None


def test_a_plain_action_notes_facts_too(store: Store, world: World) -> None:
    seen: list[Any] = []
    tools = declare(world)

    @compensable(unique("act"))
    def act() -> str:
        current_step().note_sync(xid=7)
        return world.charge("x", current_step().key)

    @act.undo
    def undo(call: Call[str]) -> Compensation:  # pyright: ignore[reportUnusedFunction]
        seen.append(dict(call.notes))
        return tools.refund.bind(call.result)

    def body(saga: Saga) -> None:
        act()
        raise ValueError

    assert in_plain_scope(store, body).states == ["undone"]
    assert seen == [{"xid": 7}]


def test_a_step_knows_its_deadline(store: Store, world: World) -> None:
    deadlines: list[Any] = []
    tools = declare(world, timeout=timedelta(minutes=1))
    world.before["hotel"].append(lambda: deadlines.append(current_step().deadline))

    async def body(saga: Saga) -> None:
        await tools.charge("hotel")

    in_scope(store, body)
    assert deadlines[0] is not None


def test_what_the_effect_sets_in_its_context_is_seen_by_the_caller(store: Store) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")

    @inverse(unique("back"))
    def back() -> None: ...

    @compensable(unique("act"), undo=lambda _: back.bind())
    async def act() -> None:
        variable.set("by the effect")

    @compensable(unique("act"), undo=lambda _: back.bind())
    def act_now() -> None:
        variable.set("by the other effect")

    async def body(saga: Saga) -> None:
        await act()
        assert variable.get() == "by the effect"

    def plain_body(saga: Saga) -> None:
        act_now()
        assert variable.get() == "by the other effect"

    assert in_scope(store, body).error is None
    assert in_plain_scope(store, plain_body).error is None
