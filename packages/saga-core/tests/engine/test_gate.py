"""The gate decides before anything happens, and fails closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from saga_core import (
    Escalate,
    Gate,
    GateRefused,
    Proposal,
    Refuse,
    Saga,
    Store,
    compensable,
    current_step,
    irreversible,
)

from .world import World, declare, in_plain_scope, in_scope, unique


def test_an_irreversible_action_is_refused_and_nothing_is_sent(store: Store, world: World) -> None:
    tools = declare(world)

    @irreversible(unique("wire"))
    async def wire(amount: int) -> str:
        return world.charge("wire", current_step().key)

    async def body(saga: Saga) -> None:
        await tools.charge("hotel")
        with pytest.raises(GateRefused, match="irreversible") as caught:
            await wire(98_765_432_109)
        refusal = caught.value
        assert (refusal.saga_id, refusal.code) == (saga.id, "SG101")
        assert "nothing was sent; 1 earlier step" in refusal.world
        assert "built in" in refusal.next
        assert "irreversible" in str(refusal)
        assert "98765432109" not in str(refusal)

    ended = in_scope(store, body)
    assert ended.error is None
    assert world.sent == ["charge hotel"]
    assert ended.states == ["applied", "refused"]
    assert ended.saga.report.is_clean


def test_a_refusal_that_leaves_the_scope_unwinds(store: Store, world: World) -> None:
    tools = declare(world)

    @irreversible(unique("wire"))
    def wire() -> None:
        world.charge("wire", "")

    def body(saga: Saga) -> None:
        tools.charge_now("hotel")
        wire()

    ended = in_plain_scope(store, body)
    assert isinstance(ended.error, GateRefused)
    assert world.sent == ["charge hotel", "refund hotel"]
    assert ended.states == ["undone", "refused"]
    assert ended.saga.report.state == "rolled_back"


def test_no_rule_can_allow_what_is_irreversible(store: Store, world: World) -> None:
    @irreversible(unique("wire"))
    def wire() -> None:
        world.charge("wire", "")

    def body(saga: Saga) -> None:
        with pytest.raises(GateRefused, match="nobody approved"):
            wire()

    in_plain_scope(store, body, gate=Gate(lambda _: None))
    assert world.sent == []


def test_a_held_action_is_not_run_in_place(store: Store, world: World) -> None:
    @irreversible(unique("mail"), hold=True)
    def mail() -> None:
        world.charge("mail", "")

    def body(saga: Saga) -> None:
        mail()
        assert world.sent == []

    in_plain_scope(store, body)
    assert world.sent == ["charge mail"]


def test_an_action_without_an_undo_is_refused(store: Store, world: World) -> None:
    tools = declare(world, undo=False)

    def body(saga: Saga) -> None:
        with pytest.raises(GateRefused, match="no undo"):
            tools.charge_now("hotel")

    ended = in_plain_scope(store, body)
    assert world.sent == []
    assert ended.states == ["refused"]


def no_fridays(proposal: Proposal) -> Refuse | None:
    return Refuse("not on a Friday") if proposal.args["item"] == "friday" else None


def ask_for_large_ones(proposal: Proposal) -> Escalate | None:
    return Escalate("a large amount", approvals=2) if (proposal.amount or 0) > 500 else None


def broken(proposal: Proposal) -> None:
    raise KeyError("hunter2")


def nonsense(proposal: Proposal) -> Any:
    return proposal.args["item"] != "fine" and "no"


def test_rules_refuse_escalate_and_fail_closed(store: Store, world: World) -> None:
    tools = declare(world, money=("amount", "usd"))
    refusals: dict[str, GateRefused] = {}

    async def body(saga: Saga) -> None:
        for item, amount in (("friday", 1), ("large", 501), ("fine", 500)):
            try:
                await tools.charge(item, amount)
            except GateRefused as refusal:
                refusals[item] = refusal

    ended = in_scope(store, body, gate=Gate(no_fridays, ask_for_large_ones))
    assert world.sent == ["charge fine"]
    assert refusals.keys() == {"friday", "large"}
    assert "not on a Friday" in str(refusals["friday"])
    assert "no_fridays" in refusals["friday"].next
    assert "test_gate.py:" in refusals["friday"].next
    assert "nobody approved it" in str(refusals["large"])
    assert ended.states == ["applied", "refused", "refused"]


@pytest.mark.parametrize(("rule", "word"), [(broken, "KeyError"), (nonsense, "str")])
def test_a_rule_that_does_not_answer_properly_refuses(
    store: Store, world: World, rule: Callable[[Proposal], Any], word: str
) -> None:
    tools = declare(world)

    def body(saga: Saga) -> None:
        with pytest.raises(GateRefused, match=word) as caught:
            tools.charge_now("hotel")
        assert "hunter2" not in str(caught.value)

    in_plain_scope(store, body, gate=Gate(rule))
    assert world.sent == []


@pytest.mark.parametrize("answer", [True, False, 0, "", [], NotImplemented, Refuse, Escalate], ids=repr)
def test_only_none_is_no_opinion(store: Store, world: World, answer: Any) -> None:
    """False, zero and the class itself are no verdict, so they refuse."""
    tools = declare(world)

    def body(saga: Saga) -> None:
        with pytest.raises(GateRefused):
            tools.charge_now("hotel")

    in_plain_scope(store, body, gate=Gate(lambda _: answer))
    assert world.sent == []


def test_an_asynchronous_rule_is_no_verdict(store: Store, world: World) -> None:
    tools = declare(world)

    def rule(_: Proposal) -> Any:
        return loop.create_future()

    loop = asyncio.new_event_loop()

    def body(saga: Saga) -> None:
        with pytest.raises(GateRefused, match="Future"):
            tools.charge_now("hotel")

    in_plain_scope(store, body, gate=Gate(rule))
    loop.close()
    assert world.sent == []


def test_a_rule_cannot_change_what_runs(store: Store, world: World) -> None:
    tools = declare(world)

    def tamper(proposal: Proposal) -> None:
        proposal.args["item"] = "tampered"  # pyright: ignore[reportIndexIssue]
        proposal.reversibility = "read_only"  # pyright: ignore[reportAttributeAccessIssue]

    def body(saga: Saga) -> None:
        try:
            tools.charge_now("hotel")
        except GateRefused:
            refused.append(True)

    refused: list[bool] = []
    in_plain_scope(store, body, gate=Gate(tamper))
    assert world.sent == ([] if refused else ["charge hotel"])


def test_a_rule_sees_the_prepared_arguments(store: Store, world: World) -> None:
    tools = declare(world, money=("amount", "usd"))
    seen: list[Any] = []

    @tools.charge.prepare
    async def prepare(args: Any) -> Any:  # pyright: ignore[reportUnusedFunction]
        return {**args, "amount": 700}

    def look(proposal: Proposal) -> None:
        seen.append((proposal.action, dict(proposal.args), proposal.amount, proposal.currency, proposal.recoverable))

    async def body(saga: Saga) -> None:
        await tools.charge("hotel")

    assert in_scope(store, body, gate=Gate(look)).error is None
    assert seen == [(tools.charge.name, {"item": "hotel", "amount": 700}, Decimal(700), "usd", True)]


GOOD_AMOUNTS: list[Any] = [
    (0, "0"),
    (5, "5"),
    (10**15, "1000000000000000"),
    (Decimal("10.50"), "10.50"),
]
BAD_AMOUNTS: list[Any] = [
    -1,
    -0.5,
    1.5,
    True,
    False,
    None,
    "ten",
    "",
    "NaN",
    "Infinity",
    "-1",
    [],
    {},
    Decimal("NaN"),
    Decimal(-1),
]


@pytest.mark.parametrize(("amount", "text"), GOOD_AMOUNTS, ids=repr)
def test_an_exact_amount_is_recorded(store: Store, world: World, amount: Any, text: str) -> None:
    tools = declare(world, money=("amount", "usd"))
    ended = in_plain_scope(store, lambda _: tools.charge_now("hotel", amount))
    assert ended.error is None
    assert ended.saga.report.money() == {"usd": Decimal(text)}


@pytest.mark.parametrize("amount", BAD_AMOUNTS, ids=repr)
def test_an_amount_that_is_none_is_refused(store: Store, world: World, amount: Any) -> None:
    tools = declare(world, money=("amount", "usd"))

    def body(saga: Saga) -> None:
        with pytest.raises(GateRefused, match=r"money|amount"):
            tools.charge_now("hotel", amount)

    ended = in_plain_scope(store, body)
    assert world.sent == []
    assert ended.states == ["refused"]


def test_money_is_found_inside_the_arguments(store: Store, world: World) -> None:
    tools = declare(world)

    @compensable(unique("pay"), money=("order.total.amount", "order.total.currency"))
    def pay(order: dict[str, Any]) -> str:
        return world.charge("pay", current_step().key)

    pay.undo(lambda call: tools.refund.bind(call.result))

    def body(saga: Saga) -> None:
        pay({"total": {"amount": 12, "currency": "eur"}})
        no_amount: dict[str, Any] = {"amount": {}, "currency": "eur"}
        bad: list[dict[str, Any]] = [{}, {"total": 5}, {"total": {"currency": "eur"}}, {"total": no_amount}]
        for order in bad:
            with pytest.raises(GateRefused):
                pay(order)

    ended = in_plain_scope(store, body)
    assert ended.error is None
    assert ended.saga.report.money() == {"eur": Decimal(12)}


@pytest.mark.parametrize("currency", [None, 5, "", ["usd"]], ids=repr)
def test_a_currency_that_is_named_and_missing_is_refused(store: Store, world: World, currency: Any) -> None:
    """The declaration says where it is: a path that leads nowhere is no currency code."""
    tools = declare(world)

    @compensable(unique("pay"), money=("amount", "currency"))
    def pay(amount: int, currency: Any = None) -> str:
        return world.charge("pay", current_step().key)

    pay.undo(lambda call: tools.refund.bind(call.result))

    def body(saga: Saga) -> None:
        with pytest.raises(GateRefused, match="currency"):
            pay(5, currency)

    in_plain_scope(store, body)
    assert world.sent == []


def test_amounts_that_were_refused_are_not_summed(store: Store, world: World) -> None:
    tools = declare(world, money=("amount", "usd"))

    def body(saga: Saga) -> None:
        tools.charge_now("hotel", 5)
        with pytest.raises(GateRefused):
            tools.charge_now("friday", 7)

    ended = in_plain_scope(store, body, gate=Gate(no_fridays))
    assert ended.saga.report.money() == {"usd": Decimal(5)}


def test_a_rule_that_interrupts_is_not_a_verdict(store: Store, world: World) -> None:
    tools = declare(world)

    def interrupt(proposal: Proposal) -> None:
        raise KeyboardInterrupt

    def body(saga: Saga) -> None:
        tools.charge_now("hotel")

    ended = in_plain_scope(store, body, gate=Gate(interrupt))
    assert isinstance(ended.error, KeyboardInterrupt)
    assert world.sent == []
