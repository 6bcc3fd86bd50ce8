"""What inverses answer, and what they do not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from saga_core import (
    AlreadyUndone,
    Call,
    Conflict,
    Landed,
    NotLanded,
    Pending,
    Saga,
    Store,
    Unknown,
    current_step,
    inverse,
)
from saga_core.clock import SystemClock

from .world import Lost, World, declare, done, eventually, in_plain_scope, in_scope, left_open, lose, unique


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries follow one another without a wait."""

    def no_wait(_: SystemClock) -> float:
        return 0.0

    monkeypatch.setattr(SystemClock, "jitter", no_wait)


def three(tools: Any) -> Callable[[Saga], Any]:
    async def body(saga: Saga) -> None:
        for item in ("hotel", "flight", "car"):
            await tools.charge(item)
        raise ValueError

    return body


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("failures", [1, 2, 5])
@pytest.mark.parametrize("sync_inverse", [True, False])
def test_an_inverse_that_raises_is_tried_again_under_the_same_key(
    store: Store, world: World, failures: int, *, sync_inverse: bool
) -> None:
    tools = declare(world, sync_inverse=sync_inverse)
    keys: list[str] = []

    def fail() -> None:
        keys.append(current_step().key)
        raise Lost

    world.on_undo["flight"] += [fail] * failures
    ended = in_scope(store, three(tools))
    assert ended.states == ["undone"] * 3
    assert set(keys) == set(world.keys["flight"])
    assert len(keys) == failures
    assert len(world.keys["flight"]) == 1
    assert ended.saga.report.is_clean


@pytest.mark.usefixtures("at_once")
def test_an_inverse_whose_answer_is_lost_is_sent_again_under_the_same_key(store: Store, world: World) -> None:
    tools = declare(world)
    world.after_undo["flight"] += [lose] * 3
    ended = in_scope(store, three(tools))
    assert ended.states == ["undone"] * 3
    assert len(world.keys["flight"]) == 4
    assert len(set(world.keys["flight"])) == 1


@pytest.mark.usefixtures("at_once")
def test_an_inverse_that_never_succeeds_becomes_a_case_and_holds_up_nothing_else(store: Store, world: World) -> None:
    tools = declare(world)
    tries: list[str] = []

    def fail() -> None:
        tries.append(current_step().key)
        raise Lost

    world.on_undo["flight"] += [fail] * 1000
    ended = in_scope(store, three(tools))
    assert ended.states == ["undone", "undo_failed", "undone"]
    assert world.standing == ["flight"]
    assert 3 <= len(tries) <= 10
    assert len(set(tries)) == 1
    assert (ended.saga.report.state, len(ended.saga.report.cases)) == ("needs_human", 1)
    assert left_open(store) == [ended.saga.id]
    assert "1 for a person" in ended.notes


def test_an_inverse_says_itself_when_to_try_again(store: Store, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: SystemClock) -> float:
        raise AssertionError("the engine chose the wait itself")

    monkeypatch.setattr(SystemClock, "jitter", never)

    class Limited(Exception):
        def __init__(self, retry_after: object) -> None:
            super().__init__()
            self.retry_after = retry_after

    tools = declare(world)
    waits: list[object] = [0.01, timedelta(milliseconds=10), 1e-9]

    def fail() -> None:
        raise Limited(waits.pop(0))

    world.on_undo["flight"] += [fail] * 3
    assert in_scope(store, three(tools)).states == ["undone"] * 3
    assert waits == []


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("wait", [float("nan"), -1, "soon", None])
def test_a_nonsensical_wait_is_not_obeyed(store: Store, world: World, wait: object) -> None:
    class Limited(Exception):
        retry_after = wait

    tools = declare(world)

    def fail() -> None:
        raise Limited

    world.on_undo["flight"] += [fail]
    ended = in_scope(store, three(tools), unwind_timeout=timedelta(seconds=3))
    assert ended.states == ["undone"] * 3


def test_a_conflict_is_left_alone_and_put_before_a_person(store: Store, world: World) -> None:
    tools = declare(world)
    world.on_undo["flight"] += [lambda: Conflict(wrote="Won", found="Lost")]
    ended = in_scope(store, three(tools))
    assert ended.states == ["undone", "conflict", "undone"]
    assert world.standing == ["flight"]
    (case,) = ended.saga.report.cases
    assert "'Won'" in case
    assert "'Lost'" in case
    assert not ended.saga.report.is_clean


