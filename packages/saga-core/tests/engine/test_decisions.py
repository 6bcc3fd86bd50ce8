"""Rollback and suspension by decision; sagas that are found again by their key."""

from __future__ import annotations

import asyncio

import pytest

from saga_core import (
    ApprovalPending,
    RollbackIncomplete,
    Saga,
    SagaClosed,
    Store,
    compensable,
    current_step,
)
from saga_core.errors import ScopeMisuse

from .world import World, declare, in_plain_scope, in_scope, unique


def test_a_rollback_is_carried_out_when_the_scope_ends(store: Store, world: World) -> None:
    tools = declare(world)

    async def body(saga: Saga) -> None:
        await tools.charge("hotel")
        saga.rollback("the customer said no")
        with pytest.raises(SagaClosed, match="the customer said no"):
            await tools.charge("flight")
        assert world.standing == ["hotel"]

    ended = in_scope(store, body)
    assert ended.error is None
    assert world.sent == ["charge hotel", "refund hotel"]
    assert (ended.saga.report.state, ended.saga.report.is_clean) == ("rolled_back", True)


def test_a_tool_may_decide_the_rollback(store: Store, world: World) -> None:
    tools = declare(world)

    @compensable(unique("act"), undo=lambda call: tools.refund.bind(call.result))
    def act(saga_handle: list[str]) -> str:
        handles[0].rollback("limit reached")
        return world.charge("act", current_step().key)

    handles: list[Saga] = []

    def body(saga: Saga) -> None:
        handles.append(saga)
        tools.charge_now("hotel")
        act([])
        with pytest.raises(SagaClosed):
            tools.charge_now("flight")

    ended = in_plain_scope(store, body)
    assert ended.error is None
    assert world.undone == ["act", "hotel"]


def test_a_rollback_that_is_not_complete_raises_with_the_report(store: Store, world: World) -> None:
    tools = declare(world)
    world.on_undo["hotel"].append(lambda: "nonsense")

    async def body(saga: Saga) -> None:
        await tools.charge("hotel")
        await tools.charge("flight")
        saga.rollback("no")

    ended = in_scope(store, body)
    assert isinstance(ended.error, RollbackIncomplete)
    assert ended.error.report is not None
    assert ended.error.report.state == "needs_human"
    assert "could not be undone" in ended.error.world
    assert world.standing == ["hotel"]


def test_a_rollback_beside_an_exception_lets_the_exception_out(store: Store, world: World) -> None:
    tools = declare(world)
    world.on_undo["hotel"].append(lambda: "nonsense")
    mine = ValueError("mine")

    def body(saga: Saga) -> None:
        tools.charge_now("hotel")
        saga.rollback("no")
        raise mine

    ended = in_plain_scope(store, body)
    assert ended.error is mine
    assert "for a person" in ended.notes


def test_an_incomplete_unwinding_of_an_exception_raises_nothing_else(store: Store, world: World) -> None:
    tools = declare(world)
    world.on_undo["hotel"].append(lambda: "nonsense")

    async def body(saga: Saga) -> None:
        await tools.charge("hotel")
        raise asyncio.CancelledError

    assert isinstance(in_scope(store, body).error, asyncio.CancelledError)


def test_a_suspension_needs_a_key(store: Store, world: World) -> None:
    tools = declare(world)

    def body(saga: Saga) -> None:
        tools.charge_now("hotel")
        with pytest.raises(ScopeMisuse, match="key"):
            saga.suspend("later")

    ended = in_plain_scope(store, body)
    assert ended.error is None
    assert ended.saga.report.state == "committed"


def test_a_rollback_beats_a_suspension(store: Store, world: World) -> None:
    tools = declare(world)

    def body(saga: Saga) -> None:
        tools.charge_now("hotel")
        saga.suspend("later")
        saga.rollback("no")

    ended = in_plain_scope(store, body, key="k")
    assert ended.saga.report.state == "rolled_back"
    assert world.standing == []

    def other(saga: Saga) -> None:
        tools.charge_now("hotel")
        saga.rollback("no")
        saga.suspend("later")

    assert in_plain_scope(store, other, key="k").saga.report.state == "rolled_back"
    assert world.standing == []


def test_an_exception_beats_a_suspension(store: Store, world: World) -> None:
    tools = declare(world)

    async def body(saga: Saga) -> None:
        await tools.charge("hotel")
        saga.suspend("later")
        raise ValueError

    assert in_scope(store, body, key="k").saga.report.state == "rolled_back"
    assert world.standing == []


def test_a_pending_approval_that_leaves_the_scope_suspends(store: Store, world: World) -> None:
    tools = declare(world)

    async def body(saga: Saga) -> None:
        await tools.charge("hotel")
        raise ApprovalPending("somebody must decide", saga_id=saga.id)

    ended = in_scope(store, body, key="k")
    assert isinstance(ended.error, ApprovalPending)
    assert ended.saga.report.state == "suspended"
    assert world.standing == ["hotel"]


def test_a_pending_approval_beside_another_error_unwinds(store: Store, world: World) -> None:
    tools = declare(world)

    async def body(saga: Saga) -> None:
        await tools.charge("hotel")
        raise ExceptionGroup("both", [ApprovalPending("decide", saga_id=saga.id), ValueError()])

    assert in_scope(store, body, key="k").saga.report.state == "rolled_back"
    assert world.standing == []


def test_a_pending_approval_of_another_saga_unwinds(store: Store, world: World) -> None:
    tools = declare(world)

    async def body(saga: Saga) -> None:
        await tools.charge("hotel")
        raise ApprovalPending("decide", saga_id="01M8Q7RJREC8DRWH1AM1N8FC84")

    assert in_scope(store, body, key="k").saga.report.state == "rolled_back"
