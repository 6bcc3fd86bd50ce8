"""Recovery: another process ends what a dead one left open."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from saga_core import fold
from saga_core.clock import SYSTEM, Clock
from saga_core.engine import age
from saga_core.engine.ending import finish
from saga_core.engine.io import SYNC, Io, drive
from saga_core.engine.opening import adopt
from saga_core.engine.session import Session, log
from saga_core.engine.terms import backend
from saga_core.engine.unwind import unwind
from saga_core.errors import LogDamaged, StoreError
from saga_core.gate import DEFAULT
from saga_core.plan import next_move, uncased, unmet
from saga_core.records import Suspended, UnwindBegan
from saga_core.report import Report, report_of, summary
from saga_core.stores.boot import boot_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from saga_core.plan import Move
    from saga_core.stores import Store
    from saga_core.stores.store import Backend, Log, Reading
    from saga_core.view import SagaView

_SECOND = 1_000_000_000
_RESUME_GRACE = timedelta(seconds=60)
_WAIT = timedelta(seconds=5)
_ASK_AGAIN = 60 * _SECOND

_PARKED: dict[str, Literal["suspended", "cases"]] = {"suspended": "suspended", "needs_human": "cases"}

Outcome = Literal[
    "settled", "waiting", "needs_human", "owned", "not_due", "no_handler", "damaged", "suspended", "stale", "failed"
]


class Found(msgspec.Struct, frozen=True):
    """What a pass found about one open saga.

    Attributes:
        saga_id: The saga.
        outcome: `settled` now; `waiting` for an answer that counts later; `needs_human`: only cases are left; `owned`
            by a live process; `not_due` yet; `no_handler`: this process lacks one; `damaged`; `suspended`; `stale`: so
            old that it may be a restored copy; `failed`: its log or a handler raised.
        words: One sentence.
        report: The saga's report, where its log could be read.
    """

    saga_id: str
    outcome: Outcome
    words: str
    report: Report | None = None


class Pass(msgspec.Struct, frozen=True):
    """What one pass over a store did.

    Attributes:
        found: The sagas that it looked at.
        suspended: How many it left alone because they wait for a run to resume them.
        cased: How many it left alone because only a person can do something about them.
    """

    found: tuple[Found, ...]
    suspended: int = 0
    cased: int = 0

    def count(self, outcome: Outcome) -> int:
        """Return how many sagas had the outcome."""
        alone = {"suspended": self.suspended, "needs_human": self.cased}.get(outcome, 0)
        return alone + sum(one.outcome == outcome for one in self.found)

    @property
    def needs_person(self) -> bool:
        """Somebody has to look: at a case, a damaged or an old log, or a handler that is missing here."""
        lacking = {"needs_human", "damaged", "no_handler", "stale", "failed"}
        return self.cased > 0 or any(one.outcome in lacking for one in self.found)


def recover(
    store: Store | str | None = None,
    /,
    *,
    wait: timedelta = _WAIT,
    resume_grace: timedelta = _RESUME_GRACE,
    auto_undo_within: timedelta = age.WITHIN,
    only: str | None = None,
    progress: Callable[[Found], None] | None = None,
) -> Pass:
    """Make one pass over the open sagas: settle what is in doubt, undo what landed, open cases for the rest.

    A saga with a live owner is left alone. A pass is safe to repeat and to run beside others. What is done is durable
    when this returns.

    Args:
        store: A store or its URL; default SAGA_STORE, else `file:.saga`.
        wait: How long to stay with a saga whose remote cannot tell yet.
        resume_grace: How long a saga with a key is left to whoever may resume it, counted from its last record.
        auto_undo_within: How old a saga's last record may be; an older saga is reported and left as it is.
        only: Look at this saga alone.
        progress: Called after each saga.

    Raises:
        StoreError: The store cannot be used.
    """
    place = backend(store)
    suspended = cased = 0
    if only is None:
        suspended = sum(1 for _ in place.parked_sagas("suspended"))
        cased = sum(1 for _ in place.parked_sagas("cases"))
    found: list[Found] = []
    for saga in [only] if only is not None else list(place.due_sagas()):
        terms = Terms(wait, resume_grace, auto_undo_within, is_named=only is not None)
        one = drive(recover_one(SYNC, place, saga, terms))
        if one is not None:
            found.append(one)
            if progress is not None:
                progress(one)
    if only is None:
        place.tidy()
    return Pass(tuple(found), suspended, cased)


class Terms(NamedTuple):
    """On what terms a pass acts; a test brings a clock of its own."""

    wait: timedelta
    grace: timedelta
    within: timedelta
    is_named: bool = False
    clock: Clock = SYSTEM


async def recover_one(io: Io, store: Backend, saga: str, terms: Terms) -> Found | None:
    """Do for one saga, with any driver, what `recover` does for all; None if there is nothing to say about it."""
    try:
        look = store.read(saga)
        if look is None or look.settled:
            return None
        if look.damage is not None:
            return Found(saga, "damaged", f"its log is damaged: {look.damage}; nothing is done in its name")
        owner = store.owner(saga)
        view = fold.fold(look.records)
        if owner is not None:
            return Found(saga, "owned", f"owned by {owner}", report_of(view))
        early = _not_now(view, terms)
        if early is not None:
            if waits_in := _PARKED.get(early[0]):
                await _park(io, store, look, waits_in, terms.clock)
            return Found(saga, early[0], early[1], report_of(view))
        claimed = store.claim(saga)
        if claimed is None:
            return Found(saga, "owned", "another process took it first", report_of(view))
        return await _take(io, store, *claimed, terms)
    except LogDamaged as damage:
        return Found(saga, "damaged", str(damage.args[0]))
    except fold.FoldError as misfit:
        return Found(saga, "damaged", f"its records contradict each other: {misfit}; nothing is done in its name")
    except StoreError as broken:
        log.exception("saga %s could not be recovered", saga)
        return Found(saga, "failed", str(broken.args[0]))


async def _park(io: Io, store: Backend, look: Reading, place: Literal["suspended", "cases"], clock: Clock) -> None:
    """Put a saga that waits for somebody where the next pass does not look, once it is on the disk that it waits."""
    claimed = store.claim(look.saga)
    if claimed is None:
        return
    log_, reading = claimed
    try:
        if len(reading.records) != len(look.records) or reading.dropped:
            return
        view = fold.fold(reading.records)
        if view.suspended is None:
            session = adopt(store, log_, reading, DEFAULT, "park", clock)
        else:  # adopting it would end the suspension
            session = Session(store, log_, view, clock=clock)
            session.append(Suspended(clock.wall(), view.suspended))
        await io.barrier(log_, session.written)
        log_.park(place)
    finally:
        log_.release()


def _not_now(view: SagaView, terms: Terms) -> tuple[Outcome, str] | None:
    """Return why nothing is done about a free saga in this pass; nothing is adopted before something is due."""
    if view.began is None or view.is_settled:
        return None
    if view.state == "suspended":
        return "suspended", f"suspended ({view.suspended}); a scope with key {view.began.key!r} resumes it"
    move = _next(view, terms.clock)
    if view.state in {"needs_human", "committed"} and move.kind == "done" and not uncased(view):
        return "needs_human", f"{len(view.open_cases)} cases wait for a person"
    if view.ended != "committed" or view.holds_left:
        doubt = age.distrust(view, clock=terms.clock, within=terms.within, is_named=terms.is_named)
        if doubt is not None:
            return "stale", doubt
    lacking = unmet(view)
    if lacking:
        return "no_handler", f"not registered here: {', '.join(lacking)}; import the module that declares it"
    if view.began.key is not None and not view.unwinding and view.ended != "committed":
        left = terms.grace.total_seconds() - (terms.clock.wall() - view.last_at) / _SECOND
        if left > 0:
            return "not_due", f"whoever has its key {view.began.key!r} may resume it; due in {left:.0f} s"
    if (view.unwinding or view.ended == "committed") and move.kind == "wait" and move.due is not None:
        left = (move.due - terms.clock.up()) / _SECOND
        if left > terms.wait.total_seconds():
            return "waiting", f"due in {left:.0f} s; {summary(view)}"
    return None


def _next(view: SagaView, clock: Clock) -> Move:
    """Return the next move of a free saga, as far as its records tell when its remote was last asked."""
    asked: dict[int, int] = {}
    if view.adopted is not None and view.adopted.boot == boot_id():
        again = view.adopted.up + _ASK_AGAIN
        for step in view.steps.values():
            if step.state == "in_doubt":
                asked[step.number] = min(again, (step.doubted_up or 0) + step.lands_within)
            elif step.state == "undo_in_doubt":
                asked[step.number] = min(again, step.undo_up + step.lands_within)
    return next_move(view, up=clock.up(), wall=clock.wall(), asked=asked)


async def _take(io: Io, store: Backend, log_: Log, reading: Reading, terms: Terms) -> Found | None:
    """End a claimed saga as far as it can be ended now, and give it up."""
    try:
        if fold.fold(reading.records).began is None:
            log_.settle()
            return None
        session = adopt(store, log_, reading, DEFAULT, "recover", terms.clock)
        view = session.view
        if view.is_settled:  # its end may have been in the page cache alone
            await io.barrier(log_, session.written)
            log_.settle()
            return Found(session.saga_id, "settled", summary(view), session.report())
        move = await _unwind(io, session, terms.wait)
        if move.kind == "wait":
            left = f"due in {max((move.due or 0) - terms.clock.up(), 0) / _SECOND:.0f} s"
            return Found(session.saga_id, "waiting", f"{summary(view)}; {left}", session.report())
        outcome: Outcome = "settled" if view.is_settled else "needs_human"
        return Found(session.saga_id, outcome, summary(view), session.report())
    finally:
        log_.release()


async def _unwind(io: Io, session: Session, wait: timedelta) -> Move:
    if not session.view.unwinding and session.view.ended != "committed":
        session.append(UnwindBegan("", "its process died", session.clock.wall()))
    until = session.clock.up() + int(wait.total_seconds() * _SECOND)
    move = await unwind(io, session, lambda _: True, wait_until=until, work_until=None)
    if move.kind == "done":
        await finish(io, session, move)
    return move
