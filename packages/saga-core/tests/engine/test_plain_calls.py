"""A call about which nothing has to be asked takes a short way to its intent, and loses nothing on it."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from saga_core import Gate, GateRefused, SagaClosed, Store, compensable, inverse, saga_scope
from saga_core.gate import Proposal, Verdict
from saga_core.records import Intended
from saga_core.stores.store import Backend

from .world import World, declare, in_plain_scope, in_scope, unique

if TYPE_CHECKING:
    from types import FrameType

    from saga_core import Action, AsyncAction, Saga

MOST_CALLS = 45


def intents(store: Store, saga: str) -> list[Intended]:
    assert isinstance(store, Backend)
    reading = store.read(saga)
    assert reading is not None
    return [record for record in reading.records if isinstance(record, Intended)]


def plain_actions() -> tuple[AsyncAction[..., Any], Action[..., Any]]:
    @inverse(unique("give-back"))
    def give_back(charge_id: str, amount: int) -> None: ...

    def undo(call: Any) -> Any:
        return give_back.bind(charge_id=call.result["id"], amount=call.result["amount"])

    @compensable(unique("charge"), tier="process", undo=undo)
    async def charge(*, item: str, amount: int) -> dict[str, Any]:
        return {"id": item, "amount": amount}

    @compensable(unique("charge-now"), tier="process", undo=undo)
    def charge_now(*, item: str, amount: int) -> dict[str, Any]:
        return {"id": item, "amount": amount}

    return charge, charge_now


def test_a_call_that_nobody_judges_writes_the_intent_of_one_that_a_rule_lets_pass(store: Store, world: World) -> None:
    tools = declare(world)

    async def body(saga: Saga) -> None:
        await tools.charge("hotel")
        await tools.charge.at("second")(item="taxi", amount=7)
        async with saga_scope("inner"):
            await tools.charge("meal")

    short, long = in_scope(store, body), in_scope(store, body, gate=Gate(lambda _: None))
    first, second = intents(store, short.saga.id), intents(store, long.saga.id)
    assert len(first) == 3
    for one, other in zip(first, second, strict=True):
        assert msgspec.structs.replace(one, at=other.at) == other
    assert short.states == long.states == ["applied"] * 3


def test_a_gate_of_ones_own_is_asked_although_it_was_given_no_rules(store: Store, world: World) -> None:
    tools = declare(world)

    class Closed(Gate):
        def judge(self, _: Proposal) -> Verdict | None:  # pyright: ignore[reportIncompatibleMethodOverride]
            return Verdict("closed", "here", "nothing passes")

    def body(_: Saga) -> None:
        with pytest.raises(GateRefused, match="nothing passes"):
            tools.charge_now("hotel")

    in_plain_scope(store, body, gate=Closed())
    assert world.sent == []


@pytest.mark.parametrize("closing", ["inner", "outer", "latched"])
def test_whatever_closes_the_scope_refuses_the_next_plain_call(store: Store, world: World, closing: str) -> None:
    tools = declare(world)

    def body(outer: Saga) -> None:
        tools.charge_now("hotel")
        with saga_scope("inner") as inner:
            tools.charge_now("taxi")
            if closing == "latched":
                inner._node.session.latch("spent")  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            else:
                (inner if closing == "inner" else outer).rollback("no more")
            with pytest.raises(SagaClosed):
                tools.charge_now("meal")

    in_plain_scope(store, body)
    assert "charge meal" not in world.sent


def test_plain_calls_of_many_threads_take_each_position_once_and_are_all_waited_for(store: Store, world: World) -> None:
    tools = declare(world)
    started = threading.Barrier(8)

    def body(saga: Saga) -> None:
        def work() -> None:
            started.wait()
            for _ in range(25):
                tools.charge_now(saga, "hotel")

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    ended = in_plain_scope(store, body)
    found = intents(store, ended.saga.id)
    assert len({intent.position for intent in found}) == len(found) == 200
    assert [intent.step for intent in found] == list(range(1, 201))
    assert ended.states == ["applied"] * 200
    assert world.landed("hotel") == 200


def test_the_end_is_woken_by_a_call_that_ends_while_it_begins_to_wait(store: Store, world: World) -> None:
    """The two are made to meet often; a wake-up that is missed would come an hour later."""
    tools = declare(world, tier="process")
    under_way, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        under_way.set()
        go_on.wait()

    def body(saga: Saga) -> None:
        threading.Thread(target=tools.charge_now, args=(saga, "hotel")).start()
        under_way.wait()
        go_on.set()

    for _ in range(50):
        under_way.clear()
        go_on.clear()
        world.before["hotel"].append(hold)
        assert in_plain_scope(store, body, drain_timeout=timedelta(hours=1)).states == ["applied"]


def calls_of(run: Any) -> list[str]:
    made: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            made.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        with suppress(StopIteration):
            run()
    finally:
        sys.setprofile(None)
    return made


def test_a_plain_step_makes_few_calls_in_python(file_store: Store) -> None:
    charge, charge_now = plain_actions()
    counts: dict[str, list[str]] = {}

    async def body(_: Saga) -> None:
        await charge(item="hotel", amount=1)
        step = charge(item="hotel", amount=2)
        counts["async"] = calls_of(lambda: step.send(None))

    def body_now(_: Saga) -> None:
        charge_now(item="hotel", amount=1)
        counts["sync"] = calls_of(lambda: charge_now(item="hotel", amount=2))

    in_scope(file_store, body)
    in_plain_scope(file_store, body_now)
    assert {kind: calls for kind, calls in counts.items() if not 10 < len(calls) <= MOST_CALLS} == {}
