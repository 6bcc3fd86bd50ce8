"""A scope that fails takes back what landed in it, newest first, and lets the caller's exception out as it was."""

import asyncio
import contextvars
import threading
from decimal import Decimal

import pytest

from saga_core import (
    NoActiveSaga,
    Saga,
    SagaError,
    Store,
    compensable,
    current_saga,
    current_step,
    read_only,
    saga_scope,
)

from .world import World, declare, done, in_plain_scope, in_scope, left_open, lose, unique

FAILURES = [
    RuntimeError("the agent hallucinated a field"),
    asyncio.CancelledError("cut"),
    KeyboardInterrupt(),
    SystemExit(3),
    ExceptionGroup("several", [ValueError("a"), TypeError("b")]),
]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
def test_a_failure_undoes_everything_newest_first_and_comes_out_itself(
    store: Store, world: World, failure: BaseException
) -> None:
    tools = declare(world)
    failure = type(failure)(*failure.args)

    async def body(saga: Saga) -> None:
        for item in ("hotel", "flight", "car"):
            await tools.charge(item)
        raise failure

    ended = in_scope(store, body)
    assert ended.error is failure
    assert world.sent[:3] == ["charge hotel", "charge flight", "charge car"]
    assert world.sent[3:] == ["refund car", "refund flight", "refund hotel"]
    assert "3 of 3 effects undone" in ended.notes
    assert len(getattr(failure, "__notes__", ())) == 1
    report = ended.saga.report
    assert (report.state, report.is_clean, report.cases) == ("rolled_back", True, ())
    assert ended.states == ["undone"] * 3
    assert done(store) == [ended.saga.id]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
def test_without_a_loop_a_failure_undoes_everything_too(store: Store, world: World, failure: BaseException) -> None:
    tools = declare(world, sync_inverse=True)
    failure = type(failure)(*failure.args)

    def body(saga: Saga) -> None:
        tools.charge_now("hotel")
        tools.charge_now("flight")
        raise failure

    ended = in_plain_scope(store, body)
    assert ended.error is failure
    assert world.sent == ["charge hotel", "charge flight", "refund flight", "refund hotel"]
    assert "2 of 2 effects undone" in ended.notes
    assert ended.saga.report.state == "rolled_back"


def test_a_success_keeps_everything(store: Store, world: World) -> None:
    tools = declare(world)

    async def body(saga: Saga) -> None:
        assert await tools.charge("hotel") == {"id": "ch_1", "item": "hotel"}
        assert saga.report.state == "running"
        assert not saga.report.is_clean

    ended = in_scope(store, body)
    assert ended.error is None
    assert world.standing == ["hotel"]
    assert (ended.saga.report.state, ended.saga.report.is_clean) == ("committed", True)
    assert done(store) == [ended.saga.id]
    assert left_open(store) == []


def test_a_success_without_a_loop_keeps_everything(store: Store, world: World) -> None:
    tools = declare(world)
    ended = in_plain_scope(store, lambda _: tools.charge_now("hotel"))
    assert world.standing == ["hotel"]
    assert (ended.saga.report.state, ended.saga.report.is_clean) == ("committed", True)


def test_an_empty_scope_commits_or_rolls_back_cleanly(store: Store) -> None:
    with saga_scope(store=store) as kept:
        pass
    with pytest.raises(ZeroDivisionError), saga_scope(store=store) as dropped:
        raise ZeroDivisionError
    assert (kept.report.state, kept.report.is_clean) == ("committed", True)
    assert (dropped.report.state, dropped.report.is_clean) == ("rolled_back", True)


def test_all_ways_of_calling_make_steps_of_the_same_saga(store: Store, world: World) -> None:
    tools = declare(world)

    async def body(saga: Saga) -> None:
        await tools.charge("ambient")
        await tools.charge(saga, "explicit")
        await saga.run(tools.charge, item="run")
        await tools.charge.at("line-3")("placed")
        await saga.run(tools.charge.at("line-4"), "placed-run")
        raise ValueError

    ended = in_scope(store, body)
    assert world.undone == ["placed-run", "placed", "run", "explicit", "ambient"]
    assert ended.states == ["undone"] * 5


def test_the_handle_takes_a_call_from_a_thread_without_the_ambient_scope(store: Store, world: World) -> None:
    tools = declare(world)

    def body(saga: Saga) -> None:
        call = threading.Thread(target=contextvars.Context().run, args=(tools.charge_now, saga, "elsewhere"))
        call.start()
        call.join()
        raise ValueError

    assert in_plain_scope(store, body).states == ["undone"]
    assert world.sent == ["charge elsewhere", "refund elsewhere"]


