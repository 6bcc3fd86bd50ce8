"""Handlers that hang hold up a block no longer than its limits, and an ended saga leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from saga_core import (
    Attempt,
    Landed,
    Saga,
    Store,
    Unknown,
    open_store,
    saga_scope,
)
from saga_core.engine import leaving, recall
from saga_core.engine.session import Session
from saga_core.errors import CommitUnknown, RollbackIncomplete
from saga_core.stores import fork

from .world import Declined, Lost, World, declare, decline, done, eventually, in_plain_scope, in_scope, lose

SHORT = timedelta(milliseconds=50)


@pytest.fixture
def go() -> Iterator[threading.Event]:
    """What hangs goes on when this is set, at the latest when the test ends."""
    found = threading.Event()
    yield found
    found.set()


async def hang(go: threading.Event) -> None:
    while not go.is_set():  # noqa: ASYNC110 -- a thread sets it, whatever loop this runs on
        await asyncio.sleep(0.005)


def wait_for(go: threading.Event) -> None:
    go.wait(20)


@pytest.mark.parametrize("form", ["plain", "async"])
@pytest.mark.parametrize("sync_inverse", [True, False])
def test_an_inverse_that_hangs_holds_up_the_block_no_longer_than_its_limits(
    world: World, file_store: Store, form: str, go: threading.Event, *, sync_inverse: bool
) -> None:
    """It goes on in the background; what it says in the end is logged."""
    tools = declare(world, sync_inverse=sync_inverse)
    world.on_undo["flight"].append((lambda: wait_for(go)) if sync_inverse else (lambda: hang(go)))
    sagas: list[Saga] = []
    mine = ZeroDivisionError()

    def look() -> None:
        assert "still unwinding" in mine.__notes__[0]
        assert sagas[0].report.state == "unwinding"
        go.set()
        world.wait_until(lambda: world.standing == [])
        eventually(lambda: done(file_store) == [sagas[0].id])

    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            async with saga_scope(store=file_store, drain_timeout=SHORT, unwind_timeout=SHORT) as saga:
                sagas.append(saga)
                await tools.charge("hotel")
                await tools.charge("flight")
                raise mine
        await asyncio.to_thread(look)

    if form == "plain":
        with (
            pytest.raises(ZeroDivisionError),
            saga_scope(store=file_store, drain_timeout=SHORT, unwind_timeout=SHORT) as saga,
        ):
            sagas.append(saga)
            tools.charge_now("hotel")
            tools.charge_now("flight")
            raise mine
        look()
    else:
        asyncio.run(main())
    assert sagas[0].report.state == "rolled_back"
    assert len(world.keys["flight"]) == len(world.keys["hotel"]) == 1


def test_an_inverse_that_takes_long_is_not_cut_short_behind_the_block(
    world: World, file_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaving, "_GRACE", 0.05)
    tools = declare(world)
    ends: list[str] = []

    opened: list[str] = []

    async def main() -> None:
        over = asyncio.Event()

        async def take_long() -> None:
            try:
                await over.wait()
            finally:
                ends.append("let go" if over.is_set() else "cut short")

        world.on_undo["hotel"].append(take_long)
        scope = saga_scope(store=file_store, drain_timeout=SHORT, unwind_timeout=SHORT)
        with pytest.raises(ZeroDivisionError):
            async with scope as saga:
                opened.append(saga.id)
                await tools.charge("hotel")
                raise ZeroDivisionError
        asyncio.get_running_loop().call_later(0.5, over.set)  # well behind all that the block waits for
        await over.wait()
        await asyncio.to_thread(eventually, lambda: done(file_store) == opened)

    asyncio.run(main())
    assert ends == ["let go"]
    assert world.standing == []
    assert len(world.keys["hotel"]) == 1


@pytest.mark.parametrize("form", ["plain", "async"])
@pytest.mark.parametrize("decision", ["commit", "rollback"])
def test_a_block_that_is_left_before_its_commit_or_rollback_does_not_look_like_success(
    world: World,
    file_store: Store,
    form: str,
    decision: str,
    go: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If the process died now, recovery would undo what the caller took for committed."""
    monkeypatch.setattr(recall, "_SETTLE_WITHIN", 0.05)
    can_tell = threading.Event()

    async def probe(attempt: Attempt) -> Any:
        if not can_tell.is_set():
            return Unknown("not yet")
        return Landed({"id": world.find(attempt.key), "item": "flight"})

    tools = declare(world, probe=probe)
    world.after["flight"].append(lose)
    world.on_undo["flight"].append(lambda: hang(go))

    def body(saga: Saga) -> None:
        tools.charge_now("hotel")
        with pytest.raises(Lost):
            tools.charge_now("flight")
        can_tell.set()
        if decision == "rollback":
            saga.rollback("no")

    async def async_body(saga: Saga) -> None:
        await tools.charge("hotel")
        with pytest.raises(Lost):
            await tools.charge("flight")
        can_tell.set()
        if decision == "rollback":
            saga.rollback("no")

    limits: dict[str, Any] = {"drain_timeout": SHORT, "unwind_timeout": SHORT}
    is_plain = form == "plain"
    ended = in_plain_scope(file_store, body, **limits) if is_plain else in_scope(file_store, async_body, **limits)
    assert isinstance(ended.error, CommitUnknown if decision == "commit" else RollbackIncomplete)
    assert ended.error.saga_id == ended.saga.id


