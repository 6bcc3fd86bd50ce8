"""What happens to the world when the disk under the log is full or broken."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from saga_core import (
    Attempt,
    Conflict,
    Landed,
    Saga,
    SagaClosed,
    SagaError,
    StoreError,
    compensable,
    current_step,
    saga_scope,
)
from saga_core.errors import CommitUnknown, OutcomeNotLogged
from saga_core.recovery import recover
from saga_core.stores.file import FileStore

from .disks import Disk, always, first, store_on
from .world import Cut, World, declare, done, eventually, in_plain_scope, in_scope, left_open, unique


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def store(disk: Disk, tmp_path: Path) -> Iterator[FileStore]:
    found = store_on(disk, tmp_path)
    yield found
    disk.go.set()
    disk.fail_sync = lambda: False
    found.close()


def never(_: bytes = b"") -> bool:
    return False


def heal(disk: Disk) -> None:
    disk.fail_write = never
    disk.fail_sync = never
    disk.fail_rename = False


@pytest.mark.parametrize("form", ["plain", "async"])
def test_an_intent_that_cannot_be_written_calls_nothing(store: FileStore, disk: Disk, world: World, form: str) -> None:
    tools = declare(world)

    def body(saga: Saga) -> None:
        tools.charge_now("hotel")
        disk.fail_write = always
        with pytest.raises(StoreError):
            tools.charge_now("flight")
        heal(disk)
        tools.charge_now("car")

    async def async_body(saga: Saga) -> None:
        await tools.charge("hotel")
        disk.fail_write = always
        with pytest.raises(StoreError):
            await tools.charge("flight")
        heal(disk)
        await tools.charge("car")

    ended = in_plain_scope(store, body) if form == "plain" else in_scope(store, async_body)
    assert ended.error is None
    assert world.standing == ["hotel", "car"]
    assert ended.saga.report.is_clean


@pytest.mark.parametrize("form", ["plain", "async"])
def test_an_intent_that_cannot_be_synced_calls_nothing(store: FileStore, disk: Disk, world: World, form: str) -> None:
    tools = declare(world)

    def body(saga: Saga) -> None:
        tools.charge_now("hotel")
        disk.fail_sync = always
        with pytest.raises(StoreError):
            tools.charge_now("flight")
        heal(disk)
        tools.charge_now("car")

    async def async_body(saga: Saga) -> None:
        await tools.charge("hotel")
        disk.fail_sync = always
        with pytest.raises(StoreError):
            await tools.charge("flight")
        heal(disk)
        await tools.charge("car")

    ended = in_plain_scope(store, body) if form == "plain" else in_scope(store, async_body)
    assert ended.error is None
    assert world.standing == ["hotel", "car"]
    assert ended.states == ["applied", "not_landed", "applied"]
    assert ended.saga.report.is_clean


def test_a_process_tier_step_needs_no_sync(store: FileStore, disk: Disk, world: World) -> None:
    tools = declare(world, tier="process")

    def body(saga: Saga) -> None:
        disk.fail_sync = always
        tools.charge_now("hotel")
        heal(disk)

    assert in_plain_scope(store, body).error is None
    assert world.standing == ["hotel"]


@pytest.mark.parametrize("form", ["plain", "async"])
@pytest.mark.parametrize("ends", ["success", "failure"])
@pytest.mark.parametrize("has_probe", [True, False])
def test_an_outcome_that_cannot_be_written_carries_the_result_and_latches(
    store: FileStore, disk: Disk, world: World, form: str, ends: str, *, has_probe: bool
) -> None:
    """The disk is mended before the end: what landed is known, and kept or undone with the rest."""
    tools = declare(world, probe=has_probe, lands_within=timedelta(0))

    def fill() -> None:
        disk.fail_write = always

    world.after["flight"].append(fill)

    def check(caught: OutcomeNotLogged) -> None:
        assert caught.result == {"id": "ch_2", "item": "flight"}
        assert "took effect" in caught.world
        assert world.standing == ["hotel", "flight"]

    def body(saga: Saga) -> None:
        tools.charge_now("hotel")
        with pytest.raises(OutcomeNotLogged) as caught:
            tools.charge_now("flight")
        check(caught.value)
        with pytest.raises(SagaClosed, match="could not be written"):
            tools.charge_now("car")
        heal(disk)
        with pytest.raises(SagaClosed, match="could not be written"):
            tools.charge_now("car")
        if ends == "failure":
            raise ZeroDivisionError

    async def async_body(saga: Saga) -> None:
        await tools.charge("hotel")
        with pytest.raises(OutcomeNotLogged) as caught:
            await tools.charge("flight")
        check(caught.value)
        with pytest.raises(SagaClosed, match="could not be written"):
            await tools.charge("car")
        heal(disk)
        if ends == "failure":
            raise ZeroDivisionError

    ended = in_plain_scope(store, body) if form == "plain" else in_scope(store, async_body)
    assert isinstance(ended.error, ZeroDivisionError) == (ends == "failure")
    assert world.standing == (["hotel", "flight"] if ends == "success" else [])
    assert ended.states == ["applied" if ends == "success" else "undone"] * 2
    assert ended.saga.report.is_clean


@pytest.mark.parametrize("form", ["plain", "async"])
@pytest.mark.parametrize("ends", ["success", "failure"])
def test_with_no_log_nothing_more_is_done_and_recovery_settles_it_from_the_remote(
    store: FileStore, disk: Disk, world: World, form: str, ends: str
) -> None:
    tools = declare(world, probe=True, lands_within=timedelta(0))

    def fill() -> None:
        disk.fail_write = always

    world.after["flight"].append(fill)

    def body(saga: Saga) -> None:
        tools.charge_now("hotel")
        with pytest.raises(OutcomeNotLogged):
            tools.charge_now("flight")
        if ends == "failure":
            raise ZeroDivisionError("mine")

    async def async_body(saga: Saga) -> None:
        await tools.charge("hotel")
        with pytest.raises(OutcomeNotLogged):
            await tools.charge("flight")
        if ends == "failure":
            raise ZeroDivisionError("mine")

    ended = in_plain_scope(store, body) if form == "plain" else in_scope(store, async_body)
    assert world.standing == ["hotel", "flight"]
    assert world.undone == []
    assert not ended.saga.report.is_clean
    if ends == "failure":
        assert isinstance(ended.error, ZeroDivisionError)
        assert "cannot be written" in ended.notes
    else:
        assert isinstance(ended.error, StoreError)
    heal(disk)
    assert recover(store).count("settled") == 1
    assert world.undone == ["flight", "hotel"]
    assert done(store) == [ended.saga.id]


@pytest.mark.parametrize("fault", ["write", "sync"])
@pytest.mark.parametrize("form", ["plain", "async"])
def test_an_undo_intent_that_cannot_be_logged_undoes_nothing(
    store: FileStore, disk: Disk, world: World, form: str, fault: str
) -> None:
    tools = declare(world)

    def break_disk() -> None:
        setattr(disk, f"fail_{fault}", always)

    def body(saga: Saga) -> None:
        tools.charge_now("hotel")
        tools.charge_now("flight")
        break_disk()
        raise ZeroDivisionError("mine")

    async def async_body(saga: Saga) -> None:
        await tools.charge("hotel")
        await tools.charge("flight")
        break_disk()
        raise ZeroDivisionError("mine")

    ended = in_plain_scope(store, body) if form == "plain" else in_scope(store, async_body)
    assert isinstance(ended.error, ZeroDivisionError)
    assert world.sent == ["charge hotel", "charge flight"]
    assert "cannot be written" in ended.notes
    assert not ended.saga.report.is_clean
    heal(disk)
    assert recover(store).count("settled") == 1
    assert world.undone == ["flight", "hotel"]


@pytest.mark.parametrize("fault", ["write", "sync"])
def test_a_disk_that_breaks_in_mid_unwinding_stops_it_and_recovery_goes_on(
    store: FileStore, disk: Disk, world: World, fault: str
) -> None:
    tools = declare(world, keyed=True)

    def break_disk() -> None:
        setattr(disk, f"fail_{fault}", always)

    world.after_undo["flight"].append(break_disk)

    async def body(saga: Saga) -> None:
        for item in ("hotel", "flight", "car"):
            await tools.charge(item)
        raise ZeroDivisionError("mine")

    ended = in_scope(store, body)
    assert isinstance(ended.error, ZeroDivisionError)
    assert world.undone == ["car", "flight"]
    heal(disk)
    assert recover(store).count("settled") == 1
    assert world.standing == []
    assert len(set(world.keys["flight"])) == 1


@pytest.mark.parametrize("form", ["plain", "async"])
def test_a_commit_whose_sync_fails_twice_is_synced_again(store: FileStore, disk: Disk, world: World, form: str) -> None:
    tools = declare(world)

    def body(saga: Saga) -> None:
        tools.charge_now("hotel")
        disk.fail_sync = first(2)

    async def async_body(saga: Saga) -> None:
        await tools.charge("hotel")
        disk.fail_sync = first(2)

    ended = in_plain_scope(store, body) if form == "plain" else in_scope(store, async_body)
    assert ended.error is None
    assert ended.saga.report.state == "committed"
    assert done(store) == [ended.saga.id]


@pytest.mark.parametrize("form", ["plain", "async"])
def test_a_commit_that_is_never_proven_is_said_to_be_unknown_and_nothing_is_undone(
    store: FileStore, disk: Disk, world: World, form: str
) -> None:
    tools = declare(world)

    def body(saga: Saga) -> None:
        tools.charge_now("hotel")
        disk.fail_sync = always

    async def async_body(saga: Saga) -> None:
        await tools.charge("hotel")
        disk.fail_sync = always

    ended = in_plain_scope(store, body) if form == "plain" else in_scope(store, async_body)
    assert isinstance(ended.error, CommitUnknown)
    assert world.standing == ["hotel"]
    heal(disk)
    eventually(lambda: store.owner(ended.saga.id) is None)
    recover(store)
    assert world.undone == []
    assert done(store) == [ended.saga.id]


def test_a_commit_that_cannot_be_written_is_no_commit(store: FileStore, disk: Disk, world: World) -> None:
    tools = declare(world)

    def body(saga: Saga) -> None:
        tools.charge_now("hotel")
        disk.fail_write = always

    ended = in_plain_scope(store, body)
    assert isinstance(ended.error, StoreError)
    assert world.standing == ["hotel"]
    heal(disk)
    assert recover(store).count("settled") == 1
    assert world.standing == []


@pytest.mark.parametrize("form", ["plain", "async"])
def test_a_commit_that_cannot_be_put_away_is_a_commit_all_the_same(
    store: FileStore, disk: Disk, world: World, form: str
) -> None:
    tools = declare(world)

    def body(saga: Saga) -> None:
        tools.charge_now("hotel")
        disk.fail_rename = True

    async def async_body(saga: Saga) -> None:
        await tools.charge("hotel")
        disk.fail_rename = True

    ended = in_plain_scope(store, body) if form == "plain" else in_scope(store, async_body)
    assert ended.error is None
    assert ended.saga.report.state == "committed"
    heal(disk)
    eventually(lambda: store.owner(ended.saga.id) is None)
    recover(store)
    assert world.standing == ["hotel"]
    assert left_open(store) == []
    assert done(store) == [ended.saga.id]


def test_a_note_that_cannot_be_written_stops_the_effect_and_the_step_is_in_doubt(
    store: FileStore, disk: Disk, world: World
) -> None:
    tools = declare(world)
    parts: list[str] = []

    @compensable(unique("act"), undo=lambda _: tools.refund.bind("ch_1"))
    async def act() -> None:
        parts.append("first")
        disk.fail_write = always
        await current_step().note(part=1)
        parts.append("second")

    async def body(saga: Saga) -> None:
        with pytest.raises(StoreError):
            await act()
        heal(disk)

    ended = in_scope(store, body)
    assert parts == ["first"]
    assert ended.states == ["in_doubt"]


def test_a_doubt_that_cannot_be_written_is_a_doubt_in_the_end(store: FileStore, disk: Disk, world: World) -> None:
    tools = declare(world, probe=True, lands_within=timedelta(0))

    def fail() -> None:
        disk.fail_write = always
        raise ConnectionError("mine")

    world.after["hotel"].append(fail)

    async def body(saga: Saga) -> None:
        with pytest.raises(ConnectionError, match="mine") as caught:
            await tools.charge("hotel")
        assert caught.value.__notes__
        heal(disk)
        with pytest.raises(SagaClosed, match="could not be written"):
            await tools.charge("hotel")
        raise ZeroDivisionError

    ended = in_scope(store, body)
    assert world.sent == ["charge hotel", "refund hotel"]
    assert ended.saga.report.is_clean


def test_a_probe_whose_answer_cannot_be_written_does_not_hide_the_tools_error(
    store: FileStore, disk: Disk, world: World
) -> None:
    """The doubt is logged, the remote says "landed", and then the disk is full."""

    def probe(attempt: Any) -> Any:
        disk.fail_write = always
        return Landed({"id": world.find(attempt.key), "item": "hotel"})

    tools = declare(world, probe=probe)

    def fail() -> None:
        raise ConnectionError("mine")

    world.after["hotel"].append(fail)

    def body(saga: Saga) -> None:
        with pytest.raises((ConnectionError, OutcomeNotLogged)) as caught:
            tools.charge_now("hotel")
        assert getattr(caught.value, "result", None) == {"id": "ch_1", "item": "hotel"} or "mine" in str(caught.value)
        heal(disk)
        raise ZeroDivisionError

    ended = in_plain_scope(store, body)
    assert isinstance(ended.error, ZeroDivisionError)
    assert world.sent == ["charge hotel", "refund hotel"]
    assert ended.saga.report.is_clean


def test_many_calls_at_once_on_a_full_disk_neither_hang_nor_lose_an_effect(
    store: FileStore, disk: Disk, world: World
) -> None:
    tools = declare(world, probe=True, lands_within=timedelta(0))
    count = 0

    def fill() -> None:
        nonlocal count
        count += 1
        if count == 5:
            disk.fail_write = always

    for number in range(20):
        world.after[str(number)].append(fill)

    async def body(saga: Saga) -> None:
        await asyncio.gather(*(tools.charge(str(number)) for number in range(20)), return_exceptions=True)
        heal(disk)
        raise ZeroDivisionError

    ended = in_scope(store, body)
    assert world.standing == []
    assert ended.saga.report.state == "rolled_back"


def test_a_conflict_whose_case_was_not_written_gets_one_from_recovery(
    store: FileStore, disk: Disk, world: World
) -> None:
    """The process may also die between the two records."""
    tools = declare(world)

    writes = itertools.count()

    def conflict() -> Conflict:
        disk.fail_write = lambda _: next(writes) > 0
        return Conflict(wrote="Won", found="Lost")

    world.on_undo["flight"].append(conflict)

    async def body(saga: Saga) -> None:
        for item in ("hotel", "flight", "car"):
            await tools.charge(item)
        raise ZeroDivisionError

    ended = in_scope(store, body)
    assert isinstance(ended.error, ZeroDivisionError)
    heal(disk)
    (found,) = recover(store).found
    assert found.outcome == "needs_human"
    assert found.report is not None
    assert [step.state for step in found.report.steps] == ["undone", "conflict", "undone"]
    assert len(found.report.cases) == 1


def test_an_outcome_that_is_found_twice_while_the_disk_is_full_is_written_once(
    store: FileStore, disk: Disk, world: World
) -> None:
    """Two tasks ask about the same step in doubt; both learn that it landed, and neither can write it."""
    both = asyncio.Barrier(2)

    async def probe(attempt: Attempt) -> Any:
        await both.wait()
        disk.fail_write = always
        return Landed({"id": world.find(attempt.key), "item": "hotel"})

    tools = declare(world, probe=probe)
    cut = Cut()
    world.after["hotel"].append(cut)

    async def body(saga: Saga) -> None:
        with pytest.raises(TimeoutError):
            async with cut:
                await tools.charge.at("here")("hotel")
        calls = [tools.charge.at("here")("hotel") for _ in range(2)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(answer, SagaError) for answer in answers)
        heal(disk)
        raise ZeroDivisionError

    ended = in_scope(store, body)
    assert isinstance(ended.error, ZeroDivisionError)
    assert world.sent == ["charge hotel", "refund hotel"]
    assert ended.saga.report.is_clean


@pytest.mark.parametrize("form", ["plain", "async"])
def test_a_call_whose_scope_is_decided_on_while_its_intent_goes_to_the_disk_is_never_sent(
    store: FileStore, disk: Disk, world: World, form: str
) -> None:
    tools = declare(world)
    refused: list[BaseException] = []

    def call(saga: Saga) -> None:
        try:
            if form == "plain":
                tools.charge_now(saga, "hotel")
            else:
                asyncio.run(tools.charge(saga, "hotel"))
        except SagaClosed as closed:
            refused.append(closed)

    def body(saga: Saga) -> None:
        disk.go.clear()
        caller = threading.Thread(target=call, args=(saga,))
        caller.start()
        assert disk.waiting.wait(10)
        saga.rollback("changed its mind")
        disk.go.set()
        caller.join()

    ended = in_plain_scope(store, body)
    assert ended.error is None
    assert world.sent == []
    assert len(refused) == 1
    assert ended.states == ["not_landed"]
    assert ended.saga.report.state == "rolled_back"


def test_a_savepoint_that_cannot_be_ended_frees_no_log_under_a_running_sibling(
    store: FileStore, disk: Disk, world: World
) -> None:
    """Whoever took the saga over meanwhile would act beside the sibling's effect."""
    tools = declare(world)
    owners: list[str | None] = []

    async def body(saga: Saga) -> None:
        begun, ended = asyncio.Event(), asyncio.Event()

        async def hold() -> None:
            begun.set()
            await ended.wait()

        async def fail_inside() -> None:
            try:
                async with saga_scope("inner"):
                    await tools.charge("flight")
                    await begun.wait()
                    disk.fail_write = always
                    raise ValueError
            finally:
                owners.append(store.owner(saga.id))
                heal(disk)
                ended.set()

        world.before["hotel"].append(hold)
        await asyncio.gather(fail_inside(), tools.charge("hotel"))

    assert isinstance(in_scope(store, body).error, ValueError)
    assert owners != [None]
    assert world.standing == []
    assert left_open(store) == []


