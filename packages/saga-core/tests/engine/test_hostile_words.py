"""Whatever users' code hands to the engine, the log stays readable and the scope ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from saga_core import (
    Attempt,
    Compensation,
    Conflict,
    Gate,
    GateRefused,
    Pending,
    Refuse,
    Saga,
    SagaError,
    Store,
    Unknown,
    inverse,
    saga_scope,
)
from saga_core.fold import fold
from saga_core.report import report_of
from saga_core.stores.store import Backend

from .world import Ended, Lost, World, declare, in_plain_scope, in_scope, lose, unique

HOSTILE: dict[str, Any] = {
    "a lone surrogate": "half an emoji \ud83d",
    "none": None,
    "a number": 42,
    "an object": object(),
    "an exception": ValueError("mine"),
    "long": "x" * 100_000,
    "lines": "a\nb\x00\x1b[31m",
}


class Unspeakable:
    """A thing that cannot be shown."""

    def __repr__(self) -> str:
        raise ZeroDivisionError

    __str__ = __repr__


def check(store: Store, ended: Ended) -> None:
    """Compare the report with what another process would read."""
    assert isinstance(store, Backend)
    reading = store.read(ended.saga.id)
    assert reading is not None
    assert reading.damage is None
    assert report_of(fold(reading.records)) == ended.saga.report
    str(ended.saga.report).encode()


@pytest.mark.parametrize("word", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("form", ["plain", "async"])
def test_any_reason_for_a_rollback_rolls_back(store: Store, world: World, form: str, word: Any) -> None:
    tools = declare(world)

    def body(saga: Saga) -> None:
        tools.charge_now("hotel")
        saga.rollback(word)

    async def async_body(saga: Saga) -> None:
        await tools.charge("hotel")
        async with saga_scope():
            pass
        saga.rollback(word)

    ended = in_plain_scope(store, body) if form == "plain" else in_scope(store, async_body)
    assert isinstance(ended.error, TypeError) or ended.error is None
    assert world.standing == []
    assert ended.saga.report.state == "rolled_back"
    check(store, ended)


@pytest.mark.parametrize("word", HOSTILE.values(), ids=HOSTILE)
def test_any_reason_for_a_suspension_suspends(store: Store, world: World, word: Any) -> None:
    tools = declare(world)

    def body(saga: Saga) -> None:
        tools.charge_now("hotel")
        saga.suspend(word)

    ended = in_plain_scope(store, body, key="k")
    assert isinstance(ended.error, TypeError) or ended.error is None
    assert ended.saga.report.state == ("rolled_back" if ended.error else "suspended")
    check(store, ended)


@pytest.mark.parametrize("word", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("where", ["name", "key", "tag", "tag name"])
def test_what_a_scope_is_opened_with_is_recorded_or_refused(store: Store, world: World, where: str, word: Any) -> None:
    tools = declare(world)
    options: dict[str, Any] = {"name": {}, "key": {"key": word}, "tag": {"tags": {"a": word}}}.get(
        where, {"tags": {word: "a"}}
    )
    names = (word,) if where == "name" else ()

    def open_it() -> Saga | None:
        try:
            with saga_scope(*names, store=store, **options) as saga:
                tools.charge_now("hotel")
        except (SagaError, TypeError):
            return None
        return saga

    saga = open_it()
    assert world.standing == ([] if saga is None else ["hotel"])
    if saga is not None:
        check(store, Ended(saga, None))
    assert isinstance(store, Backend)
    assert list(store.open_sagas()) == []


@pytest.mark.parametrize("word", HOSTILE.values(), ids=HOSTILE)
def test_any_reason_of_a_rule_refuses(store: Store, world: World, word: Any) -> None:
    tools = declare(world)

    def body(saga: Saga) -> None:
        with pytest.raises(GateRefused):
            tools.charge_now("hotel")

    ended = in_plain_scope(store, body, gate=Gate(lambda _: Refuse(word)))
    assert ended.error is None
    assert world.sent == []
    check(store, ended)


@pytest.mark.parametrize("word", [*HOSTILE.values(), Unspeakable()], ids=[*HOSTILE, "unspeakable"])
def test_any_reason_of_a_probe_is_a_case(store: Store, world: World, word: Any) -> None:
    tools = declare(world, probe=lambda _: Unknown(word), lands_within=timedelta(0))
    world.after["flight"].append(lose)

    async def body(saga: Saga) -> None:
        await tools.charge("hotel")
        try:
            async with asyncio.timeout(0):
                await tools.charge("flight")
        except (TimeoutError, Lost):
            pass
        raise ZeroDivisionError

    ended = in_scope(store, body)
    assert isinstance(ended.error, ZeroDivisionError)
    assert "hotel" not in world.standing
    check(store, ended)


ANSWERS: dict[str, Callable[[], Any]] = {
    "a conflict that cannot be shown": lambda: Conflict(wrote=Unspeakable(), found=Unspeakable()),
    "a conflict of half an emoji": lambda: Conflict(wrote="\ud83d", found=["\ud83d"]),
    "a long conflict": lambda: Conflict(wrote="x" * 10**6, found=b"x" * 10**6),
    "pending without a time": lambda: Pending("re_1", check_after=5),  # pyright: ignore[reportArgumentType]
    "pending for ever": lambda: Pending("re_1", check_after=timedelta.max),
    "pending since yesterday": lambda: Pending("re_1", check_after=-timedelta(days=1)),
    "pending without a name": lambda: Pending(None, check_after=timedelta(0)),  # pyright: ignore[reportArgumentType]
    "pending under half an emoji": lambda: Pending("\ud83d", check_after=timedelta(0)),
    "pending under what cannot be shown": lambda: Pending(Unspeakable(), check_after=timedelta(0)),  # pyright: ignore[reportArgumentType]
    "unspeakable": Unspeakable,
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("form", ["plain", "async"])
def test_any_answer_of_an_inverse_lets_the_others_be_undone(
    store: Store, world: World, form: str, answer: Callable[[], Any]
) -> None:
    tools = declare(world)
    world.on_undo["flight"].append(answer)

    def body(saga: Saga) -> None:
        for item in ("hotel", "flight", "car"):
            tools.charge_now(item)
        raise ZeroDivisionError

    async def async_body(saga: Saga) -> None:
        for item in ("hotel", "flight", "car"):
            await tools.charge(item)
        raise ZeroDivisionError

    ended = in_plain_scope(store, body) if form == "plain" else in_scope(store, async_body)
    assert isinstance(ended.error, ZeroDivisionError)
    assert world.undone == ["car", "hotel"]
    assert not ended.saga.report.is_clean
    assert ended.saga.report.state == "needs_human" or ended.states[1] == "undo_pending"
    check(store, ended)


COMPENSATIONS: dict[str, Callable[[str], Compensation]] = {
    "an argument that is no JSON": lambda name: Compensation(name, 1, {"charge_id": object()}),
    "an argument of half an emoji": lambda name: Compensation(name, 1, {"charge_id": "\ud83d"}),
    "no mapping": lambda name: Compensation(name, 1, ["ch_1"]),  # pyright: ignore[reportArgumentType]
    "a version that is no number": lambda name: Compensation(name, "1", {"charge_id": "ch_1"}),  # pyright: ignore[reportArgumentType]
    "a name that is no text": lambda _: Compensation(None, 1, {"charge_id": "ch_1"}),  # pyright: ignore[reportArgumentType]
    "an argument too many": lambda name: Compensation(name, 1, {"charge_id": "ch_1", "b": 2}),
    "a number that is not finite": lambda name: Compensation(name, 1, {"charge_id": float("nan")}),
    "a huge number": lambda name: Compensation(name, 1, {"charge_id": 2**80}),
}


@pytest.mark.parametrize("made", COMPENSATIONS.values(), ids=COMPENSATIONS)
def test_a_compensation_that_is_not_bound_is_a_case_and_costs_no_result(
    store: Store, world: World, made: Callable[[str], Compensation]
) -> None:
    tools = declare(world, undo=lambda _: made(refund.name))
    refund = tools.refund
    other = declare(world)

    async def body(saga: Saga) -> None:
        assert await tools.charge("odd") == {"id": "ch_1", "item": "odd"}
        await other.charge("fine")
        raise ZeroDivisionError

    ended = in_scope(store, body)
    assert isinstance(ended.error, ZeroDivisionError)
    assert world.standing == ["odd"]
    assert (ended.saga.report.state, len(ended.saga.report.cases)) == ("needs_human", 1)
    check(store, ended)


@pytest.mark.parametrize("made", COMPENSATIONS.values(), ids=COMPENSATIONS)
def test_a_keyed_undo_that_is_not_bound_calls_nothing(
    store: Store, world: World, made: Callable[[str], Compensation]
) -> None:
    @inverse(unique("void"))
    def void(charge_id: str) -> None: ...

    def keyed(attempt: Attempt) -> Compensation:
        return made(void.name)

    tools = declare(world, keyed_undo=keyed)
    other = declare(world)

    def body(saga: Saga) -> None:
        try:
            tools.charge_now("odd")
        except (SagaError, TypeError, ValueError):
            refused.append(True)
        other.charge_now("fine")
        raise ZeroDivisionError

    refused: list[bool] = []
    ended = in_plain_scope(store, body)
    assert isinstance(ended.error, ZeroDivisionError)
    assert world.standing == []
    check(store, ended)


@pytest.mark.parametrize("option", ["lands_within", "undo_within", "timeout"])
@pytest.mark.parametrize("form", ["plain", "async"])
def test_for_ever_is_a_time(store: Store, world: World, option: str, form: str) -> None:
    """Users write timedelta.max where they mean that there is no limit."""
    options: dict[str, Any] = {option: timedelta.max}
    tools = declare(world, **options)

    def body(saga: Saga) -> None:
        tools.charge_now("hotel")
        raise ZeroDivisionError

    async def async_body(saga: Saga) -> None:
        await tools.charge("hotel")
        raise ZeroDivisionError

    ended = in_plain_scope(store, body) if form == "plain" else in_scope(store, async_body)
    assert isinstance(ended.error, ZeroDivisionError)
    assert world.sent == ["charge hotel", "refund hotel"]
    assert ended.saga.report.is_clean
    check(store, ended)


@pytest.mark.parametrize("option", ["drain_timeout", "unwind_timeout"])
@pytest.mark.parametrize("form", ["plain", "async"])
def test_a_scope_may_wait_for_ever(store: Store, world: World, option: str, form: str) -> None:
    tools = declare(world)

    def body(saga: Saga) -> None:
        tools.charge_now("hotel")
        raise ZeroDivisionError

    async def async_body(saga: Saga) -> None:
        await tools.charge("hotel")
        raise ZeroDivisionError

    limits: dict[str, Any] = {option: timedelta.max}
    ended = in_plain_scope(store, body, **limits) if form == "plain" else in_scope(store, async_body, **limits)
    assert isinstance(ended.error, ZeroDivisionError)
    assert world.standing == []
    assert ended.saga.report.is_clean


@dataclass(frozen=True)
class Frozen(Exception):
    """An error that takes no note: setting anything on it raises."""

    text: str


@pytest.mark.parametrize("form", ["plain", "async"])
def test_an_exception_that_takes_no_note_comes_out_as_it_was(store: Store, world: World, form: str) -> None:
    tools = declare(world)
    mine = Frozen("mine")

    def fail() -> None:
        raise mine

    world.after["flight"].append(fail)

    def body(saga: Saga) -> None:
        tools.charge_now("hotel")
        tools.charge_now("flight")

    async def async_body(saga: Saga) -> None:
        await tools.charge("hotel")
        await tools.charge("flight")

    ended = in_plain_scope(store, body) if form == "plain" else in_scope(store, async_body)
    assert ended.error is mine
    assert ended.states == ["undone", "in_doubt"]
    assert len(ended.saga.report.cases) == 1
    check(store, ended)