def test_the_current_saga_is_the_innermost_open_scope(store: Store) -> None:
    async def body(saga: Saga) -> None:
        found = current_saga()
        assert found is not None
        assert (found.id, found.name, found.key) == (saga.id, "outer", None)
        async with saga_scope("inner") as inner:
            found = current_saga()
            assert found is not None
            assert (found.id, found.name) == (inner.id, "inner")
        found = current_saga()
        assert found is not None
        assert found.name == "outer"
        async with saga_scope("apart", new=True, store=store) as apart:
            assert apart.id != saga.id

    async def scope() -> None:
        async with saga_scope("outer", store=store) as saga:
            await body(saga)
        assert current_saga() is None

    asyncio.run(scope())
    assert current_saga() is None


def test_a_call_outside_a_scope_is_refused_with_the_line_to_add(world: World) -> None:
    tools = declare(world)
    with pytest.raises(NoActiveSaga, match="saga_scope"):
        tools.charge_now("hotel")
    with pytest.raises(NoActiveSaga, match="saga_scope"):
        asyncio.run(tools.charge("hotel"))
    assert world.sent == []


def test_an_action_may_be_declared_to_run_unrecorded_outside(store: Store, world: World) -> None:
    @compensable(unique("mark"), outside="allow", undo=lambda call: tools.refund.bind(call.result["id"]))
    def mark(item: str) -> dict[str, str]:
        return {"id": world.charge(item, "")}

    tools = declare(world)
    mark("outside")

    def body(saga: Saga) -> None:
        mark("inside")
        raise ValueError

    in_plain_scope(store, body)
    assert world.standing == ["outside"]


def test_a_read_only_action_makes_no_step(store: Store) -> None:
    @read_only(unique("look"))
    def look(what: str) -> object:
        return what, object

    @read_only(unique("look"))
    async def look_async(what: str) -> object:
        return what, object

    async def body(saga: Saga) -> None:
        assert look("x") == look(saga, "x") == await look_async("x") == await look_async(saga, "x") == ("x", object)

    assert look("x") == ("x", object)
    assert in_scope(store, body).saga.report.steps == ()


def test_steps_are_undone_in_reverse_order_of_their_outcomes(store: Store, world: World) -> None:
    """The first call lands last: it may build on what the others did, so it goes first."""
    tools = declare(world)
    gate = asyncio.Event()
    world.after["slow"].append(gate.wait)
    world.after["quick"].append(gate.set)

    async def body(saga: Saga) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(tools.charge("slow"))
            group.create_task(tools.charge("quick"))
        raise ValueError

    in_scope(store, body)
    assert world.undone == ["slow", "quick"]


def test_a_call_inside_an_effect_is_undone_after_the_effect_around_it(store: Store, world: World) -> None:
    tools = declare(world)

    @compensable(unique("trip"), undo=lambda call: tools.refund.bind(call.result))
    async def trip() -> str:
        await tools.charge("leg")
        return world.charge("trip", current_step().key)

    async def body(saga: Saga) -> None:
        await trip()
        raise ValueError

    ended = in_scope(store, body)
    assert world.undone == ["trip", "leg"]
    assert ended.states == ["undone", "undone"]


def test_the_report_tells_every_step_and_the_money_that_stands(store: Store, world: World) -> None:
    tools = declare(world, not_landed=(ZeroDivisionError,), money=("amount", "usd"))
    world.before["none left"].append(lambda: 1 // 0)
    world.after["lost"].append(lose)
    world.on_undo["stuck"].append(lambda: "nonsense")

    async def body(saga: Saga) -> None:
        await tools.charge("fine", 1)
        with pytest.raises(ZeroDivisionError):
            await tools.charge("none left", 2)
        with pytest.raises(ConnectionError):
            await tools.charge("lost", 4)
        await tools.charge("stuck", 8)
        with pytest.raises(SagaError):
            await tools.charge("refused", -1)
        raise ValueError

    ended = in_scope(store, body)
    assert ended.states == ["undone", "not_landed", "in_doubt", "undo_failed", "refused"]
    report = ended.saga.report
    assert (report.state, report.is_clean, len(report.cases)) == ("needs_human", False, 2)
    assert report.money() == {"usd": Decimal(12)}
    text = str(report)
    assert "stands or may stand: 12 usd" in text
    assert all(step.words in text for step in report.steps)
    assert left_open(store) == [ended.saga.id]


def test_a_scope_is_good_for_one_block(store: Store) -> None:
    scope = saga_scope(store=store)
    with scope:
        pass
    with pytest.raises(SagaError, match="one block"), scope:
        pass


def test_a_call_after_the_end_is_refused(store: Store, world: World) -> None:
    tools = declare(world)
    with saga_scope(store=store) as saga:
        tools.charge_now("inside")
    with pytest.raises(SagaError, match="not called"):
        tools.charge_now(saga, "outside")
    assert world.sent == ["charge inside"]
