"""Sagas that are found again by their key: suspended, resumed, repeated, refused."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from saga_core import (
    Landed,
    NotLanded,
    Saga,
    SagaBusy,
    SagaClosed,
    StepInDoubt,
    StepMismatch,
    Store,
    Unknown,
    current_step,
    saga_scope,
)
from saga_core.errors import SagaUnsettled
from saga_core.stores.store import Backend

from .world import Cut, Declined, Lost, World, declare, decline, done, in_plain_scope, in_scope, left_open, lose


def suspend(store: Store, world: World, tools: Any, *items: str, key: str = "order-1") -> str:
    async def body(saga: Saga) -> None:
        for item in items:
            await tools.charge(item)
        saga.suspend("waits for the customer")
        with pytest.raises(SagaClosed, match="waits for the customer"):
            await tools.charge("never")

    ended = in_scope(store, body, key=key)
    assert ended.error is None
    assert ended.saga.report.state == "suspended"
    assert not ended.saga.report.is_clean
    return ended.saga.id


def test_a_suspended_saga_is_resumed_by_its_key_and_repeats_nothing(store: Store, world: World) -> None:
    tools = declare(world)
    suspended = suspend(store, world, tools, "hotel", "flight")
    assert left_open(store) == [suspended]
    assert world.standing == ["hotel", "flight"]

    async def body(saga: Saga) -> None:
        assert saga.id == suspended
        assert await tools.charge("hotel") == {"id": "ch_1", "item": "hotel"}
        assert await tools.charge("flight") == {"id": "ch_2", "item": "flight"}
        assert await tools.charge("car") == {"id": "ch_3", "item": "car"}

    ended = in_scope(store, body, key="order-1")
    assert ended.error is None
    assert world.sent == ["charge hotel", "charge flight", "charge car"]
    assert ended.saga.report.is_clean
    assert done(store) == [suspended]


def test_a_resumed_saga_that_fails_undoes_both_halves(store: Store, world: World) -> None:
    tools = declare(world)
    suspend(store, world, tools, "hotel", "flight")

    async def body(saga: Saga) -> None:
        await tools.charge("hotel")
        await tools.charge("flight")
        await tools.charge("car")
        raise ValueError

    ended = in_scope(store, body, key="order-1")
    assert world.undone == ["car", "flight", "hotel"]
    assert ended.saga.report.state == "rolled_back"


def test_a_resumed_saga_that_fails_before_its_first_call_undoes_the_first_half(store: Store, world: World) -> None:
    tools = declare(world)
    suspend(store, world, tools, "hotel")

    async def body(saga: Saga) -> None:
        raise ValueError

    in_scope(store, body, key="order-1")
    assert world.standing == []


def test_a_resumed_saga_called_otherwise_is_refused(store: Store, world: World) -> None:
    tools = declare(world)
    suspend(store, world, tools, "hotel")

    async def body(saga: Saga) -> None:
        with pytest.raises(StepMismatch):
            await tools.charge("castle")

    in_scope(store, body, key="order-1")
    assert world.sent == ["charge hotel"]


def test_a_saga_can_be_suspended_again_and_again(store: Store, world: World) -> None:
    tools = declare(world)
    ids = {suspend(store, world, tools, *("a", "b", "c")[:count]) for count in (1, 2, 3)}
    assert len(ids) == 1
    assert world.sent == ["charge a", "charge b", "charge c"]


def commit(store: Store, tools: Any) -> str:
    async def body(saga: Saga) -> None:
        await tools.charge("hotel")

    ended = in_scope(store, body, key="k")
    assert ended.saga.report.state == "committed"
    return ended.saga.id


def test_the_key_of_a_committed_saga_raises(store: Store, world: World) -> None:
    tools = declare(world)
    committed = commit(store, tools)
    for _ in range(2):
        with pytest.raises(SagaClosed, match="committed") as caught, saga_scope(store=store, key="k"):
            raise AssertionError("it opened")
        assert caught.value.saga_id == committed
    assert world.sent == ["charge hotel"]


def test_the_key_of_a_committed_saga_begins_a_new_one_if_wanted(store: Store, world: World) -> None:
    tools = declare(world)
    committed = commit(store, tools)

    async def body(saga: Saga) -> None:
        assert saga.id != committed
        await tools.charge("hotel")

    assert in_scope(store, body, key="k", if_settled="new").error is None
    assert world.standing == ["hotel", "hotel"]


def test_the_key_of_a_committed_saga_returns_its_results_if_wanted(store: Store, world: World) -> None:
    tools = declare(world)
    committed = commit(store, tools)

    async def body(saga: Saga) -> None:
        assert saga.id == committed
        assert await tools.charge("hotel") == {"id": "ch_1", "item": "hotel"}
        with pytest.raises(SagaClosed):
            await tools.charge("flight")
        with pytest.raises(SagaClosed):
            await tools.charge.at("elsewhere")("hotel")
        async with saga_scope("inner"):
            with pytest.raises(SagaClosed):
                await tools.charge("hotel")

    for _ in range(2):
        ended = in_scope(store, body, key="k", if_settled="return")
        assert ended.error is None
        assert ended.saga.report.state == "committed"
    assert world.sent == ["charge hotel"]


def test_a_replay_that_fails_undoes_nothing(store: Store, world: World) -> None:
    tools = declare(world)
    commit(store, tools)

    async def body(saga: Saga) -> None:
        await tools.charge("hotel")
        raise ZeroDivisionError

    ended = in_scope(store, body, key="k", if_settled="return")
    assert isinstance(ended.error, ZeroDivisionError)
    assert world.standing == ["hotel"]
    assert ended.saga.report.state == "committed"


def test_a_rolled_back_key_begins_a_new_generation(store: Store, world: World) -> None:
    tools = declare(world)
    ids: list[str] = []

    async def body(saga: Saga) -> None:
        ids.append(saga.id)
        await tools.charge("hotel")
        if len(ids) < 3:
            raise ValueError

    for fails in (True, True, False):
        assert in_scope(store, body, key="k").saga.report.state == ("rolled_back" if fails else "committed")
    assert len(set(ids)) == 3
    assert world.standing == ["hotel"]
    assert world.landed("hotel") == 3


@pytest.mark.parametrize("form", ["plain", "async"])
def test_a_key_in_use_is_busy(store: Store, world: World, form: str) -> None:
    tools = declare(world)

    def second() -> None:
        if form == "plain":
            with saga_scope(store=store, key="k"):
                raise AssertionError("it opened")

        async def scope() -> None:
            async with saga_scope(store=store, key="k"):
                raise AssertionError("it opened")

        asyncio.run(scope())

    def body(saga: Saga) -> None:
        tools.charge_now("hotel")
        failures: list[BaseException] = []

        def work() -> None:
            try:
                second()
            except BaseException as error:  # noqa: BLE001
                failures.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join(20)
        assert [type(error) for error in failures] == [SagaBusy]

    assert in_plain_scope(store, body, key="k").error is None
    assert world.standing == ["hotel"]


def test_a_key_is_busy_while_the_janitor_unwinds_its_saga(store: Store, world: World) -> None:
    tools = declare(world, probe=lambda _: NotLanded(), lands_within=timedelta(hours=1))
    world.before["hotel"].append(lose)

    async def body(saga: Saga) -> None:
        with pytest.raises(Lost):
            await tools.charge("hotel")
        raise ValueError

    ended = in_scope(store, body, key="k", unwind_timeout=timedelta(milliseconds=20))
    assert ended.saga.report.state == "unwinding"
    with pytest.raises(SagaBusy), saga_scope(store=store, key="k"):
        raise AssertionError("it opened")


def test_a_key_whose_saga_waits_for_a_person_is_unsettled(store: Store, world: World) -> None:
    tools = declare(world)
    world.on_undo["hotel"].append(lambda: "nonsense")

    async def body(saga: Saga) -> None:
        await tools.charge("hotel")
        raise ValueError

    ended = in_scope(store, body, key="k")
    for if_settled in ("raise", "new", "return"):
        with (
            pytest.raises(SagaUnsettled, match="needs human") as caught,
            saga_scope(store=store, key="k", if_settled=if_settled),
        ):
            raise AssertionError("it opened")
        assert caught.value.saga_id == ended.saga.id
    assert world.sent == ["charge hotel"]


def test_a_key_whose_saga_committed_with_a_case_is_unsettled(store: Store, world: World) -> None:
    tools = declare(world)
    world.after["hotel"].append(lose)

    async def body(saga: Saga) -> None:
        with pytest.raises(Lost):
            await tools.charge("hotel")

    in_scope(store, body, key="k")
    with pytest.raises(SagaUnsettled), saga_scope(store=store, key="k", if_settled="new"):
        raise AssertionError("it opened")


def test_two_keys_are_two_sagas(store: Store, world: World) -> None:
    tools = declare(world)
    first = suspend(store, world, tools, "hotel", key="a")
    second = suspend(store, world, tools, "hotel", key="b")
    assert first != second
    assert world.standing == ["hotel", "hotel"]


def test_a_step_in_doubt_is_settled_when_a_resumed_saga_comes_to_it(store: Store, world: World) -> None:
    known = threading.Event()

    def probe(attempt: Any) -> Any:
        return Landed({"id": world.find(attempt.key), "item": "hotel"}) if known.is_set() else Unknown("down")

    tools = declare(world, probe=probe)
    cut = Cut()
    world.after["hotel"].append(cut)

    async def body(saga: Saga) -> None:
        with pytest.raises(TimeoutError):
            async with cut:
                await tools.charge("hotel")
        saga.suspend("later")

    assert in_scope(store, body, key="k").saga.report.state == "suspended"
    known.set()

    async def again(saga: Saga) -> None:
        assert await tools.charge("hotel") == {"id": "ch_1", "item": "hotel"}
        raise ValueError

    ended = in_scope(store, again, key="k")
    assert world.landed("hotel") == 1
    assert ended.states == ["undone"]


def test_a_replayable_step_in_doubt_is_sent_again_under_its_key(store: Store, world: World) -> None:
    tools = declare(world, replay=True)
    keys: list[str] = []

    def note_key() -> None:
        keys.append(current_step().key)

    cut = Cut()

    async def note_and_hang() -> None:
        note_key()
        await cut()

    world.before["hotel"] += [note_and_hang, note_key]

    async def body(saga: Saga) -> None:
        with pytest.raises(TimeoutError):
            async with cut:
                await tools.charge("hotel")
        saga.suspend("later")

    in_scope(store, body, key="k")

    async def again(saga: Saga) -> None:
        assert (await tools.charge("hotel"))["id"] == "ch_1"

    ended = in_scope(store, again, key="k")
    assert ended.error is None
    assert len(keys) == 2
    assert keys[0] == keys[1]
    assert world.landed("hotel") == 1
    assert ended.saga.report.is_clean


def test_a_resumed_saga_keeps_its_inner_scopes_results(store: Store, world: World) -> None:
    tools = declare(world)

    async def body(saga: Saga) -> None:
        async with saga_scope("inner"):
            await tools.charge("1")
        await tools.charge("2")
        if not resumed:
            saga.suspend("later")

    resumed = False
    in_scope(store, body, key="k")
    resumed = True
    ended = in_scope(store, body, key="k")
    assert ended.error is None
    assert world.sent == ["charge 1", "charge 2"]
    assert ended.saga.report.is_clean


def test_a_resumed_saga_does_an_undone_inner_scope_again(store: Store, world: World) -> None:
    """What was undone is a new attempt through the gate."""
    tools = declare(world)

    async def body(saga: Saga) -> None:
        try:
            async with saga_scope("inner"):
                await tools.charge("1")
                if not resumed:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            saga.suspend("later")

    resumed = False
    in_scope(store, body, key="k")
    assert world.standing == []
    resumed = True
    ended = in_scope(store, body, key="k")
    assert ended.error is None
    assert world.standing == ["1"]
    assert world.landed("1") == 2
    assert ended.saga.report.is_clean


def test_a_key_is_read_by_people_and_found_in_any_spelling(store: Store, world: World) -> None:
    tools = declare(world)
    for key in ("a b", "", "ключ", "x" * 500, "'; drop table keys; --"):

        def body(saga: Saga) -> None:
            tools.charge_now("hotel")
            saga.suspend("later")

        first = in_plain_scope(store, body, key=key)
        second = in_plain_scope(store, body, key=key)
        assert first.saga.id == second.saga.id
        assert first.saga.key == key


def test_many_scopes_that_race_for_a_key_make_one_saga(store: Store, world: World) -> None:
    tools = declare(world)
    start = threading.Barrier(6)
    outcomes: list[str] = []

    def race() -> None:
        start.wait(10)
        try:
            with saga_scope(store=store, key="k"):
                tools.charge_now("hotel")
        except (SagaBusy, SagaClosed) as error:
            outcomes.append(type(error).__name__)
        else:
            outcomes.append("done")

    threads = [threading.Thread(target=race) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert outcomes.count("done") == 1
    assert len(outcomes) == 6
    assert world.sent == ["charge hotel"]
    assert isinstance(store, Backend)
    assert left_open(store) == []


@pytest.mark.parametrize("failure", ["declined", "lost, found missing", "in doubt"])
def test_a_call_that_its_caller_retried_is_not_sent_again_by_the_resumed_program(
    store: Store, world: World, failure: str
) -> None:
    """The retry took a position of its own: the program that begins again comes to the first one and succeeds there."""
    known = threading.Event()

    def probe(attempt: Any) -> Any:
        found = world.find(attempt.key)
        if failure == "in doubt" and not known.is_set():
            return NotLanded()  # too early to count
        return NotLanded() if found is None else Landed({"id": found, "item": "hotel"})

    late = timedelta(hours=1) if failure == "in doubt" else timedelta(0)
    tools = declare(world, probe=probe, not_landed=Declined, lands_within=late)
    (world.after if failure == "in doubt" else world.before)["hotel"].append(decline if failure == "declined" else lose)

    def program(saga: Saga) -> None:
        for _ in range(2):
            try:
                tools.charge_now("hotel")
            except (Declined, Lost, StepInDoubt):
                continue
            break
        tools.charge_now("flight")

    def body(saga: Saga) -> None:
        program(saga)
        saga.suspend("later")

    in_plain_scope(store, body, key="k")
    sent = list(world.sent)
    known.set()
    ended = in_plain_scope(store, program, key="k")
    assert ended.error is None
    assert world.sent == sent
    assert world.standing == ["hotel", "flight"]
    assert ended.saga.report.is_clean
