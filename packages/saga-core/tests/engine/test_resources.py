"""Steps of one resource wait for each other; steps of different ones do not."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from saga_core import Attempt, Conflict, Landed, NotLanded, Saga, Store, Unknown, saga_scope
from saga_core.engine import recall

from .world import Cut, Lost, World, declare, in_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from .world import Tools

SOON = timedelta(milliseconds=60)


def named(attempt: Attempt) -> str:
    """Return the letter before the dot: `a.1` and `a.2` are of one resource."""
    return attempt.args["item"].split(".")[0]


def test_a_blocked_step_holds_up_the_older_steps_of_its_resource_only(store: Store, world: World) -> None:
    tools = declare(world, resource=named)
    world.on_undo["a.2"].append(lambda: Conflict(wrote=1, found=2))

    async def body(saga: Saga) -> None:
        for item in ("a.1", "b.1", "a.2", "b.2", "a.3"):
            await tools.charge(item)
        raise ZeroDivisionError

    ended = in_scope(store, body)
    assert world.undone == ["a.3", "b.2", "b.1"]
    assert world.standing == ["a.1", "a.2"]
    assert ended.saga.report.state == "needs_human"
    assert not ended.saga.report.is_clean
    assert ended.states[0] not in {"undone", "not_landed"}


def test_steps_without_a_resource_are_independent(store: Store, world: World) -> None:
    tools = declare(world)
    world.on_undo["2"].append(lambda: Conflict(wrote=1, found=2))

    async def body(saga: Saga) -> None:
        for item in "123":
            await tools.charge(item)
        raise ZeroDivisionError

    in_scope(store, body)
    assert world.undone == ["3", "1"]


def test_a_doubtful_neighbour_is_settled_before_the_step_beside_it_is_undone(store: Store, world: World) -> None:
    """The step in doubt may have landed on top of the other one: it has to go first."""
    tools = declare(world, resource=named, probe=True, lands_within=SOON)
    cut = Cut()
    world.after["a.doubtful"].append(cut)
    order: list[str] = []

    @tools.charge.probe
    async def probe(attempt: Attempt) -> Any:  # pyright: ignore[reportUnusedFunction]
        order.append("asked")
        return Landed({"id": world.find(attempt.key), "item": attempt.args["item"]})

    world.on_undo["a.fine"].append(lambda: order.append("undo fine"))
    world.on_undo["a.doubtful"].append(lambda: order.append("undo doubtful"))

    async def body(saga: Saga) -> None:
        with pytest.raises(TimeoutError):
            async with cut:
                await tools.charge("a.doubtful")
        await tools.charge("a.fine")
        raise ZeroDivisionError

    ended = in_scope(store, body)
    assert ended.saga.report.is_clean
    assert world.standing == []
    assert order.index("asked") < order.index("undo fine")


def test_a_step_beside_a_doubt_that_nobody_can_settle_is_still_undone_or_a_case(store: Store, world: World) -> None:
    tools = declare(world, resource=named, probe=lambda _: Unknown("down"), lands_within=timedelta(0))
    cut = Cut()
    world.after["a.doubtful"].append(cut)

    async def body(saga: Saga) -> None:
        with pytest.raises(TimeoutError):
            async with cut:
                await tools.charge("a.doubtful")
        await tools.charge("a.fine")
        await tools.charge("b.other")
        raise ZeroDivisionError

    ended = in_scope(store, body)
    assert "b.other" not in world.standing
    assert ended.states[0] == "in_doubt"
    assert ended.saga.report.state == "needs_human"
    assert len(ended.saga.report.cases) >= 1


@pytest.mark.parametrize("answer", ["landed", "not landed", "unknown", "raises"])
def test_what_did_not_land_is_asked_about_again_once_its_neighbour_is_gone(
    store: Store, world: World, answer: str
) -> None:
    """A conditional write that a neighbour had kept out gets through when the neighbour is undone."""
    asked: list[str] = []

    async def probe(attempt: Attempt) -> Any:
        asked.append(attempt.args["item"])
        if "a.fine" in world.standing or answer == "not landed":
            return NotLanded()
        if answer == "unknown":
            return Unknown("down")
        if answer == "raises":
            raise OSError
        if world.find(attempt.key) is None:
            world.charge("a.doubtful", attempt.key)
        return Landed({"id": world.find(attempt.key), "item": "a.doubtful"})

    tools = declare(world, resource=named, probe=probe, lands_within=SOON)
    reached = asyncio.Event()
    tasks: list[asyncio.Task[Any]] = []

    async def hang() -> None:
        reached.set()
        await asyncio.sleep(60)

    world.before["a.doubtful"].append(hang)

    async def body(saga: Saga) -> None:
        tasks.append(asyncio.ensure_future(tools.charge("a.doubtful")))
        await reached.wait()
        await tools.charge("a.fine")
        tasks[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]
        raise ZeroDivisionError

    ended = in_scope(store, body, unwind_timeout=timedelta(seconds=2))
    assert asked[0] == "a.doubtful"
    assert len(asked) >= 2
    assert world.standing == []
    report = ended.saga.report
    if answer == "landed":
        assert ended.states == ["undone", "undone"]
        assert report.is_clean
    elif answer == "not landed":
        assert ended.states == ["not_landed", "undone"]
        assert report.is_clean
    else:
        assert report.state == "needs_human"
        assert not report.is_clean
        assert len(report.cases) == 1


def test_what_did_not_land_is_not_asked_about_again_without_a_neighbour(store: Store, world: World) -> None:
    asked: list[str] = []

    async def probe(attempt: Attempt) -> Any:
        asked.append(attempt.args["item"])
        return NotLanded()

    tools = declare(world, resource=named, probe=probe, lands_within=timedelta(0))
    cut = Cut()
    world.before["a.doubtful"].append(cut)

    async def body(saga: Saga) -> None:
        with pytest.raises(TimeoutError):
            async with cut:
                await tools.charge("a.doubtful")
        await tools.charge("b.fine")
        raise ZeroDivisionError

    ended = in_scope(store, body)
    assert asked == ["a.doubtful"]
    assert ended.saga.report.is_clean


def test_a_resource_function_that_raises_reaches_the_caller_and_nothing_is_called(store: Store, world: World) -> None:
    tools = declare(world, resource=lambda attempt: attempt.args["nothing"])

    async def body(saga: Saga) -> None:
        with pytest.raises(KeyError):
            await tools.charge("a.1")

    ended = in_scope(store, body)
    assert world.sent == []
    assert ended.states == []
    assert ended.saga.report.is_clean


def test_what_did_not_land_beside_a_running_neighbour_is_asked_about_again(store: Store, world: World) -> None:
    """The neighbour has landed and has not returned: its value is what the probe sees."""

    async def probe(attempt: Attempt) -> Any:
        if "a.above" in world.standing:
            return NotLanded()
        return Landed({"id": world.find(attempt.key), "item": attempt.args["item"]})

    tools = declare(world, resource=named, probe=probe, lands_within=timedelta(0))
    landed, both, go = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def wait_for_the_other() -> None:
        landed.set()
        await both.wait()
        raise Lost

    async def stay() -> None:
        both.set()
        await go.wait()

    world.after["a.below"].append(wait_for_the_other)
    world.after["a.above"].append(stay)

    async def body(saga: Saga) -> None:
        below = asyncio.ensure_future(tools.charge("a.below"))
        await landed.wait()
        above = asyncio.ensure_future(tools.charge("a.above"))
        with pytest.raises(Lost):
            await below
        assert [step.state for step in saga.report.steps] == ["not_landed", "intended"]
        go.set()
        await above
        raise ZeroDivisionError

    ended = in_scope(store, body)
    assert world.standing == []
    assert ended.states == ["undone", "undone"]
    assert ended.saga.report.is_clean


@pytest.mark.parametrize("what_it_did", ["landed", "did not land"])
def test_what_a_failed_savepoint_uncovers_is_asked_about_before_the_commit(
    store: Store, world: World, what_it_did: str
) -> None:
    """Its caller was told that it failed, for a neighbour hid it; the neighbour is gone when the saga commits."""

    async def probe(attempt: Attempt) -> Any:
        found = world.find(attempt.key)
        if found is None or "a.above" in world.standing:
            return NotLanded()
        return Landed({"id": found, "item": attempt.args["item"]})

    tools = declare(world, resource=named, probe=probe, lands_within=timedelta(0))
    landed, both = asyncio.Event(), asyncio.Event()

    async def wait_for_the_other() -> None:
        landed.set()
        await both.wait()
        raise Lost

    (world.after if what_it_did == "landed" else world.before)["a.below"].append(wait_for_the_other)
    world.after["a.above"].append(both.set)

    async def body(saga: Saga) -> None:
        below = asyncio.ensure_future(tools.charge("a.below"))
        await landed.wait()
        with pytest.raises(ZeroDivisionError):
            async with saga_scope():
                await tools.charge("a.above")
                with pytest.raises(Lost):
                    await below
                raise ZeroDivisionError

    ended = in_scope(store, body)
    assert ended.error is None
    assert world.standing == []
    assert (ended.saga.report.state, ended.saga.report.is_clean) == ("committed", True)


def topmost(world: World) -> Callable[[Attempt], Any]:
    """Return a probe of things that hold one value each: it sees a charge only while no later one stands on top."""

    async def probe(attempt: Attempt) -> Any:
        on_it = [item for item in world.standing if item.startswith(named(attempt))]
        item = attempt.args["item"]
        return Landed({"id": world.find(attempt.key), "item": item}) if on_it[-1:] == [item] else NotLanded()

    return probe


async def landed(tools: Tools, world: World, item: str) -> Callable[[], Coroutine[Any, Any, None]]:
    """Return as soon as a charge has landed; awaiting what is returned loses its answer."""
    is_there, go = asyncio.Event(), asyncio.Event()

    async def stay() -> None:
        is_there.set()
        await go.wait()
        raise Lost

    async def lose() -> None:
        go.set()
        with pytest.raises(Lost):
            await call

    world.after[item].append(stay)
    call = asyncio.ensure_future(tools.charge(item))
    await is_there.wait()
    return lose


@pytest.mark.parametrize("end", ["fails", "commits"])
def test_what_one_missing_effect_hid_of_another_is_found_and_undone(store: Store, world: World, end: str) -> None:
    """Of two effects under a third only the upper one is seen when that is gone, and the lower one is asked first."""
    tools = declare(world, resource=named, probe=topmost(world), lands_within=timedelta(0))

    async def body(saga: Saga) -> None:
        lose_lower = await landed(tools, world, "a.lower")
        lose_upper = await landed(tools, world, "a.upper")
        with pytest.raises(ZeroDivisionError):
            async with saga_scope():
                await tools.charge("a.top")
                await lose_upper()
                await lose_lower()
                steps = saga.report.steps
                assert [step.state for step in steps] == ["not_landed", "not_landed", "applied"]
                assert not any("did not land" in step.words for step in steps)
                raise ZeroDivisionError
        if end == "fails":
            raise ZeroDivisionError

    ended = in_scope(store, body)
    assert world.standing == []
    assert ended.states == ["undone", "undone", "undone"]
    assert ended.saga.report.is_clean
    assert ended.saga.report.state == ("rolled_back" if end == "fails" else "committed")


def test_what_a_step_of_the_outer_scope_hides_is_asked_about_when_that_is_undone(store: Store, world: World) -> None:
    """It was asked about a second time when its own scope failed; what hides it by then began after the first time."""
    tools = declare(world, resource=named, probe=topmost(world), lands_within=timedelta(0))

    async def body(saga: Saga) -> None:
        with pytest.raises(ZeroDivisionError):
            async with saga_scope():
                lose_lower = await landed(tools, world, "a.lower")
                await tools.charge("a.inner")
                await lose_lower()
                await tools.charge(saga, "a.outer")
                raise ZeroDivisionError
        assert [step.state for step in saga.report.steps] == ["not_landed", "undone", "applied"]
        raise ZeroDivisionError

    ended = in_scope(store, body)
    assert world.standing == []
    assert ended.states == ["undone", "undone", "undone"]
    assert ended.saga.report.is_clean


def test_what_a_remote_that_cannot_tell_may_hide_is_not_said_to_be_missing(store: Store, world: World) -> None:
    see = topmost(world)

    async def probe(attempt: Attempt) -> Any:
        is_down = attempt.args["item"] == "a.upper" and "a.top" not in world.standing
        return Unknown("down") if is_down else await see(attempt)

    tools = declare(world, resource=named, probe=probe, lands_within=timedelta(0))

    async def body(saga: Saga) -> None:
        lose_lower = await landed(tools, world, "a.lower")
        lose_upper = await landed(tools, world, "a.upper")
        await tools.charge("a.top")
        await lose_upper()
        await lose_lower()
        raise ZeroDivisionError

    ended = in_scope(store, body)
    assert world.standing == ["a.lower", "a.upper"]
    assert ended.states == ["in_doubt", "in_doubt", "undone"]
    assert ended.saga.report.state == "needs_human"
    assert len(ended.saga.report.cases) == 2


def test_a_commit_puts_what_a_neighbour_that_is_not_undone_may_hide_before_a_person(store: Store, world: World) -> None:
    """Whoever undoes the neighbour by hand brings it back."""
    tools = declare(world, resource=named, probe=topmost(world), lands_within=timedelta(0))
    world.on_undo["a.above"].append(lambda: Conflict(wrote=1, found=2))

    async def body(saga: Saga) -> None:
        lose_below = await landed(tools, world, "a.below")
        with pytest.raises(ZeroDivisionError):
            async with saga_scope():
                await tools.charge("a.above")
                await lose_below()
                raise ZeroDivisionError

    ended = in_scope(store, body)
    assert ended.error is None
    assert world.standing == ["a.below", "a.above"]
    assert ended.states == ["in_doubt", "conflict"]
    assert ended.saga.report.state == "committed"
    assert len(ended.saga.report.cases) == 2


@pytest.mark.parametrize("top", ["undone", "in doubt"])
def test_a_commit_asks_about_what_an_undone_stray_uncovers_beside_a_doubt(
    store: Store, world: World, monkeypatch: pytest.MonkeyPatch, top: str
) -> None:
    """The doubt has its case and goes on; it does not keep the others from being asked about, nor from a case."""
    monkeypatch.setattr(recall, "_SETTLE_WITHIN", 0.05)
    see = topmost(world)
    is_ending = False

    async def probe(attempt: Attempt) -> Any:
        item = attempt.args["item"]
        is_down = item == "a.base" or (item == "a.top" and not is_ending) or (item == "a.top" and top == "in doubt")
        return Unknown("down") if is_down else await see(attempt)

    tools = declare(world, resource=named, probe=probe, lands_within=timedelta(0))

    async def body(saga: Saga) -> None:
        nonlocal is_ending
        lose_base = await landed(tools, world, "a.base")
        lose_middle = await landed(tools, world, "a.middle")
        lose_top = await landed(tools, world, "a.top")
        for lose in (lose_base, lose_middle, lose_top):
            await lose()
        assert [step.state for step in saga.report.steps] == ["in_doubt", "not_landed", "in_doubt"]
        is_ending = True

    ended = in_scope(store, body)
    assert ended.error is None
    report = ended.saga.report
    assert report.state == "committed"
    if top == "undone":
        assert world.standing == ["a.base"]
        assert ended.states == ["in_doubt", "undone", "undone"]
        assert len(report.cases) == 1
    else:
        assert world.standing == ["a.base", "a.middle", "a.top"]
        assert ended.states == ["in_doubt", "in_doubt", "in_doubt"]
        assert len(report.cases) == 3