def test_what_somebody_else_undid_counts_as_undone(store: Store, world: World) -> None:
    tools = declare(world)

    def before() -> object:
        world.refund("ch_2", "a person")
        return AlreadyUndone()

    world.on_undo["flight"] += [before]
    ended = in_scope(store, three(tools))
    assert ended.states == ["undone"] * 3
    assert ended.saga.report.is_clean
    assert "somebody had undone it" in str(ended.saga.report)


class Answer:
    """What no inverse may answer."""

    def __str__(self) -> str:
        raise AssertionError("asked for its text")

    __repr__ = __str__


@pytest.mark.parametrize(
    "answer", [True, "ok", {"status": "refunded"}, Answer(), Landed(None)], ids=lambda a: type(a).__name__
)
def test_an_answer_that_is_none_becomes_a_case(store: Store, world: World, answer: object) -> None:
    tools = declare(world)
    world.on_undo["flight"] += [lambda: answer]
    ended = in_scope(store, three(tools))
    assert ended.states == ["undone", "undo_failed", "undone"]
    (case,) = ended.saga.report.cases
    assert type(answer).__qualname__ in case


def test_false_is_no_answer_either(store: Store, world: World) -> None:
    tools = declare(world)
    world.after_undo["flight"] += [lambda: False]
    ended = in_scope(store, three(tools))
    assert ended.states[1] == "undo_failed"


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("waits", [0, 1, 4])
def test_a_pending_undo_is_observed_until_it_settles(store: Store, world: World, waits: int) -> None:
    tools = declare(world)
    seen: list[Pending] = []

    @tools.refund.observe
    def observe(pending: Pending, charge_id: str) -> Any:  # pyright: ignore[reportUnusedFunction]
        seen.append(pending)
        assert charge_id == "ch_2"
        if len(seen) <= waits:
            return Pending("re_1", check_after=timedelta(milliseconds=5))
        world.refund(charge_id, current_step().key)
        return None

    world.on_undo["flight"] += [lambda: Pending("re_1", check_after=timedelta(milliseconds=7))]
    ended = in_scope(store, three(tools))
    assert ended.states == ["undone"] * 3
    assert [pending.ref for pending in seen] == ["re_1"] * (waits + 1)
    assert seen[0].check_after == timedelta(milliseconds=7)
    assert ended.saga.report.is_clean


def test_a_pending_undo_that_outlasts_the_scope_is_observed_by_the_janitor(store: Store, world: World) -> None:
    tools = declare(world)
    settled = threading.Event()

    @tools.refund.observe
    async def observe(pending: Pending, charge_id: str) -> Any:  # pyright: ignore[reportUnusedFunction]
        if not settled.is_set():
            return pending
        world.refund(charge_id, current_step().key)
        return None

    world.on_undo["flight"] += [lambda: Pending("re_1", check_after=timedelta(milliseconds=600))]
    ended = in_scope(store, three(tools), unwind_timeout=timedelta(milliseconds=500))
    assert ended.states == ["undone", "undo_pending", "undone"]
    assert (ended.saga.report.state, ended.saga.report.is_clean) == ("unwinding", False)
    assert "1 still to be settled" in ended.notes
    settled.set()
    world.wait_until(lambda: world.standing == [])
    eventually(lambda: done(store) == [ended.saga.id])
    assert ended.saga.report.is_clean


@pytest.mark.usefixtures("at_once")
def test_observing_that_raises_is_repeated(store: Store, world: World) -> None:
    tools = declare(world)
    failures = [Lost(), ValueError()]

    @tools.refund.observe
    async def observe(pending: Pending, charge_id: str) -> Any:  # pyright: ignore[reportUnusedFunction]
        if failures:
            raise failures.pop()
        world.refund(charge_id, current_step().key)
        return AlreadyUndone()

    world.on_undo["flight"] += [lambda: Pending("re_1", check_after=timedelta(milliseconds=1))]
    assert in_scope(store, three(tools)).states == ["undone"] * 3


def test_a_pending_undo_that_comes_to_nothing_is_not_called_undone(store: Store, world: World) -> None:
    tools = declare(world)

    @tools.refund.observe
    def observe(pending: Pending, charge_id: str) -> Conflict:  # pyright: ignore[reportUnusedFunction]
        return Conflict(wrote="refund", found="refund failed")

    world.on_undo["flight"] += [lambda: Pending("re_1", check_after=timedelta(0))]
    ended = in_scope(store, three(tools))
    assert ended.states == ["undone", "conflict", "undone"]
    assert len(ended.saga.report.cases) == 1


