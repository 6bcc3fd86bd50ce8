"""A tool's error is proof that nothing landed, or a doubt that only the remote can settle."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from saga_core import (
    Attempt,
    Landed,
    NotLanded,
    Saga,
    StepInDoubt,
    Store,
    Unknown,
    compensable,
    current_step,
)
from saga_core.engine import recall

from .world import (
    Cut,
    Declined,
    Lost,
    World,
    declare,
    decline,
    done,
    eventually,
    in_plain_scope,
    in_scope,
    lose,
    unique,
)

NOW = timedelta(0)
SOON = timedelta(milliseconds=100)
LONG = timedelta(hours=1)


def _is_declined(error: BaseException) -> bool:
    return isinstance(error, Declined)


@pytest.mark.parametrize(
    "proof",
    [Declined, (KeyError, Declined), _is_declined],
    ids=["type", "tuple", "predicate"],
)
def test_an_error_that_proves_it_is_final_and_nothing_is_undone(store: Store, world: World, proof: Any) -> None:
    tools = declare(world, not_landed=proof)
    world.before["hotel"] += [decline]

    async def body(saga: Saga) -> None:
        with pytest.raises(Declined) as caught:
            await tools.charge("hotel")
        assert not hasattr(caught.value, "__notes__")
        await tools.charge("hotel")
        raise ValueError

    ended = in_scope(store, body)
    assert ended.states == ["not_landed", "undone"]
    assert world.sent == ["charge hotel", "refund hotel"]
    assert ended.saga.report.is_clean


def test_another_error_than_the_declared_proof_is_a_doubt(store: Store, world: World) -> None:
    tools = declare(world, not_landed=(KeyError,))
    world.after["hotel"] += [decline]

    def body(saga: Saga) -> None:
        with pytest.raises(Declined):
            tools.charge_now("hotel")

    ended = in_plain_scope(store, body)
    assert ended.states == ["in_doubt"]
    assert len(ended.saga.report.cases) == 1


def test_a_predicate_that_raises_proves_nothing_and_hides_no_error(store: Store, world: World) -> None:
    tools = declare(world, not_landed=lambda error: vars(error)["status"] == 402)
    world.after["hotel"] += [lose]
    world.after["flight"] += [lose]

    async def body(saga: Saga) -> None:
        with pytest.raises(Lost):
            await tools.charge("hotel")
        with pytest.raises(Lost):
            await tools.charge("flight")

    ended = in_scope(store, body)
    assert ended.error is None
    assert ended.states == ["in_doubt", "in_doubt"]


def test_a_lost_answer_that_the_probe_finds_is_returned_as_if_nothing_had_happened(store: Store, world: World) -> None:
    tools = declare(world, probe=True)
    world.after["hotel"] += [lose]
    world.after["flight"] += [lose]

    async def body(saga: Saga) -> None:
        assert await tools.charge("hotel") == {"id": "ch_1", "item": "hotel"}

    assert in_scope(store, body).states == ["applied"]
    assert world.standing == ["hotel"]

    def failing(saga: Saga) -> None:
        assert tools.charge_now("flight") == {"id": "ch_2", "item": "flight"}
        raise ValueError

    assert in_plain_scope(store, failing).states == ["undone"]
    assert world.standing == ["hotel"]


def test_a_result_found_by_the_probe_comes_back_in_its_annotated_type(store: Store, world: World) -> None:
    tools = declare(world)

    async def act(item: str) -> tuple[str, int]:
        world.charge(item, current_step().key)
        raise Lost

    act.__annotations__["return"] = tuple[str, int]
    action = compensable(unique("act"), undo=lambda call: tools.refund.bind(call.result[0]))(act)
    action.probe(lambda attempt: Landed((world.find(attempt.key) or "", 1)))

    async def body(saga: Saga) -> None:
        assert await action("hotel") == ("ch_1", 1)
        raise ValueError

    assert in_scope(store, body).states == ["undone"]


def test_not_landed_counts_only_when_nothing_can_land_any_more(store: Store, world: World) -> None:
    asked: list[str] = []

    def probe(attempt: Attempt) -> NotLanded | Landed[dict[str, str]]:
        asked.append(attempt.key)
        found = world.find(attempt.key)
        if len(asked) == 1:  # it lands behind the probe's back
            world.charge("hotel", attempt.key)
        return NotLanded() if found is None else Landed({"id": found, "item": "hotel"})

    tools = declare(world, probe=probe, lands_within=SOON)
    world.before["hotel"] += [lose]

    async def body(saga: Saga) -> None:
        assert await tools.charge("hotel") == {"id": "ch_1", "item": "hotel"}
        raise ValueError

    ended = in_scope(store, body)
    assert ended.states == ["undone"]
    assert world.standing == []
    assert len(asked) == 2


def test_not_landed_counts_once_the_time_has_passed(store: Store, world: World) -> None:
    tools = declare(world, probe=True, lands_within=SOON)
    world.before["hotel"] += [lose]

    def body(saga: Saga) -> None:
        with pytest.raises(Lost) as caught:
            tools.charge_now("hotel")
        assert not hasattr(caught.value, "__notes__")
        tools.charge_now("hotel")
        raise ValueError

    ended = in_plain_scope(store, body)
    assert ended.states == ["not_landed", "undone"]
    assert world.sent == ["charge hotel", "refund hotel"]
    assert ended.saga.report.is_clean


def test_until_then_it_is_in_doubt_and_the_error_says_so(store: Store, world: World) -> None:
    tools = declare(world, probe=True, lands_within=LONG)
    world.before["hotel"] += [lose]

    async def body(saga: Saga) -> None:
        with pytest.raises(Lost, match="broke") as caught:
            await tools.charge("hotel")
        assert "may have landed" in caught.value.__notes__[0]
        await tools.charge("flight")
        raise ValueError

    ended = in_scope(store, body)
    assert ended.states == ["in_doubt", "undone"]
    assert (ended.saga.report.state, ended.saga.report.is_clean) == ("unwinding", False)
    assert "1 still to be settled" in ended.notes
    assert done(store) == []


def test_what_lands_late_is_undone_after_the_scope_is_left(store: Store, world: World) -> None:
    """The janitor asks again when the answer counts."""
    asked: list[str] = []

    def probe(attempt: Attempt) -> NotLanded | Landed[dict[str, str]]:
        asked.append(attempt.key)
        found = world.find(attempt.key)
        if len(asked) == 1:  # it lands behind the probe's back
            world.charge("hotel", attempt.key)
        return NotLanded() if found is None else Landed({"id": found, "item": "hotel"})

    tools = declare(world, probe=probe, lands_within=timedelta(milliseconds=500))
    cut = Cut()
    world.before["hotel"].append(cut)

    async def body(saga: Saga) -> None:
        with pytest.raises(TimeoutError):
            async with cut:
                await tools.charge("hotel")
        raise ValueError

    ended = in_scope(store, body, unwind_timeout=NOW)
    assert ended.saga.report.state == "unwinding"
    world.wait_until(lambda: world.landed("hotel") == 1 and world.standing == [])
    eventually(lambda: done(store) == [ended.saga.id])
    assert ended.states == ["undone"]
    assert ended.saga.report.is_clean


@pytest.mark.timeout(10)
@pytest.mark.parametrize("answer", ["unknown", "raises", "nonsense"])
def test_a_remote_that_cannot_tell_makes_a_case(
    store: Store, world: World, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recall, "_SETTLE_WITHIN", 0.05)

    def probe(_: Attempt) -> Any:
        if answer == "raises":
            raise OSError("down")
        return Unknown("it is Sunday") if answer == "unknown" else "landed"

    tools = declare(world, probe=probe, lands_within=NOW)
    world.after["hotel"] += [lose]

    async def body(saga: Saga) -> None:
        with pytest.raises(Lost) as caught:
            await tools.charge("hotel")
        assert "may have landed" in caught.value.__notes__[0]
        await tools.charge("flight")
        raise ValueError

    ended = in_scope(store, body)
    assert ended.states == ["in_doubt", "undone"]
    (case,) = ended.saga.report.cases
    assert {"unknown": "Sunday", "raises": "OSError", "nonsense": "str"}[answer] in case
    assert (ended.saga.report.state, ended.saga.report.is_clean) == ("needs_human", False)


def test_a_remote_that_cannot_tell_yet_is_asked_again(store: Store, world: World) -> None:
    answers: list[Any] = [Unknown("busy"), OSError("down"), Unknown("busy")]

    def probe(attempt: Attempt) -> Any:
        if not answers:
            return Landed({"id": world.find(attempt.key), "item": "hotel"})
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    tools = declare(world, probe=probe, lands_within=LONG)
    world.after["hotel"] += [lose]

    async def body(saga: Saga) -> None:
        assert (await tools.charge("hotel"))["id"] == "ch_1"
        raise ValueError

    ended = in_scope(store, body)
    assert answers == []
    assert ended.states == ["undone"]


def test_a_doubt_that_nobody_can_settle_is_a_case_and_the_rest_is_undone(store: Store, world: World) -> None:
    tools = declare(world)
    world.after["flight"] += [lose]

    def body(saga: Saga) -> None:
        tools.charge_now("hotel")
        with pytest.raises(Lost):
            tools.charge_now("flight")
        tools.charge_now("car")
        raise ValueError

    ended = in_plain_scope(store, body)
    assert ended.states == ["undone", "in_doubt", "undone"]
    assert world.standing == ["flight"]
    assert (ended.saga.report.state, len(ended.saga.report.cases)) == ("needs_human", 1)


def test_a_success_with_a_doubt_commits_with_a_case(store: Store, world: World) -> None:
    tools = declare(world)
    world.after["flight"] += [lose]

    async def body(saga: Saga) -> None:
        await tools.charge("hotel")
        with pytest.raises(Lost):
            await tools.charge("flight")

    ended = in_scope(store, body)
    assert ended.error is None
    assert world.standing == ["hotel", "flight"]
    assert world.undone == []
    assert (ended.saga.report.state, ended.saga.report.is_clean) == ("committed", False)
    assert len(ended.saga.report.cases) == 1
    assert done(store) == []


def test_the_same_call_is_not_sent_again_while_it_is_in_doubt(store: Store, world: World) -> None:
    tools = declare(world)
    world.after["hotel"] += [lose]

    async def body(saga: Saga) -> None:
        with pytest.raises(Lost):
            await tools.charge("hotel", 1)
        for _ in range(2):
            with pytest.raises(StepInDoubt, match="may have landed"):
                await tools.charge("hotel", 1)
        await tools.charge("hotel", 2)
        await tools.charge("flight", 1)
        await tools.charge.at("on purpose")("hotel", 1)

    ended = in_scope(store, body)
    assert world.sent == ["charge hotel", "charge hotel", "charge flight", "charge hotel"]
    assert ended.states == ["in_doubt", "applied", "applied", "applied"]


def test_the_same_call_after_a_doubt_that_is_settled_by_now_runs(store: Store, world: World) -> None:
    """Asked again, the remote knows: it did not land, so a repeat doubles nothing."""
    tools = declare(world, probe=True, lands_within=SOON)
    cut = Cut()
    world.before["hotel"].append(cut)

    async def body(saga: Saga) -> None:
        with pytest.raises(TimeoutError):
            async with cut:
                await tools.charge("hotel")
        await tools.charge("hotel")

    ended = in_scope(store, body)
    assert ended.states == ["not_landed", "applied"]
    assert world.standing == ["hotel"]


def test_a_timeout_is_a_doubt(store: Store, world: World) -> None:
    tools = declare(world, probe=True, timeout=timedelta(milliseconds=30), lands_within=LONG)
    world.before["hotel"] += [lambda: asyncio.sleep(60)]
    world.after["flight"] += [lambda: asyncio.sleep(60)]

    async def body(saga: Saga) -> None:
        with pytest.raises(TimeoutError) as caught:
            await tools.charge("hotel")
        assert "may have landed" in caught.value.__notes__[0]
        assert (await tools.charge("flight"))["id"] == "ch_1"
        raise ValueError

    ended = in_scope(store, body)
    assert ended.states == ["in_doubt", "undone"]


def test_a_synchronous_probe_does_not_hold_up_the_loop(store: Store, world: World) -> None:
    turned = threading.Event()

    def probe(attempt: Attempt) -> Any:
        assert turned.wait(10)
        return Landed({"id": world.find(attempt.key), "item": "hotel"})

    tools = declare(world, probe=probe)
    world.after["hotel"] += [lose]

    async def body(saga: Saga) -> None:
        call = asyncio.ensure_future(tools.charge("hotel"))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.02, turned.set)
        assert (await call)["id"] == "ch_1"

    assert in_scope(store, body).error is None


def test_facts_noted_in_mid_effect_reach_probe_and_undo(store: Store, world: World) -> None:
    seen: list[Any] = []
    tools = declare(world)

    async def act(item: str) -> str:
        await current_step().note(intent="pi_1", tries=[1])
        made = world.charge(item, current_step().key)
        await current_step().note(tries=[1, 2])
        if item == "lost":
            raise Lost
        return made

    action = compensable(unique("act"))(act)

    @action.probe
    def probe(attempt: Attempt) -> Landed[str]:  # pyright: ignore[reportUnusedFunction]
        seen.append(dict(attempt.notes))
        return Landed(world.find(attempt.key) or "")

    @action.undo
    def undo(call: Any) -> Any:  # pyright: ignore[reportUnusedFunction]
        seen.append(dict(call.notes))
        return tools.refund.bind(call.result)

    async def body(saga: Saga) -> None:
        await action("fine")
        await action("lost")
        raise ValueError

    assert in_scope(store, body).states == ["undone", "undone"]
    assert seen == [{"intent": "pi_1", "tries": [1, 2]}] * 3