@pytest.mark.parametrize("form", ["plain", "async"])
def test_a_probe_that_hangs_holds_up_the_caller_no_longer_than_the_bound(
    world: World, store: Store, form: str, go: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer is a courtesy to the model; without it the error says that the call may have landed."""
    monkeypatch.setattr(recall, "_SETTLE_WITHIN", 0.05)

    async def probe(_: Any) -> Any:
        await hang(go)
        raise Lost

    tools = declare(world, probe=probe)
    world.after["hotel"].append(lose)
    was_let_go: list[bool] = []

    def body(saga: Saga) -> None:
        with pytest.raises(Lost) as caught:
            tools.charge_now("hotel")
        was_let_go.append(go.is_set())
        go.set()
        assert "may have landed" in caught.value.__notes__[0]

    async def async_body(saga: Saga) -> None:
        with pytest.raises(Lost) as caught:
            await tools.charge("hotel")
        was_let_go.append(go.is_set())
        go.set()
        assert "may have landed" in caught.value.__notes__[0]

    alarm = threading.Timer(20, go.set)
    alarm.start()
    limits: dict[str, Any] = {"unwind_timeout": SHORT}
    ended = in_plain_scope(store, body, **limits) if form == "plain" else in_scope(store, async_body, **limits)
    assert ended.error is None
    alarm.cancel()
    assert was_let_go == [False]


ENDINGS: dict[str, Callable[[Saga], None]] = {
    "success": lambda _: None,
    "rollback": lambda saga: saga.rollback("no"),
    "suspension": lambda saga: saga.suspend("later"),
}


@pytest.mark.parametrize("ending", [*ENDINGS, "failure", "case"])
@pytest.mark.parametrize("form", ["plain", "async"])
def test_an_ended_saga_leaves_nothing_behind_in_the_process(
    world: World, file_store: Store, form: str, ending: str
) -> None:
    tools = declare(world, not_landed=Declined)

    def finish(saga: Saga) -> None:
        if ending in ENDINGS:
            ENDINGS[ending](saga)
        else:
            raise ZeroDivisionError

    def prepare(number: int) -> tuple[str, str]:
        good, bad = f"good {number}", f"bad {number}"
        world.before[bad].append(decline)
        if ending == "case":
            world.on_undo[good].append(lambda: "nonsense")
        return good, bad

    def once(number: int) -> weakref.ref[Session]:
        good, bad = prepare(number)

        def body(saga: Saga) -> None:
            tools.charge_now(good)
            with pytest.raises(Declined):
                tools.charge_now(bad)
            finish(saga)

        async def async_body(saga: Saga) -> None:
            await tools.charge(good)
            with pytest.raises(Declined):
                await tools.charge(bad)
            finish(saga)

        key = f"k{number}"
        ended = (
            in_plain_scope(file_store, body, key=key) if form == "plain" else in_scope(file_store, async_body, key=key)
        )
        return weakref.ref(ended.saga._node.session)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

    once(0)
    descriptors, threads = len(fork.descriptors), threading.active_count()
    sessions = [once(number) for number in range(1, 6)]

    def is_gone() -> bool:
        gc.collect()
        return all(session() is None for session in sessions)

    eventually(is_gone, 5)
    eventually(lambda: len(fork.descriptors) <= descriptors, 5)
    eventually(lambda: threading.active_count() <= threads, 5)


def test_a_thousand_steps_are_undone_in_a_few_seconds(world: World) -> None:
    tools = declare(world, tier="process", sync_inverse=True)
    store = open_store("memory:")

    def body(saga: Saga) -> None:
        for number in range(1000):
            tools.charge_now(str(number))
        raise ZeroDivisionError

    ended = in_plain_scope(store, body, unwind_timeout=timedelta(seconds=15))
    assert world.standing == []
    assert ended.saga.report.state == "rolled_back"
