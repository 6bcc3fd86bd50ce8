"""Where a scope may be opened, left and found, and where its log lies."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from saga_core import (
    Saga,
    SagaError,
    Store,
    compensable,
    current_saga,
    current_step,
    inverse,
    reversible,
    saga_scope,
)
from saga_core.errors import DeclarationError, ScopeMisuse

from .world import World, declare, in_plain_scope, in_scope, unique


def test_without_a_store_the_log_lies_in_the_working_directory(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = declare(world)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SAGA_STORE", raising=False)
    with saga_scope() as saga:
        tools.charge_now("hotel")
    assert [path.stem for path in (tmp_path / ".saga" / "done").rglob("*.log")] == [saga.id]


def test_the_environment_names_the_store(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = declare(world)
    monkeypatch.setenv("SAGA_STORE", f"file:{tmp_path / 'elsewhere'}")
    with saga_scope() as saga:
        tools.charge_now("hotel")
    with saga_scope(store=f"file:{tmp_path / 'third'}") as other:
        tools.charge_now("hotel")
    assert [path.stem for path in (tmp_path / "elsewhere").rglob("*.log")] == [saga.id]
    assert [path.stem for path in (tmp_path / "third").rglob("*.log")] == [other.id]


@pytest.mark.parametrize("wrong", [5, object(), b"file:x", Path("x")], ids=["int", "object", "bytes", "path"])
def test_what_is_no_store_is_refused(world: World, wrong: Any) -> None:
    tools = declare(world)
    with pytest.raises(SagaError) as caught, saga_scope(store=wrong):
        tools.charge_now("hotel")
    assert "nothing was opened" in caught.value.world
    assert world.sent == []


@pytest.mark.parametrize("how", ["argument", "environment"])
def test_a_mode_that_is_not_there_yet_is_refused(
    store: Store, world: World, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody who asks for recording only gets rollbacks instead."""
    if how == "environment":
        monkeypatch.setenv("SAGA_MODE", "record")
    with pytest.raises(ScopeMisuse), saga_scope(store=store, mode="record" if how == "argument" else None):
        raise AssertionError("it opened")


def test_a_scope_may_be_wrapped_in_a_context_manager_of_ones_own(store: Store, world: World) -> None:
    tools = declare(world)

    @contextlib.contextmanager
    def mine() -> Generator[Saga]:
        with saga_scope(store=store) as saga:
            yield saga

    @contextlib.asynccontextmanager
    async def mine_async() -> AsyncGenerator[Saga]:
        async with contextlib.AsyncExitStack() as stack:
            yield await stack.enter_async_context(saga_scope(store=store))

    with pytest.raises(ZeroDivisionError), mine():
        tools.charge_now("a")
        raise ZeroDivisionError

    async def main() -> None:
        async with mine_async():
            await tools.charge("b")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(main())
    assert world.undone == ["a", "b"]


@pytest.mark.parametrize("ends", ["failure", "success"])
def test_a_scope_may_be_left_in_another_task_than_it_was_entered_in(store: Store, world: World, ends: str) -> None:
    """As a test framework does with fixtures: enter, use and leave are three tasks."""
    tools = declare(world)
    scope = saga_scope(store=store)
    error = ZeroDivisionError() if ends == "failure" else None

    async def main() -> None:
        saga = await asyncio.ensure_future(scope.__aenter__())
        assert current_saga() is None
        await asyncio.ensure_future(tools.charge(saga, "hotel"))
        await asyncio.ensure_future(scope.__aexit__(type(error) if error else None, error, None))
        assert current_saga() is None

    asyncio.run(main())
    assert world.standing == ([] if ends == "failure" else ["hotel"])


def test_two_loops_may_share_a_saga(store: Store, world: World) -> None:
    tools = declare(world)
    both = threading.Barrier(2)

    async def work(saga: Saga, name: str) -> None:
        for number in range(5):
            await asyncio.to_thread(both.wait, 10)
            await tools.charge(saga, f"{name}{number}")

    async def body(saga: Saga) -> None:
        other = asyncio.to_thread(lambda: asyncio.run(work(saga, "other")))
        await asyncio.gather(other, work(saga, "mine"))
        raise ZeroDivisionError

    ended = in_scope(store, body)
    assert isinstance(ended.error, ZeroDivisionError)
    assert ended.states == ["undone"] * 10
    assert world.standing == []