def test_what_a_savepoint_was_to_undo_is_undone_although_its_end_could_not_be_written(
    store: FileStore, disk: Disk, world: World
) -> None:
    """The program goes on behind the savepoint's error and succeeds: no commit keeps what failed inside."""
    tools = declare(world)

    async def body(saga: Saga) -> None:
        await tools.charge("hotel")
        with pytest.raises(ValueError):  # noqa: PT011 -- the block's own
            async with saga_scope("inner"):
                await tools.charge("flight")
                disk.fail_write = always
                raise ValueError
        heal(disk)

    ended = in_scope(store, body)
    assert ended.error is None
    assert world.standing == ["hotel"]
    assert ended.states == ["applied", "undone"]


def test_a_conflict_whose_case_could_not_be_opened_is_told_at_the_latest_by_the_commit(
    store: FileStore, disk: Disk, world: World
) -> None:
    tools = declare(world)

    def conflict() -> Conflict:
        disk.fail_sync = always
        return Conflict(wrote="ours", found="theirs")

    async def body(saga: Saga) -> None:
        world.on_undo["flight"].append(conflict)
        with pytest.raises(ValueError):  # noqa: PT011 -- the block's own
            async with saga_scope("inner"):
                await tools.charge("flight")
                raise ValueError
        heal(disk)

    ended = in_scope(store, body)
    assert ended.error is None
    assert world.standing == ["flight"]
    assert ended.states == ["conflict"]
    assert len(ended.saga.report.cases) == 1
    assert left_open(store) == [ended.saga.id]
