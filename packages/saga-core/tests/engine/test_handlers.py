"""Which recorded undo an installed inverse may run: names, versions, arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from saga_core import (
    Compensation,
    Saga,
    Store,
    compensable,
    current_step,
    inverse,
    registry,
)

from .world import World, declare, in_plain_scope, in_scope, unique


def three(tools: Any) -> Callable[[Saga], Any]:
    async def body(saga: Saga) -> None:
        for item in ("hotel", "flight", "car"):
            await tools.charge(item)
        raise ValueError

    return body


def test_an_inverse_that_nobody_registered_is_a_case(store: Store, world: World) -> None:
    tools = declare(world, undo=lambda _: Compensation("nobody.knows", 1, {}))
    ended = in_scope(store, three(tools))
    assert world.standing == ["hotel", "flight", "car"]
    assert ended.states == ["undo_failed"] * 3
    assert len(ended.saga.report.cases) == 3
    assert all("nobody.knows" in case for case in ended.saga.report.cases)


def test_an_inverse_that_vanished_since_is_a_case(store: Store, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = declare(world)

    async def body(saga: Saga) -> None:
        await tools.charge("hotel")
        monkeypatch.delitem(registry.INVERSES._declared, tools.refund.name)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        raise ValueError

    ended = in_scope(store, body)
    assert world.standing == ["hotel"]
    assert ended.states == ["undo_failed"]


@pytest.mark.parametrize(
    ("accepts", "state"), [((), "undo_failed"), ((1,), "undone"), ((1, 2), "undone"), ((2,), "undo_failed")]
)
def test_a_newer_inverse_runs_what_it_accepts(store: Store, world: World, accepts: tuple[int, ...], state: str) -> None:
    tools = declare(world)
    name = unique("versioned")

    def handler(charge_id: str) -> None:
        world.refund(charge_id, current_step().key)

    old = inverse(name, version=1)(handler)

    @compensable(unique("act"), undo=lambda call: old.bind(call.result))
    def act() -> str:
        return world.charge("hotel", current_step().key)

    def body(saga: Saga) -> None:
        act()
        inverse(name, version=3, accepts=accepts)(handler)
        raise ValueError

    ended = in_plain_scope(store, body)
    assert tools.refund.name != name
    assert ended.states == [state]
    assert world.standing == ([] if state == "undone" else ["hotel"])


def test_recorded_arguments_that_fit_no_more_are_a_case(store: Store, world: World) -> None:
    declare(world)
    name = unique("changed")

    def declare_it(fn: Callable[..., None]) -> Any:
        fn.__qualname__, fn.__module__ = "handler", __name__
        return inverse(name)(fn)

    def old(charge_id: str) -> None: ...

    def new(charge_id: str, reason: str) -> None:
        raise AssertionError("called with what does not fit")

    bound = declare_it(old)

    @compensable(unique("act"), undo=lambda call: bound.bind(call.result))
    def act() -> str:
        return world.charge("hotel", current_step().key)

    def body(saga: Saga) -> None:
        act()
        declare_it(new)
        raise ValueError

    ended = in_plain_scope(store, body)
    assert ended.states == ["undo_failed"]
    assert "reason" in ended.saga.report.cases[0]


def test_a_new_parameter_with_a_default_still_fits(store: Store, world: World) -> None:
    name = unique("changed")
    seen: list[str] = []

    def declare_it(fn: Callable[..., None]) -> Any:
        fn.__qualname__, fn.__module__ = "handler", __name__
        return inverse(name)(fn)

    def old(charge_id: str) -> None: ...

    def new(charge_id: str, reason: str = "none given") -> None:
        seen.append(reason)

    bound = declare_it(old)

    @compensable(unique("act"), undo=lambda call: bound.bind(call.result))
    def act() -> str:
        return "ch"

    def body(saga: Saga) -> None:
        act()
        declare_it(new)
        raise ValueError

    assert in_plain_scope(store, body).states == ["undone"]
    assert seen == ["none given"]