def test_a_task_sees_the_scope_in_which_it_was_made(store: Store, world: World) -> None:
    tools = declare(world)
    go = asyncio.Event()

    async def later(item: str) -> str | None:
        await go.wait()
        await tools.charge(item)
        found = current_saga()
        return None if found is None else found.id

    async def main() -> None:
        async with saga_scope(store=store) as one:
            first = asyncio.ensure_future(later("one"))
            async with saga_scope(store=store, new=True) as two:
                second = asyncio.ensure_future(later("two"))
                go.set()
                assert await first == one.id
                assert await second == two.id

    asyncio.run(main())
    assert world.standing == ["one", "two"]


def test_what_prepare_adds_is_recorded_once_and_not_asked_for_again(store: Store, world: World) -> None:
    """The same call after a resumption returns its result, whatever prepare would read now."""
    tools = declare(world)
    prices = iter([100, 999])
    seen: list[Any] = []

    @compensable(unique("buy"))
    def buy(item: str, price: int | None = None) -> str:
        seen.append(price)
        return world.charge(item, current_step().key)

    @buy.prepare
    def prepare(args: Mapping[str, Any]) -> Mapping[str, Any]:  # pyright: ignore[reportUnusedFunction]
        return {**args, "price": next(prices)}

    buy.undo(lambda call: tools.refund.bind(call.result))

    def body(saga: Saga) -> None:
        assert buy("hotel") == "ch_1"
        saga.suspend("later")

    for _ in range(2):
        assert in_plain_scope(store, body, key="k").error is None
    assert seen == [100]
    assert world.standing == ["hotel"]


def test_a_reversible_action_without_a_capture_is_refused(store: Store, world: World) -> None:
    @inverse(unique("back"))
    def back() -> None: ...

    @reversible(unique("patch"), undo=lambda _: back.bind())
    def patch() -> None:
        world.charge("patch", "")

    def body(saga: Saga) -> None:
        with pytest.raises(DeclarationError, match="capture"):
            patch()

    ended = in_plain_scope(store, body)
    assert world.sent == []
    assert ended.states == []


@pytest.mark.parametrize("ends", ["failure", "success"])
def test_a_cancellation_that_an_inner_unwinding_held_back_is_delivered(store: Store, world: World, ends: str) -> None:
    """The inner scope's own error is caught; the cancellation is not forgotten for that."""
    tools = declare(world)
    reached, go = asyncio.Event(), asyncio.Event()
    behind: list[str] = []

    async def stand() -> None:
        reached.set()
        await go.wait()

    world.on_undo["inner"].append(stand)

    async def scope() -> None:
        async with saga_scope(store=store):
            await tools.charge("outer")
            with contextlib.suppress(ZeroDivisionError):
                async with saga_scope():
                    await tools.charge("inner")
                    raise ZeroDivisionError
            if ends == "failure":
                await asyncio.sleep(0)
                behind.append("slept")

    async def main() -> None:
        task = asyncio.ensure_future(scope())
        await reached.wait()
        task.cancel()
        await asyncio.sleep(0)
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert behind == []
    assert world.standing == []


def test_a_cancellation_in_an_inner_scope_undoes_both(store: Store, world: World) -> None:
    tools = declare(world)
    reached = asyncio.Event()

    async def scope() -> None:
        async with saga_scope(store=store):
            await tools.charge("outer")
            async with saga_scope():
                await tools.charge("inner")
                reached.set()
                await asyncio.sleep(60)

    async def main() -> None:
        task = asyncio.ensure_future(scope())
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        assert len(caught.value.__notes__) == 2

    asyncio.run(main())
    assert world.undone == ["inner", "outer"]


def test_the_handle_shows_what_it_is(store: Store) -> None:
    with saga_scope("trip", store=store, key="k", tags={"tenant": "a"}) as saga:
        assert (saga.name, saga.key) == ("trip", "k")
        assert saga.id in repr(saga)
        assert "running" in repr(saga)
    assert "committed" in repr(saga)


def test_a_scope_left_twice_ends_once(store: Store, world: World) -> None:
    tools = declare(world)
    scope = saga_scope(store=store)
    saga = scope.__enter__()
    tools.charge_now("hotel")
    scope.__exit__(None, None, None)
    scope.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    assert saga.report.state == "committed"
    assert world.standing == ["hotel"]


def test_scopes_that_are_not_left_in_the_order_of_their_opening_leave_nothing_ambient(
    store: Store, world: World
) -> None:
    tools = declare(world)
    first, second = saga_scope("first", store=store), saga_scope("second", store=store, new=True)
    first.__enter__()
    kept = second.__enter__()
    first.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    found = current_saga()
    assert found is not None
    assert found.id == kept.id
    tools.charge_now("hotel")
    second.__exit__(None, None, None)
    assert current_saga() is None
    assert world.standing == ["hotel"]
    with pytest.raises(SagaError):
        tools.charge_now("car")
