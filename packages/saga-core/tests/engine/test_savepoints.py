"""A scope inside a scope is a savepoint: it fails alone, and is kept only with the scope around it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from saga_core import (
    Gate,
    Pending,
    RollbackIncomplete,
    Saga,
    SagaClosed,
    Store,
    compensable,
    current_saga,
    open_store,
    saga_scope,
)
from saga_core.errors import ScopeMisuse

from .world import Cut, World, declare, done, in_plain_scope, in_scope, lose, unique


def test_an_inner_failure_undoes_the_inner_steps_only(store: Store, world: World) -> None:
    tools = declare(world)

    async def body(saga: Saga) -> None:
        await tools.charge("before")
        with pytest.raises(ZeroDivisionError) as caught:
            async with saga_scope("inner") as inner:
                assert inner.id == saga.id
                await tools.charge("a")
                await tools.charge("b")
                raise ZeroDivisionError
        assert "2 of 2" in caught.value.__notes__[0]
        assert world.undone == ["b", "a"]
        assert saga.report.state == "running"
        await tools.charge("behind")

    ended = in_scope(store, body)
    assert world.standing == ["before", "behind"]
    assert ended.states == ["applied", "undone", "undone", "applied"]
    assert (ended.saga.report.state, ended.saga.report.is_clean) == ("committed", True)


def test_without_a_loop_too(store: Store, world: World) -> None:
    tools = declare(world)

    def body(saga: Saga) -> None:
        tools.charge_now("before")
        with pytest.raises(ZeroDivisionError), saga_scope("inner"):
            tools.charge_now("a")
            raise ZeroDivisionError
        assert world.undone == ["a"]
        with saga_scope("inner"):
            tools.charge_now("b")

    ended = in_plain_scope(store, body)
    assert world.standing == ["before", "b"]
    assert ended.saga.report.is_clean


def test_what_an_inner_success_did_is_undone_with_the_outer_scope_in_order(store: Store, world: World) -> None:
    tools = declare(world)

    async def body(saga: Saga) -> None:
        await tools.charge("1")
        async with saga_scope("inner"):
            await tools.charge("2")
            async with saga_scope("innermost"):
                await tools.charge("3")
            await tools.charge("4")
        await tools.charge("5")
        raise ValueError

    ended = in_scope(store, body)
    assert world.undone == ["5", "4", "3", "2", "1"]
    assert ended.saga.report.is_clean


def test_an_outer_failure_after_an_inner_one_undoes_nothing_twice(store: Store, world: World) -> None:
    tools = declare(world)

    async def body(saga: Saga) -> None:
        await tools.charge("1")
        with pytest.raises(ZeroDivisionError):
            async with saga_scope():
                await tools.charge("2")
                raise ZeroDivisionError
        await tools.charge("3")
        raise ValueError

    in_scope(store, body)
    assert world.undone == ["2", "3", "1"]
    assert all(len(keys) == 1 for keys in world.keys.values())


def test_an_exception_through_all_scopes_undoes_each_in_turn(store: Store, world: World) -> None:
    tools = declare(world)

    async def body(saga: Saga) -> None:
        await tools.charge("1")
        async with saga_scope():
            await tools.charge("2")
            async with saga_scope():
                await tools.charge("3")
                raise ValueError

    ended = in_scope(store, body)
    assert world.undone == ["3", "2", "1"]
    assert len(getattr(ended.error, "__notes__", ())) == 3
    assert ended.saga.report.is_clean


def test_parallel_savepoints_fail_alone(store: Store, world: World) -> None:
    tools = declare(world)
    both = asyncio.Barrier(2)

    async def branch(name: str, *, fails: bool) -> None:
        try:
            async with saga_scope(name):
                await tools.charge(f"{name}1")
                await both.wait()
                await tools.charge(f"{name}2")
                if fails:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            assert fails

    async def body(saga: Saga) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(branch("a", fails=True))
            group.create_task(branch("b", fails=False))

    ended = in_scope(store, body)
    assert sorted(world.standing) == ["b1", "b2"]
    assert sorted(world.undone) == ["a1", "a2"]
    assert ended.saga.report.is_clean


def test_an_inner_rollback_is_carried_out_when_the_inner_scope_ends(store: Store, world: World) -> None:
    tools = declare(world)

    async def body(saga: Saga) -> None:
        await tools.charge("1")
        async with saga_scope() as inner:
            await tools.charge("2")
            inner.rollback("changed its mind")
            with pytest.raises(SagaClosed, match="changed its mind"):
                await tools.charge("3")
            assert world.standing == ["1", "2"]
        assert world.standing == ["1"]
        await tools.charge("4")

    ended = in_scope(store, body)
    assert ended.error is None
    assert world.standing == ["1", "4"]


def test_an_inner_rollback_that_is_not_complete_says_so(store: Store, world: World) -> None:
    tools = declare(world)
    world.on_undo["2"].append(lambda: "nonsense")

    async def body(saga: Saga) -> None:
        await tools.charge("1")
        with pytest.raises(RollbackIncomplete) as caught:
            async with saga_scope() as inner:
                await tools.charge("2")
                await tools.charge("3")
                inner.rollback("changed its mind")
        assert caught.value.report is not None
        assert world.standing == ["1", "2"]

    ended = in_scope(store, body)
    assert world.standing == ["1", "2"]
    assert (ended.saga.report.state, ended.saga.report.is_clean) == ("committed", False)


def test_what_an_inner_unwinding_had_no_time_for_is_undone_before_the_commit(store: Store, world: World) -> None:
    """Its steps were given up: the commit of the outer scope does not keep them."""
    tools = declare(world)

    async def body(saga: Saga) -> None:
        await tools.charge("1")
        with pytest.raises(ZeroDivisionError):
            async with saga_scope(unwind_timeout=timedelta(0)):
                await tools.charge("2")
                raise ZeroDivisionError
        assert world.standing == ["1", "2"]
        await tools.charge("3")

    ended = in_scope(store, body)
    assert ended.error is None
    assert world.standing == ["1", "3"]
    assert (ended.saga.report.state, ended.saga.report.is_clean) == ("committed", True)


def test_what_an_inner_unwinding_had_no_time_for_is_not_hidden_where_the_outer_one_has_none_either(
    store: Store, world: World
) -> None:
    tools = declare(world)

    async def body(saga: Saga) -> None:
        with pytest.raises(ZeroDivisionError):
            async with saga_scope(unwind_timeout=timedelta(0)):
                await tools.charge("2")
                raise ZeroDivisionError

    ended = in_scope(store, body, unwind_timeout=timedelta(0))
    assert not ended.saga.report.is_clean or world.standing == []
    assert world.standing == [] or len(ended.saga.report.cases) == 1


def test_an_inner_doubt_is_settled_by_the_inner_failure(store: Store, world: World) -> None:
    tools = declare(world, probe=True, lands_within=timedelta(milliseconds=50))
    cut = Cut()
    world.after["2"].append(cut)

    async def body(saga: Saga) -> None:
        with pytest.raises(TimeoutError):
            async with cut, saga_scope():
                await tools.charge("1")
                await tools.charge("2")
        assert world.undone == ["2", "1"]
        await tools.charge("3")

    assert in_scope(store, body).states == ["undone", "undone", "applied"]


def test_a_step_in_doubt_outside_is_no_business_of_the_inner_scope(store: Store, world: World) -> None:
    tools = declare(world)
    world.after["1"].append(lose)

    async def body(saga: Saga) -> None:
        with pytest.raises(ConnectionError):
            await tools.charge("1")
        with pytest.raises(ZeroDivisionError):
            async with saga_scope():
                await tools.charge("2")
                raise ZeroDivisionError
        assert [step.state for step in saga.report.steps] == ["in_doubt", "undone"]
        assert saga.report.cases == ()

    in_scope(store, body)


def test_an_independent_scope_inside_is_another_saga(store: Store, world: World) -> None:
    tools = declare(world)

    async def body(saga: Saga) -> None:
        await tools.charge("1")
        async with saga_scope(new=True, store=store) as apart:
            assert apart.id != saga.id
            await tools.charge("2")
        found = current_saga()
        assert found is not None
        assert found.id == saga.id
        with pytest.raises(ZeroDivisionError):
            async with saga_scope(new=True, store=store, key="its own"):
                await tools.charge("3")
                raise ZeroDivisionError
        raise ValueError

    in_scope(store, body)
    assert world.standing == ["2"]
    assert len(done(store)) == 3


@pytest.mark.parametrize("option", ["key", "store", "gate"])
def test_what_belongs_to_the_outermost_scope_is_refused_inside(store: Store, world: World, option: str) -> None:
    options: dict[str, Any] = {option: {"key": "k", "store": open_store("memory:"), "gate": Gate()}[option]}
    tools = declare(world)

    async def body(saga: Saga) -> None:
        with pytest.raises(ScopeMisuse, match="new=True"):
            async with saga_scope(**options):
                raise AssertionError("it opened")
        await tools.charge("1")

    assert in_scope(store, body).error is None
    assert world.standing == ["1"]


def test_a_savepoint_cannot_be_suspended(store: Store) -> None:
    async def body(saga: Saga) -> None:
        async with saga_scope() as inner:
            with pytest.raises(ScopeMisuse):
                inner.suspend("later")

    assert in_scope(store, body, key="k").error is None


def test_the_same_calls_in_two_savepoints_are_different_steps(store: Store, world: World) -> None:
    tools = declare(world)

    async def body(saga: Saga) -> None:
        for _ in range(2):
            async with saga_scope("again"):
                await tools.charge("1")
                await tools.charge.at("x")("2")

    assert in_scope(store, body).states == ["applied"] * 4
    assert world.standing == ["1", "2", "1", "2"]


def test_a_task_that_outlives_a_kept_savepoint_goes_on_in_the_scope_around_it(store: Store, world: World) -> None:
    tools = declare(world)

    async def body(saga: Saga) -> None:
        go = asyncio.Event()

        async def late() -> None:
            await go.wait()
            await tools.charge("late")

        async with saga_scope():
            task = asyncio.ensure_future(late())
            await tools.charge("1")
        go.set()
        await task
        raise ValueError

    ended = in_scope(store, body)
    assert isinstance(ended.error, ValueError)
    assert world.undone == ["late", "1"]


def test_a_task_that_outlives_an_undone_savepoint_is_refused(store: Store, world: World) -> None:
    tools = declare(world)
    tasks: list[asyncio.Task[None]] = []

    async def body(saga: Saga) -> None:
        go = asyncio.Event()

        async def late() -> None:
            await go.wait()
            with pytest.raises(SagaClosed):
                await tools.charge("late")

        with pytest.raises(ZeroDivisionError):
            async with saga_scope():
                tasks.append(asyncio.ensure_future(late()))
                raise ZeroDivisionError
        go.set()
        await tasks[0]

    assert in_scope(store, body).error is None
    assert world.sent == []


def test_the_handle_of_an_ended_savepoint_takes_no_call(store: Store, world: World) -> None:
    tools = declare(world)

    async def body(saga: Saga) -> None:
        async with saga_scope() as inner:
            pass
        with pytest.raises(SagaClosed):
            await tools.charge(inner, "1")
        await tools.charge(saga, "2")

    assert in_scope(store, body).error is None
    assert world.standing == ["2"]


def test_the_outer_handle_inside_a_savepoint_makes_an_outer_step(store: Store, world: World) -> None:
    tools = declare(world)

    async def body(saga: Saga) -> None:
        with pytest.raises(ZeroDivisionError):
            async with saga_scope():
                await tools.charge(saga, "outer")
                await tools.charge("inner")
                raise ZeroDivisionError

    in_scope(store, body)
    assert world.standing == ["outer"]


def test_an_outer_rollback_closes_the_inner_scopes_too(store: Store, world: World) -> None:
    tools = declare(world)

    async def body(saga: Saga) -> None:
        async with saga_scope():
            await tools.charge("1")
            saga.rollback("everything")
            with pytest.raises(SagaClosed, match="everything"):
                await tools.charge("2")

    ended = in_scope(store, body)
    assert ended.error is None
    assert world.standing == []
    assert ended.saga.report.state == "rolled_back"


def test_a_savepoint_inside_an_effect_belongs_to_the_same_saga(store: Store, world: World) -> None:
    tools = declare(world)

    @compensable(unique("outer"), undo=lambda _: tools.refund.bind("ch_1"))
    async def outer() -> None:
        await tools.charge("kept")
        try:
            async with saga_scope():
                await tools.charge("dropped")
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass

    async def body(saga: Saga) -> None:
        await outer()

    ended = in_scope(store, body)
    assert ended.error is None
    assert world.standing == ["kept"]
    assert ended.saga.report.is_clean


def test_savepoints_that_fail_at_once_are_each_undone_before_their_error_leaves(store: Store, world: World) -> None:
    """One unwinds at a time; the others wait for it instead of leaving their steps to the end of the saga."""
    tools = declare(world)
    left: list[list[str]] = []

    async def part(name: str) -> None:
        with pytest.raises(ZeroDivisionError):
            async with saga_scope(name):
                await tools.charge(f"{name} hotel")
                await tools.charge(f"{name} car")
                raise ZeroDivisionError
        left.append([item for item in world.standing if item.startswith(name)])

    async def body(saga: Saga) -> None:
        await tools.charge("flight")
        await asyncio.gather(part("a"), part("b"), part("c"))

    ended = in_scope(store, body)
    assert left == [[], [], []]
    assert world.standing == ["flight"]
    assert ended.saga.report.is_clean


def test_an_undo_that_a_savepoint_left_pending_is_not_forgotten_by_the_commit(store: Store, world: World) -> None:
    tools = declare(world)
    world.on_undo["hotel"].append(lambda: Pending("re_1", check_after=timedelta(hours=1)))

    @tools.refund.observe
    def observe(pending: Pending, charge_id: str) -> Any:  # pyright: ignore[reportUnusedFunction]
        return pending

    async def body(saga: Saga) -> None:
        with pytest.raises(ZeroDivisionError):
            async with saga_scope("inner"):
                await tools.charge("hotel")
                raise ZeroDivisionError
        await tools.charge("flight")

    ended = in_scope(store, body)
    report = ended.saga.report
    assert (report.state, report.is_clean, len(report.cases)) == ("committed", False, 1)
    assert "hotel" in world.standing
