"""A step that failed towards its caller and landed after all is never kept silently."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

from saga_core import Landed, NotLanded, Saga, Store, Unknown
from saga_core.engine import recall

from .world import Cut, Lost, World, declare, done, in_plain_scope, in_scope, lose

NOW = timedelta(0)
SOON = timedelta(milliseconds=80)
LONG = timedelta(hours=1)


def blind_until_the_end(world: World) -> Any:
    """Return a probe that cannot tell before the scope ends, and from then on knows."""
    asked: list[str] = []

    def probe(attempt: Any) -> Any:
        asked.append(attempt.key)
        if attempt.args["item"] in world.standing and "the end" in world.sent:
            return Landed({"id": world.find(attempt.key), "item": attempt.args["item"]})
        return NotLanded()

    return probe


@pytest.mark.parametrize("form", ["plain", "async"])
def test_a_charge_that_was_retried_elsewhere_and_landed_twice_stands_once(
    store: Store, world: World, form: str
) -> None:
    tools = declare(world, probe=blind_until_the_end(world), lands_within=LONG)
    world.after["hotel"].append(lose)

    def body(saga: Saga) -> None:
        with pytest.raises(Lost):
            tools.charge_now("hotel")
        assert tools.charge_now.at("retry")("hotel")["id"] == "ch_2"
        world.sent.append("the end")

    async def async_body(saga: Saga) -> None:
        with pytest.raises(Lost):
            await tools.charge("hotel")
        assert (await tools.charge.at("retry")("hotel"))["id"] == "ch_2"
        world.sent.append("the end")

    limits: dict[str, Any] = {
        "unwind_timeout": timedelta(seconds=1)
    }  # the end asks afresh, however lately it was asked
    ended = in_plain_scope(store, body, **limits) if form == "plain" else in_scope(store, async_body, **limits)
    assert ended.error is None
    assert world.standing == ["hotel"]
    assert world.landed("hotel") == 2
    assert ended.states == ["undone", "applied"]
    assert (ended.saga.report.state, ended.saga.report.is_clean) == ("committed", True)
    assert done(store) == [ended.saga.id]


def test_a_stray_may_be_left_to_a_person(store: Store, world: World) -> None:
    tools = declare(world, probe=blind_until_the_end(world), lands_within=LONG)
    world.after["hotel"].append(lose)

    async def body(saga: Saga) -> None:
        with pytest.raises(Lost):
            await tools.charge("hotel")
        await tools.charge.at("retry")("hotel")
        world.sent.append("the end")

    ended = in_scope(store, body, stray="case")
    assert world.standing == ["hotel", "hotel"]
    assert ended.states == ["applied", "applied"]
    assert (ended.saga.report.state, ended.saga.report.is_clean) == ("committed", False)
    assert len(ended.saga.report.cases) == 1
    assert done(store) == []


@pytest.mark.parametrize("stray", ["undo", "case"])
def test_a_stray_of_a_saga_that_fails_is_undone_with_the_rest(store: Store, world: World, stray: str) -> None:
    tools = declare(world, probe=blind_until_the_end(world), lands_within=LONG)
    world.after["hotel"].append(lose)

    def body(saga: Saga) -> None:
        with pytest.raises(Lost):
            tools.charge_now("hotel")
        tools.charge_now("car")
        world.sent.append("the end")
        raise ZeroDivisionError

    ended = in_plain_scope(store, body, stray=stray)
    assert world.standing == []
    assert ended.states == ["undone", "undone"] or stray == "case"
    assert ended.saga.report.is_clean


def test_a_cancelled_call_that_landed_is_a_stray(store: Store, world: World) -> None:
    tools = declare(world, probe=True, lands_within=SOON)
    cut = Cut()
    world.after["hotel"].append(cut)

    async def body(saga: Saga) -> None:
        with pytest.raises(TimeoutError):
            async with cut:
                await tools.charge("hotel")
        await tools.charge("car")

    ended = in_scope(store, body)
    assert ended.error is None
    assert world.standing == ["car"]
    assert ended.saga.report.is_clean


def test_a_stray_that_cannot_be_undone_is_a_case(store: Store, world: World) -> None:
    tools = declare(world, probe=True, lands_within=SOON)
    cut = Cut()
    world.after["hotel"].append(cut)
    world.on_undo["hotel"].append(lambda: "nonsense")

    async def body(saga: Saga) -> None:
        with pytest.raises(TimeoutError):
            async with cut:
                await tools.charge("hotel")
        await tools.charge("car")

    ended = in_scope(store, body)
    assert ended.error is None
    assert world.standing == ["hotel", "car"]
    assert (ended.saga.report.state, ended.saga.report.is_clean) == ("committed", False)
    assert len(ended.saga.report.cases) == 1


def test_a_stray_found_by_the_repeat_of_its_call_is_undone_by_the_commit(store: Store, world: World) -> None:
    """The repeat finds that the first call landed; it runs, and at the commit exactly one of the two stands."""
    known = False

    def probe(attempt: Any) -> Any:
        return Landed({"id": world.find(attempt.key), "item": "hotel"}) if known else NotLanded()

    tools = declare(world, probe=probe, lands_within=LONG)
    world.after["hotel"].append(lose)

    def body(saga: Saga) -> None:
        nonlocal known
        with pytest.raises(Lost):
            tools.charge_now("hotel")
        known = True
        tools.charge_now("hotel")

    ended = in_plain_scope(store, body)
    assert ended.error is None
    assert world.standing == ["hotel"]
    assert ended.saga.report.is_clean


def test_a_named_call_found_landed_by_its_repeat_is_returned_and_kept(store: Store, world: World) -> None:
    """The caller has its result now: nothing is a stray any more."""
    known = False

    def probe(attempt: Any) -> Any:
        return Landed({"id": world.find(attempt.key), "item": "hotel"}) if known else NotLanded()

    tools = declare(world, probe=probe, lands_within=LONG)
    world.after["hotel"].append(lose)

    def body(saga: Saga) -> None:
        nonlocal known
        with pytest.raises(Lost):
            tools.charge_now.at("line-1")("hotel")
        known = True
        assert tools.charge_now.at("line-1")("hotel") == {"id": "ch_1", "item": "hotel"}

    ended = in_plain_scope(store, body)
    assert ended.error is None
    assert world.sent == ["charge hotel"]
    assert world.standing == ["hotel"]
    assert ended.saga.report.is_clean


def test_a_doubt_that_the_commit_cannot_settle_is_a_case_and_undoes_nothing(store: Store, world: World) -> None:
    tools = declare(world, probe=lambda _: Unknown("down"), lands_within=NOW)
    cut = Cut()
    world.after["hotel"].append(cut)

    async def body(saga: Saga) -> None:
        with pytest.raises(TimeoutError):
            async with cut:
                await tools.charge("hotel")
        await tools.charge("car")

    ended = in_scope(store, body)
    assert ended.error is None
    assert world.standing == ["hotel", "car"]
    assert (ended.saga.report.state, ended.saga.report.is_clean) == ("committed", False)
    assert len(ended.saga.report.cases) == 1


def test_a_commit_that_has_no_time_to_settle_a_doubt_leaves_it_to_a_person(store: Store, world: World) -> None:
    tools = declare(world, probe=lambda _: NotLanded(), lands_within=LONG)
    world.before["hotel"].append(lose)

    def body(saga: Saga) -> None:
        with pytest.raises(Lost):
            tools.charge_now("hotel")

    ended = in_plain_scope(store, body, unwind_timeout=timedelta(milliseconds=30))
    assert ended.error is None
    assert ended.states == ["in_doubt"]
    assert (ended.saga.report.state, ended.saga.report.is_clean) == ("committed", False)
    assert len(ended.saga.report.cases) == 1


def test_an_answer_that_comes_as_its_caller_gives_up_is_told_or_is_a_stray(
    store: Store, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller either gets the result, or what landed behind its back is undone by the commit."""
    monkeypatch.setattr(recall, "_SETTLE_WITHIN", 0.05)
    gave_up = threading.Event()

    def undo(call: Any) -> Any:
        gave_up.wait(0.5)
        return tools.refund.bind(call.result["id"])

    tools = declare(world, probe=True, undo=undo)
    world.after["hotel"].append(lose)
    told: list[str] = []

    def body(saga: Saga) -> None:
        try:
            told.append(tools.charge_now("hotel")["item"])
        except Lost:
            gave_up.set()

    ended = in_plain_scope(store, body)
    assert ended.error is None
    assert world.standing == told
    assert ended.saga.report.is_clean
