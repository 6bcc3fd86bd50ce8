"""Random programs over a ledger, and the comparison of what a saga says with what happened."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

import pytest
from hypothesis import strategies as st

from saga_core import (
    AlreadyUndone,
    Attempt,
    Conflict,
    Landed,
    NotLanded,
    Pending,
    RollbackIncomplete,
    Saga,
    SagaError,
    Unknown,
    current_step,
    ids,
    open_store,
    saga_scope,
)
from saga_core.clock import SystemClock
from saga_core.engine import recall
from saga_core.engine.io import AsyncIo, SyncIo
from saga_core.errors import StepInDoubt
from saga_core.fold import fold
from saga_core.report import report_of
from saga_core.stores.store import Backend
from saga_core.view import PROVEN

from .world import Charge, Declined, Lost, Tools, World, declare, decline, lose

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from saga_core.view import SagaView

NOW = timedelta(0)
CallFate = Literal["ok", "declined", "lost_landed", "lost_missed"]
Sight = Literal["clear", "blind_till_end", "blind_at_end", "blind", "masked", "none"]
UndoFate = Literal["ok", "raises", "answer_lost", "already", "conflict", "pending", "nonsense"]
End = Literal["succeed", "fail", "rollback"]


@dataclass(frozen=True)
class Call:
    """One call.

    Attributes:
        fate: What becomes of it.
        sight: What its probe can see. `masked`: a later charge of the resource hides it for as long as that one stands,
            as the newest value of a field hides the one before.
        undo: What becomes of its undo.
        resource: What it changes.
        turns: How many turns of the loop it takes before it lands, and again behind that.
        is_repeated: The caller tries once more if it fails.
    """

    fate: CallFate
    sight: Sight
    undo: UndoFate
    resource: str | None
    turns: int
    is_repeated: bool


@dataclass(frozen=True)
class Block:
    """Operations one after another or all at once, in a savepoint of their own if they have an end of their own."""

    operations: tuple[Call | Block, ...]
    is_parallel: bool = False
    end: End | None = None


calls = st.builds(
    Call,
    st.sampled_from(["ok", "ok", "declined", "lost_landed", "lost_missed"]),
    st.sampled_from(["clear", "clear", "masked", "blind_till_end", "blind_at_end", "blind", "none"]),
    st.sampled_from(["ok", "ok", "ok", "raises", "answer_lost", "already", "conflict", "pending", "nonsense"]),
    st.sampled_from([None, "r", "s"]),
    st.integers(0, 3),
    st.booleans(),
)


def nested(calls: st.SearchStrategy[Call], *, max_leaves: int) -> st.SearchStrategy[Block]:
    """Return programs of these calls, in blocks within blocks."""
    return st.recursive(
        st.builds(Block, st.lists(calls, max_size=4).map(tuple)),
        lambda inner: st.builds(
            Block,
            st.lists(calls | inner, max_size=4).map(tuple),
            st.booleans(),
            st.sampled_from([None, "succeed", "fail", "rollback"]),
        ),
        max_leaves=max_leaves,
    )


blocks = nested(calls, max_leaves=4)
ends = st.sampled_from(["succeed", "fail", "rollback"])
piles = st.builds(
    Call,
    st.sampled_from(["ok", "lost_landed", "lost_landed", "lost_missed"]),
    st.sampled_from(["masked", "masked", "clear", "blind_till_end", "blind", "none"]),
    st.sampled_from(["ok", "ok", "ok", "raises", "answer_lost", "already", "conflict", "pending"]),
    st.just("r"),
    st.integers(0, 3),
    st.booleans(),
)
"""Calls that change one thing: what one left there hides what another did."""

pile_blocks = nested(piles, max_leaves=6)


def turning(turns: int, act: Callable[[], object] | None) -> Callable[[], Awaitable[None]]:
    """Return an act behind some turns of the loop."""

    async def turn() -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        if act is not None:
            act()

    return turn


class Failure(Exception):
    """What fails a scope on purpose."""


@dataclass
class Run:
    """One program on its way: the world, what the program was told, and which item is which call."""

    world: World
    lie: str = "none"
    tools: dict[bool, Tools] = field(default_factory=dict[bool, Tools])
    items: dict[str, Call] = field(default_factory=dict[str, Call])
    kept: set[str] = field(default_factory=set[str])
    cursor: int = 0
    is_ending: bool = False

    def __post_init__(self) -> None:
        for can_ask in (True, False):
            tools = declare(
                self.world,
                probe=self.probe if can_ask else False,
                not_landed=Declined,
                resource=self.resource,
                lands_within=NOW,
            )
            self.tools[can_ask] = tools
            tools.refund.observe(self.observe)

    def resource(self, attempt: Attempt) -> str:
        """Return the call's resource; one of its own where it has none."""
        return self.items[attempt.args["item"]].resource or attempt.args["item"]

    async def probe(self, attempt: Attempt) -> Landed[dict[str, str]] | NotLanded | Unknown:
        item = attempt.args["item"]
        call = self.items[item]
        if call.sight in {"blind", "blind_at_end" if self.is_ending else "blind_till_end"}:
            return Unknown("down")
        found = self.world.find(attempt.key)
        if self.lie == "landed" and found is None:
            return Landed({"id": self.world.charges[0].id, "item": item})
        if self.lie == "not landed":
            return NotLanded()
        made = next((charge for charge in self.world.charges if charge.id == found), None)
        if made is None or (call.sight == "masked" and self.above(made)):
            return NotLanded()
        return Landed({"id": made.id, "item": item})

    def is_hidden(self, charge: Charge) -> bool:
        """Tell whether nobody can see a charge: a later one of the resource stands on top of it."""
        call = self.items[charge.item]
        return charge.back is None and call.sight == "masked" and bool(self.above(charge))

    def above(self, charge: Charge) -> list[Charge]:
        """Return the later charges of the resource that stand."""
        charges, resource = self.world.charges, self.items[charge.item].resource
        return [
            other
            for other in charges[charges.index(charge) + 1 :]
            if other.back is None and self.items[other.item].resource == resource is not None
        ]

    async def observe(self, _: Pending, charge_id: str) -> None:
        self.world.refund(charge_id, current_step().key)

    def prepare(self, call: Call, *, is_async: bool) -> str:
        """Name an item for a call and lay out its fate."""
        self.cursor += 1
        item = f"i{self.cursor}"
        if item in self.items:
            return item
        self.items[item] = call
        fates = {
            "declined": (decline, None),
            "lost_missed": (lose, None),
            "lost_landed": (None, lose),
            "ok": (None, None),
        }
        for acts, fate in zip((self.world.before, self.world.after), fates[call.fate], strict=True):
            if is_async:
                acts[item].append(turning(call.turns, fate))
            elif fate is not None:
                acts[item].append(fate)
        undoing: dict[str, Callable[[], object]] = {
            "raises": lose,
            "already": self.by_a_person,
            "conflict": lambda: Conflict(wrote=1, found=2),
            "pending": lambda: Pending("re_1", check_after=NOW),
            "nonsense": lambda: "nonsense",
        }
        if self.lie == "undone":
            self.world.on_undo[item].append(AlreadyUndone)
        if call.undo in undoing:
            again = 1 if call.undo != "already" else 99  # whoever asks once more finds it undone, too
            self.world.on_undo[item] += [undoing[call.undo]] * again
        if call.undo == "answer_lost":
            self.world.after_undo[item].append(lose)
        return item

    def by_a_person(self) -> AlreadyUndone:
        """Give back the charge of the step being undone; another one of its item is another step's."""
        step = current_step()
        key = ids.step_key(step.saga_id, step.position, "do", step.attempt)
        for charge in self.world.charges:
            if charge.key == key and charge.back is None:
                charge.back = "a person"
        return AlreadyUndone()

    def told(self, result: dict[str, Any], kept: set[str]) -> None:
        if self.lie != "kept":
            kept.add(result["id"])

    def rewind(self) -> None:
        """Begin the program again, as a process does that resumes its saga."""
        self.cursor = 0
        self.kept = set()

    def tool(self, call: Call) -> Tools:
        return self.tools[call.sight != "none"]

    def play_plain(self, block: Block) -> None:
        for operation in block.operations:
            if isinstance(operation, Block):
                self.play_scope_plain(operation)
                continue
            item = self.prepare(operation, is_async=False)
            for _ in range(2 if operation.is_repeated else 1):
                try:
                    self.told(self.tool(operation).charge_now(item), self.kept)
                except (Lost, Declined, StepInDoubt):
                    continue
                break

    def play_scope_plain(self, block: Block) -> None:
        before = set(self.kept)
        try:
            if block.end is None:
                self.play_plain(block)
                return
            with saga_scope("inner") as inner:
                self.play_plain(block)
                self.finish(inner, block.end)
        except (Failure, RollbackIncomplete):
            assert block.end in {"fail", "rollback"}
        if block.end != "succeed":
            self.kept = before

    async def play(self, block: Block, kept: set[str]) -> None:
        if block.is_parallel:
            async with asyncio.TaskGroup() as group:
                for operation in block.operations:
                    group.create_task(self.play_one(operation, kept))
        else:
            for operation in block.operations:
                await self.play_one(operation, kept)

    async def play_one(self, operation: Call | Block, kept: set[str]) -> None:
        if isinstance(operation, Block):
            await self.play_scope(operation, kept)
            return
        item = self.prepare(operation, is_async=True)
        for _ in range(2 if operation.is_repeated else 1):
            try:
                self.told(await self.tool(operation).charge(item), kept)
            except (Lost, Declined, StepInDoubt):
                continue
            break

    async def play_scope(self, block: Block, kept: set[str]) -> None:
        if block.end is None:
            await self.play(block, kept)
            return
        told: set[str] = set()  # parallel siblings are told things at the same time
        try:
            async with saga_scope("inner") as inner:
                await self.play(block, told)
                self.finish(inner, block.end)
        except (Failure, RollbackIncomplete):
            assert block.end in {"fail", "rollback"}
        if block.end == "succeed":
            kept |= told

    def finish(self, saga: Saga, end: End) -> None:
        if end == "fail":
            raise Failure
        if end == "rollback":
            saga.rollback("on purpose")