def test_a_pending_undo_that_nobody_can_observe_is_a_case(store: Store, world: World) -> None:
    tools = declare(world)
    world.on_undo["flight"] += [lambda: Pending("re_1", check_after=timedelta(0))]
    ended = in_scope(store, three(tools))
    assert ended.states == ["undone", "undo_failed", "undone"]
    assert (ended.saga.report.state, len(ended.saga.report.cases)) == ("needs_human", 1)


@pytest.mark.usefixtures("at_once")
def test_an_undo_whose_answer_was_lost_is_asked_about_before_it_is_sent_again(store: Store, world: World) -> None:
    tools = declare(world, lands_within=timedelta(milliseconds=50))
    asked: list[str] = []

    @tools.refund.probe
    async def probe(charge_id: str) -> Any:  # pyright: ignore[reportUnusedFunction]
        asked.append(charge_id)
        return NotLanded() if world.item_of(charge_id) in world.standing else Landed(None)

    world.after_undo["hotel"] += [lose]
    world.on_undo["car"] += [lose]
    ended = in_scope(store, three(tools))
    assert ended.states == ["undone"] * 3
    assert sorted(set(asked)) == ["ch_1", "ch_3"]
    assert [len(world.keys[item]) for item in ("hotel", "flight", "car")] == [1, 1, 1]


@pytest.mark.usefixtures("at_once")
def test_an_undo_that_never_lands_becomes_a_case_after_the_same_number_of_trials(store: Store, world: World) -> None:
    """The probe proves each time that it may be sent again; that does not make it hopeful for ever."""
    tools = declare(world, lands_within=timedelta(0))

    @tools.refund.probe
    def probe(charge_id: str) -> NotLanded:  # pyright: ignore[reportUnusedFunction]
        return NotLanded()

    tries: list[str] = []

    def fail() -> None:
        tries.append(current_step().key)
        raise Lost

    world.on_undo["flight"] += [fail] * 1000
    ended = in_scope(store, three(tools))
    assert ended.states == ["undone", "undo_failed", "undone"]
    assert 3 <= len(tries) <= 10
    assert len(set(tries)) == 1
    assert len(ended.saga.report.cases) == 1


@pytest.mark.usefixtures("at_once")
def test_an_undo_about_which_the_remote_cannot_tell_is_a_case(store: Store, world: World) -> None:
    tools = declare(world, lands_within=timedelta(0))

    @tools.refund.probe
    def probe(charge_id: str) -> Unknown:  # pyright: ignore[reportUnusedFunction]
        return Unknown("down")

    world.after_undo["hotel"] += [lose]
    ended = in_scope(store, three(tools))
    assert ended.states == ["undo_failed", "undone", "undone"]
    assert "down" in ended.saga.report.cases[0]
    assert len(world.keys["hotel"]) == 1


@pytest.mark.usefixtures("at_once")
def test_a_remote_that_is_down_for_a_moment_is_asked_about_the_undo_again(store: Store, world: World) -> None:
    tools = declare(world)
    outage = [Lost(), Lost()]

    @tools.refund.probe
    async def probe(charge_id: str) -> Any:  # pyright: ignore[reportUnusedFunction]
        if outage:
            raise outage.pop()
        return Landed(None)

    world.after_undo["hotel"] += [lose]
    ended = in_scope(store, three(tools))
    assert ended.states == ["undone"] * 3
    assert len(world.keys["hotel"]) == 1


@pytest.mark.usefixtures("at_once")
def test_a_keyed_undo_is_sent_again_where_no_probe_can_tell(store: Store, world: World) -> None:
    tools = declare(world, keyed=True)

    @tools.refund.probe
    def probe(charge_id: str) -> Unknown:  # pyright: ignore[reportUnusedFunction]
        return Unknown("down")

    world.after_undo["hotel"] += [lose]
    ended = in_scope(store, three(tools))
    assert ended.states == ["undone"] * 3
    assert len(set(world.keys["hotel"])) == 1


