"""The rules that come with the gate, and that adding one never lets more through."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saga_core import Escalate, Gate, GateRefused, Proposal, Refuse, Saga, Store, compensable, current_step
from saga_core.gate import Rule
from saga_core.rules import above, budget, deny_actions, needs_probe, needs_undo_window, only_actions, rate

from .world import World, declare, in_plain_scope, in_scope, unique

DAY = timedelta(days=1)


def proposal(amount: int | None = 5, currency: str | None = "usd", action: str = "pay", **more: Any) -> Proposal:
    options: dict[str, Any] = {"undo_until": None, "recoverable": True, **more}
    exact = None if amount is None else Decimal(amount)
    args = options.pop("args", {"customer": "c1"})
    return Proposal(
        action,
        args,
        "compensable",
        exact,
        currency,
        options["undo_until"],
        options["recoverable"],
        options.get("probeable", False),
    )


def verdict(rule: Rule, of: Proposal) -> str:
    judgement = Gate(rule).judge(of)
    if judgement.refusal is not None:
        return "refuse"
    return "ask" if judgement.questions else "pass"


@pytest.mark.parametrize(
    ("rule", "of", "answer"),
    [
        (above({"usd": 5}), proposal(5), "pass"),
        (above({"usd": 5}), proposal(6), "ask"),
        (above({"usd": 5}, refuse=True), proposal(6), "refuse"),
        (above({"USD": 5}), proposal(5, "Usd"), "pass"),
        (above({"usd": 5}), proposal(1, "jpy"), "ask"),
        (above({"usd": 5}), proposal(None, None), "pass"),
        (above({"usd": 5}, actions="bank.*"), proposal(6), "pass"),
        (above({"usd": Decimal("5.5")}), proposal(6), "ask"),
        (budget({"usd": 5}, per=DAY), proposal(6), "refuse"),
        (budget({"usd": 5}, per=DAY), proposal(1, "jpy"), "refuse"),
        (budget({"usd": 5}, per=DAY, by="nobody"), proposal(1), "refuse"),
        (budget({"usd": 5}, per=DAY, by="customer"), proposal(1, args={"customer": True}), "refuse"),
        (budget({"usd": 5}, per=DAY, by="customer"), proposal(1), "pass"),
        (rate(5, per=DAY, by="nobody"), proposal(None, None), "refuse"),
        (only_actions("pay*", "mail"), proposal(), "pass"),
        (only_actions("bank.*"), proposal(), "refuse"),
        (only_actions(), proposal(), "refuse"),
        (deny_actions("pay"), proposal(), "refuse"),
        (deny_actions("PAY"), proposal(), "pass"),
        (needs_probe(), proposal(), "refuse"),
        (needs_probe(), proposal(probeable=True), "pass"),
        (needs_probe(actions="bank.*"), proposal(), "pass"),
        (needs_undo_window(DAY), proposal(), "pass"),
        (needs_undo_window(DAY), proposal(recoverable=False), "refuse"),
    ],
)
def test_a_rule_answers_as_it_says(rule: Rule, of: Proposal, answer: str) -> None:
    assert verdict(rule, of) == answer


def test_a_rule_is_named_with_the_line_that_made_it(store: Store, world: World) -> None:
    tools = declare(world, money=("amount", "usd"))
    gates = {"above": Gate(above({"usd": 1}, refuse=True)), "budget": Gate(budget({"usd": 1}, per=DAY))}

    def body(saga: Saga) -> None:
        tools.charge_now("hotel", 5)

    for name, gate in gates.items():
        ended = in_plain_scope(store, body, gate=gate)
        assert isinstance(ended.error, GateRefused)
        assert ended.error.rule == name
        assert ended.error.place.startswith(f"{__file__}:"), ended.error.place
    assert world.sent == []


def until_the_result_tells(_: object) -> None:
    return None


@pytest.mark.parametrize(
    ("window", "least", "is_refused"),
    [
        (timedelta(days=30), DAY, False),
        (timedelta(hours=1), DAY, True),
        (None, DAY, False),
        (until_the_result_tells, DAY, True),
    ],
    ids=["long", "short", "open", "unknown"],
)
def test_an_undo_has_to_stay_possible_long_enough(
    store: Store, world: World, window: Any, least: timedelta, *, is_refused: bool
) -> None:
    tools = declare(world, undo_within=window)
    ended = in_plain_scope(store, lambda _: tools.charge_now("hotel"), gate=Gate(needs_undo_window(least)))
    assert isinstance(ended.error, GateRefused) == is_refused
    assert world.sent == ([] if is_refused else ["charge hotel"])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: above({"usd": 5.5}),  # pyright: ignore[reportArgumentType]
        lambda: above({"usd": True}),
        lambda: above({"usd": -1}),
        lambda: above({"usd": Decimal("NaN")}),
        lambda: budget({"usd": Decimal("Infinity")}, per=DAY),
        lambda: budget({"usd": 5}, per=timedelta(0)),
        lambda: rate(-1, per=DAY),
        lambda: rate(1.5, per=DAY),  # pyright: ignore[reportArgumentType]
        lambda: rate(count=True, per=DAY),
    ],
)
def test_a_rule_that_means_nothing_is_refused_where_it_is_made(wrong: Callable[[], object]) -> None:
    with pytest.raises((TypeError, ValueError)):
        wrong()


class Odd:
    """No amount."""


FAIL_CLOSED: list[Any] = [
    float("nan"),
    float("inf"),
    -float("inf"),
    1e300,
    5.0,
    Decimal("NaN"),
    Decimal("sNaN"),
    Decimal("Infinity"),
    Decimal(-1),
    Decimal("-0.01"),
    "5000000",
    "5.000.000",
    "5,00",
    "\uff15\uff10\uff10",
    "",
    "NaN",
    Fraction(1, 3),
    True,
    False,
    None,
    -1,
    10**19,
    -(10**400),
    10**400,
    Decimal("1E+400"),
    [5],
    (5,),
    {"amount": 5},
    {5},
    b"5",
    5j,
    Odd(),
]


@pytest.mark.parametrize("amount", FAIL_CLOSED, ids=lambda value: repr(value)[:24])
@pytest.mark.parametrize("is_nested", [False, True], ids=["flat", "nested"])
def test_an_amount_that_is_none_stops_the_call(store: Store, world: World, amount: Any, *, is_nested: bool) -> None:
    """Whoever refuses, the gate or the log: nothing is called, and nothing is metered."""
    tools = declare(world)

    @compensable(unique("pay"), money=("order.amount" if is_nested else "order", "usd"))
    async def pay(order: Any) -> str:
        return world.charge("pay", current_step().key)

    pay.undo(lambda call: tools.refund.bind(call.result))
    errors: list[Exception] = []

    async def body(saga: Saga) -> None:
        for _ in range(2):
            try:
                await pay({"amount": amount} if is_nested else amount)
            except Exception as error:  # noqa: BLE001 -- which one is looked at below
                errors.append(error)

    in_scope(store, body, gate=Gate(budget({"usd": 10**30}, per=DAY), above({"usd": 10**30})))
    assert len(errors) == 2
    assert all(type(error).__name__ in {"GateRefused", "BadArguments"} for error in errors), errors
    assert world.sent == []


def test_a_missing_amount_stops_the_call(store: Store, world: World) -> None:
    tools = declare(world)

    @compensable(unique("pay"), money=("order.amount", "order.currency"))
    async def pay(order: Any = None) -> str:
        return world.charge("pay", current_step().key)

    pay.undo(lambda call: tools.refund.bind(call.result))

    async def body(saga: Saga) -> None:
        for order in (None, {}, {"amount": 5}, {"currency": "usd"}, {"amount": 5, "currency": ["usd"]}, [5], "5"):
            with pytest.raises(GateRefused, match=r"amount|currency"):
                await pay(order)

    assert in_scope(store, body).error is None
    assert world.sent == []


def answer_of(number: int, of: Proposal) -> Any:
    """Return what the rule of a number says: a closed world of rules, good ones and broken ones."""
    match number % 11:
        case 0:
            return Refuse("no")
        case 1:
            return Escalate("who?")
        case 2:
            return Escalate("both?", approvals=2)
        case 3:
            raise KeyError(number)
        case 4:
            return "yes"
        case 5:
            return True
        case 6:
            return Escalate("nobody?", approvals=0)
        case 7:
            return Refuse("large") if (of.amount or 0) > 5 else None
        case 8:
            return Escalate("now?", expires_in=timedelta(0))
        case _:
            return None


def rule_of(number: int) -> Rule:
    library = [above({"usd": number}), budget({"usd": number}, per=DAY), only_actions("pay"), deny_actions("mail")]
    if number >= 100:
        return library[number % len(library)]
    return lambda of: answer_of(number, of)


STRICTNESS = {"pass": 0, "ask": 1, "refuse": 2}


def strictness(rules: list[Rule], of: Proposal) -> tuple[int, int, int]:
    """Return how much stands in a call's way: yes, a question or no; how many people; how many ledgers."""
    judgement = Gate(*rules).judge(of)
    if judgement.refusal is not None:
        return 2, 0, 0
    quorum = max((question.approvals for question in judgement.questions), default=0)
    return (1 if judgement.questions else 0), quorum, len(judgement.charges)


numbers = st.lists(st.one_of(st.integers(0, 10), st.integers(100, 120)), max_size=8)


@given(numbers, st.integers(0, 8), st.one_of(st.integers(0, 10), st.integers(100, 120)), st.integers(0, 200))
def test_no_rule_that_is_added_lets_more_through(rules: list[int], at: int, added: int, amount: int) -> None:
    of = proposal(amount)
    before = strictness([rule_of(number) for number in rules], of)
    with_one_more = [*rules[:at], added, *rules[at:]]
    after = strictness([rule_of(number) for number in with_one_more], of)
    assert after[0] >= before[0]
    if after[0] == before[0] and before[0] < 2:
        assert all(now >= then for now, then in zip(after[1:], before[1:], strict=True))


def test_a_gate_that_lets_the_last_rule_decide_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control of the property."""
    judge = Gate.judge

    def last(gate: Gate, of: Proposal) -> Any:
        rules = gate._rules  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        return judge(Gate(*rules[-1:]), of)

    monkeypatch.setattr(Gate, "judge", last)
    with pytest.raises((AssertionError, ExceptionGroup)):
        test_no_rule_that_is_added_lets_more_through()