def outermost(
    run: Run,
    block: Block,
    end: End,
    *,
    stops: Sequence[int] = (),
    cancels: Sequence[int] = (),
    is_async: bool = False,
    **options: Any,
) -> tuple[Saga | None, BaseException | None]:
    """Run a program to its end, and return its saga and what came out of its last run.

    A plain one is suspended behind some of its operations and begun again, an asynchronous one is cancelled after some
    turns of the loop, and again after some more.

    There is no saga where none could be opened.
    """
    sagas: list[Saga] = []
    options |= {"unwind_timeout": timedelta(seconds=5), "drain_timeout": timedelta(seconds=5)}

    def plain() -> None:
        for stop in stops:
            with saga_scope(key="k", **options) as saga:
                run.rewind()
                run.play_plain(Block(block.operations[:stop]))
                saga.suspend("for a while")
        with saga_scope(key="k" if stops else None, **options) as saga:
            sagas.append(saga)
            run.rewind()
            run.play_plain(block)
            run.is_ending = True
            run.finish(saga, end)

    async def scope() -> None:
        async with saga_scope(**options) as saga:
            sagas.append(saga)
            await run.play(block, run.kept)
            run.is_ending = True
            run.finish(saga, end)

    async def cancelled_scope() -> None:
        task = asyncio.ensure_future(scope())
        for turns in cancels:
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
        await task

    try:
        if is_async or cancels:
            asyncio.run(cancelled_scope())
        else:
            plain()
    except (Failure, SagaError, ExceptionGroup, asyncio.CancelledError) as error:
        return (sagas[0] if sagas else None), error
    return sagas[0], None