@pytest.mark.parametrize("failure", [asyncio.CancelledError, SystemExit, GeneratorExit], ids=lambda kind: kind.__name__)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_inverse_that_raises_no_exception_is_not_lost_silently(
    store: Store, world: World, failure: type[BaseException], at_once: None
) -> None:
    """What a cancelled client raises inside an inverse says nothing about the scope: the step is settled or a case."""
    tools = declare(world, sync_inverse=True)

    def fail() -> None:
        raise failure

    world.on_undo["flight"] += [fail]

    def body(saga: Saga) -> None:
        for item in ("hotel", "flight", "car"):
            tools.charge_now(item)
        raise ValueError("mine")

    ended = in_plain_scope(store, body)
    assert isinstance(ended.error, ValueError)
    eventually(lambda: ended.saga.report.state in {"rolled_back", "needs_human"}, 5)
    assert world.standing == ["flight"] * ("undone" not in ended.states[1])
    assert ended.states[0] == ended.states[2] == "undone"
    assert ended.states[1] == "undone" or len(ended.saga.report.cases) == 1


def test_a_cancelled_client_inside_an_inverse_is_not_lost_silently(store: Store, world: World, at_once: None) -> None:
    tools = declare(world)

    async def fail() -> None:
        task = asyncio.ensure_future(asyncio.sleep(60))
        task.cancel()
        await task

    world.on_undo["flight"] += [fail]
    ended = in_scope(store, three(tools))
    assert isinstance(ended.error, ValueError)
    assert ended.notes
    eventually(lambda: ended.saga.report.state in {"rolled_back", "needs_human"}, 5)
    assert ended.states[0] == ended.states[2] == "undone"
    assert ended.states[1] == "undone" or len(ended.saga.report.cases) == 1


@pytest.mark.parametrize("form", ["timedelta", "function"])
def test_an_undo_whose_time_has_passed_is_a_case_and_not_an_attempt(store: Store, world: World, form: str) -> None:
    def until(call: Call[Any]) -> datetime | None:
        return datetime(2020, 1, 1, tzinfo=UTC) if call.args["item"] == "flight" else None

    tools = declare(world, undo_within=timedelta(0) if form == "timedelta" else until)
    ended = in_scope(store, three(tools))
    assert ended.states[1] == "undo_failed"
    assert "flight" in world.standing
    assert ended.states[0] == ("undo_failed" if form == "timedelta" else "undone")


def test_an_undo_within_its_time_is_done(store: Store, world: World) -> None:
    tools = declare(world, undo_within=timedelta(hours=1))
    assert in_scope(store, three(tools)).states == ["undone"] * 3


def test_the_inverse_sees_the_step_that_it_undoes(store: Store, world: World) -> None:
    tools = declare(world)
    seen: list[Any] = []

    def look() -> None:
        step = current_step()
        seen.append((step.saga_id, step.action, step.position, step.attempt, len(step.key)))

    world.on_undo["flight"] += [look]
    ended = in_scope(store, three(tools))
    ((saga_id, action, position, attempt, length),) = seen
    assert (saga_id, action, attempt, length) == (ended.saga.id, tools.charge.name, 1, 32)
    assert tools.charge.name in position


def test_a_keyed_undo_settles_what_no_probe_can(store: Store, world: World) -> None:
    """It needs no result and is harmless where nothing landed."""
    voided: list[str] = []

    @inverse(unique("void"))
    def void(key: str) -> None:
        voided.append(key)
        found = world.find(key)
        if found is not None:
            world.refund(found, key)

    tools = declare(world, keyed_undo=lambda attempt: void.bind(attempt.key), lands_within=timedelta(milliseconds=50))
    world.before["hotel"] += [lose]
    world.after["flight"] += [lose]

    async def body(saga: Saga) -> None:
        for item in ("hotel", "flight"):
            with pytest.raises(Lost):
                await tools.charge(item)
        raise ValueError

    ended = in_scope(store, body)
    assert ended.states == ["undone", "undone"]
    assert world.standing == []
    assert len(voided) == 2
    assert ended.saga.report.is_clean


def test_a_keyed_undo_waits_until_nothing_can_land_any_more(store: Store, world: World) -> None:
    """Sent earlier, it would find nothing, and the effect would land behind it."""
    voided: list[str] = []

    @inverse(unique("void"))
    def void(key: str) -> None:
        voided.append(key)

    tools = declare(world, keyed_undo=lambda attempt: void.bind(attempt.key), lands_within=timedelta(hours=1))
    world.before["hotel"] += [lose]

    async def body(saga: Saga) -> None:
        with pytest.raises(Lost):
            await tools.charge("hotel")
        raise ValueError

    ended = in_scope(store, body, unwind_timeout=timedelta(milliseconds=50))
    assert voided == []
    assert (ended.states, ended.saga.report.state) == (["in_doubt"], "unwinding")