async def _unbounded(_: object, work: Coroutine[Any, Any, object], seconds: float) -> bool:
    await work
    return True


def steady(patch: pytest.MonkeyPatch) -> None:
    """Keep chance and the machine's speed out of a program: no probe here hangs, so no question needs a bound."""
    patch.setattr(SystemClock, "jitter", staticmethod(lambda: 0.0))
    patch.setattr(recall, "_SETTLE_WITHIN", 0.01)
    for driver in (AsyncIo, SyncIo):
        patch.setattr(driver, "bounded", _unbounded)


def check_steps(view: SagaView, run: Run) -> None:
    """Compare each step's state with what its key did to the world."""
    assert view.began is not None
    world = run.world
    steps = {ids.step_key(view.began.saga, step.position, "do", step.attempt): step for step in view.steps.values()}
    for key, step in steps.items():
        made = [charge for charge in world.charges if charge.key == key]
        assert len(made) <= 1
        if made and step.state == "not_landed" and run.is_hidden(made[0]):
            above = [steps[charge.key].state for charge in run.above(made[0])]
            assert "applied" in above, "nobody is told what may come back"
            continue
        if not made:
            assert step.state in {"not_landed", "in_doubt"}, "an effect is reported that never was"
            assert step.trials == 0, "an undo was sent for what never landed"
        elif made[0].back is None:
            assert step.state not in PROVEN, "an effect stands that is reported as gone"
        else:
            assert step.state not in {"applied", "not_landed", "in_doubt"}, "an effect is gone, and said to stand"


def check(block: Block, end: End, *, lie: str = "none", **options: Any) -> str:
    """Run a program, compare what the saga says with what happened, and return how it ended."""
    run = Run(World(), lie=lie)
    store = open_store("memory:")
    assert isinstance(store, Backend)
    with pytest.MonkeyPatch.context() as patch:
        steady(patch)
        saga, error = outermost(run, block, end, store=store, **options)
    world = run.world
    if saga is None:
        assert isinstance(error, asyncio.CancelledError)
        assert world.charges == []
        return "never opened"
    report = saga.report
    standing = {charge.id for charge in world.charges if charge.back is None and not run.is_hidden(charge)}
    kept = {charge.id for charge in world.charges if charge.id in run.kept and not run.is_hidden(charge)}
    assert world.violations == []
    reading = store.read(saga.id)
    assert reading is not None
    view = fold(reading.records)
    assert report_of(view) == report, "the log tells another story than the process"
    check_steps(view, run)
    is_cancelled = isinstance(error, asyncio.CancelledError)
    assert not is_cancelled or "cancels" in options
    if report.state == "committed":
        assert end == "succeed"
        assert error is None or is_cancelled
        assert kept <= standing, "what the program was told, and kept, was undone"
        assert not report.is_clean or standing == kept
    else:
        assert report.state in {"rolled_back", "needs_human"}
        assert report.is_clean == (report.state == "rolled_back")
        assert not report.is_clean or standing == set()
        assert is_cancelled or end == "rollback" or isinstance(error, Failure)
        assert is_cancelled or (error is None) == (end == "rollback" and report.is_clean)
    assert report.is_clean == (saga.id in store.done_sagas())
    assert report.is_clean or report.cases, "something is left to somebody, and nobody is told"
    return report.state + (" clean" if report.is_clean else "")
