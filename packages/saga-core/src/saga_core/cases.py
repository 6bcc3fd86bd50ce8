"""What only a person can settle: listed, claimed and settled, each with a name and evidence.

A case is opened once and blocks its saga from being settled, erased or collected. How it was settled stands in the
saga's log and is durable when `resolve` returns; a claim only tells other people who is at it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Literal, NoReturn, TypeAlias

import msgspec

from saga_core import codec, fold
from saga_core.clock import SYSTEM
from saga_core.engine.ending import last_word
from saga_core.engine.opening import adopt
from saga_core.engine.session import log
from saga_core.engine.terms import backend
from saga_core.errors import CaseConflict, NotFound, SagaBusy
from saga_core.gate import DEFAULT
from saga_core.ids import is_saga_id
from saga_core.plan import next_move
from saga_core.records import CaseResolved, Suspended
from saga_core.secrets import mask
from saga_core.view import is_over

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from saga_core.engine.session import Session
    from saga_core.stores import Store
    from saga_core.stores.store import Backend, Log
    from saga_core.view import CaseView, SagaView

__all__ = ["Case", "How", "claim", "get", "open_cases", "release", "resolve"]

How: TypeAlias = Literal["retry", "undone", "left"]
"""How a case is settled: `retry`: recovery goes on with the step; `undone` by hand; `left` in place on purpose."""


class Case(msgspec.Struct, frozen=True):
    """Something that a person must settle, or has settled.

    Attributes:
        id: The saga's id, a colon and the case's number.
        saga_id: The saga.
        name: The name of its scope.
        key: Its key.
        words: What is to be known.
        action: The action of the step concerned; None where the case is about the saga.
        step: The step's number.
        state: The step's state.
        amount: The step's declared amount, in minor units.
        currency: Its currency.
        opened_at: When.
        claimed_by: Who is at it.
        resolved: How it was settled; None while it is open.
        by: Who settled it.
        evidence: What the person said.
    """

    id: str
    saga_id: str
    name: str
    key: str | None
    words: str
    action: str | None
    step: int | None
    state: str | None
    amount: Decimal | None
    currency: str | None
    opened_at: datetime
    claimed_by: str | None = None
    resolved: str | None = None
    by: str | None = None
    evidence: str | None = None


def open_cases(store: Store, /) -> Sequence[Case]:
    """Return what waits for a person, oldest saga first.

    Raises:
        StoreError: The store cannot be read.
    """
    return list(_open(backend(store)))


def get(store: Store, case_id: str, /) -> Case:
    """Return a case, open or settled.

    Raises:
        NotFound: There is none of this id.
    """
    place = backend(store)
    saga, number = _parsed(case_id)
    view = _view(place, saga)
    found = next((case for case in view.cases if case.number == number), None) if view is not None else None
    if view is None or found is None:
        _none(case_id)
    return _shown(view, found, place.permits.claims())


def claim(store: Store, case_id: str, /, *, by: str) -> Case:
    """Tell others that somebody is at a case; the first one stays.

    Raises:
        NotFound: There is no such case.
        CaseConflict: It is settled, or somebody else is at it.
    """
    _refuse_empty(by, "the name of who claims it")
    case = _still_open(get(store, case_id))
    holder = backend(store).permits.claim_case(case.id, codec.words(by))
    if holder != codec.words(by):
        raise _conflict(case.id, f"{holder} is at it", "talk to them, or release it first")
    return get(store, case.id)


def release(store: Store, case_id: str, /) -> Case:
    """Tell others that nobody is at a case any more.

    Raises:
        NotFound: There is no such case.
    """
    case = get(store, case_id)
    backend(store).permits.release_case(case.id)
    return get(store, case.id)


def resolve(store: Store, case_id: str, /, *, by: str, how: How, evidence: str) -> Case:
    """Settle a case, in the saga's log; the saga is settled with its last one, or goes to recovery.

    Args:
        store: The store.
        case_id: The case.
        by: Who says so.
        how: `retry`: the step is released, and the next `saga recover` goes on with it, with as many trials as at
            first; `undone`: nothing of it stands any more, somebody saw to that; `left`: it stands on purpose.
        evidence: How that is known: a ticket, a receipt, what the vendor's page shows.

    Raises:
        NotFound: There is no such case.
        CaseConflict: It is settled, somebody else is at it, or it cannot be settled like this.
        SagaBusy: A live process owns the saga.
        LogDamaged: Its log is damaged: nothing can be written into it.
    """
    _refuse_empty(by, "the name of who settles it")
    _refuse_empty(evidence, "evidence: how is it known?")
    if how not in {"retry", "undone", "left"}:
        raise ValueError(f"a case is settled by retry, undone or left, not by {how!r}")
    place = backend(store)
    case = _still_open(get(store, case_id))
    if case.claimed_by is not None and case.claimed_by != codec.words(by):
        raise _conflict(case.id, f"{case.claimed_by} is at it", "talk to them, or release it first")
    claimed = place.claim(case.saga_id)
    if claimed is None:
        _still_open(get(store, case_id))
        raise SagaBusy(
            f"saga {case.saga_id} is owned by {place.owner(case.saga_id) or 'another process'}",
            saga_id=case.saga_id,
            world="nothing was changed",
            next="wait until that process has ended with it",
        )
    log_, reading = claimed
    try:
        suspended = fold.fold(reading.records).suspended
        session = adopt(place, log_, reading, DEFAULT, "resolve")
        _settle(session, case, by, how, evidence)
        _put_away(session, log_, suspended)
    finally:
        log_.release()
    place.permits.release_case(case.id)
    return get(store, case.id)


def _settle(session: Session, case: Case, by: str, how: How, evidence: str) -> None:
    """Write how a case is settled and, where it was the last thing that was left, how the saga ended."""
    view = session.view
    _, number = _parsed(case.id)
    if all(found.number != number for found in view.open_cases):
        raise _conflict(case.id, "it was settled in this moment", f"saga cases show {case.id}")
    if how == "retry" and case.step is not None:
        step = view.steps[case.step]
        if step.state == "undo_failed" and step.undo is None:
            raise _conflict(case.id, "no undo is recorded that could be tried", "undo it by hand, or leave it in place")
    at = session.clock.wall()
    session.append(CaseResolved(number, at, mask(codec.words(by)), how, mask(codec.words(evidence))))
    log.info("saga %s case %d was settled by %s: %s", session.saga_id, number, by, how)
    if view.ended == "needs_human" and not view.open_cases and all(map(is_over, view.steps.values())):
        session.append(last_word(view, at))


def _put_away(session: Session, log_: Log, suspended: str | None) -> None:
    """Leave the log where who has to go on with it looks for it, once all is on the disk."""
    view = session.view
    if suspended is not None:  # being taken over has ended the suspension
        session.append(Suspended(session.clock.wall(), suspended))
    log_.sync(session.written)
    if view.is_settled:
        log_.settle()
    elif suspended is not None:
        log_.park("suspended")
    elif view.open_cases and next_move(view, up=SYSTEM.up(), wall=SYSTEM.wall(), asked={}).kind == "done":
        log_.park("cases")


def _open(place: Backend) -> Iterator[Case]:
    claims = place.permits.claims()
    for saga in place.open_sagas():
        view = _view(place, saga)
        if view is not None:
            for case in view.open_cases:
                yield _shown(view, case, claims)


def _shown(view: SagaView, case: CaseView, claims: dict[str, str]) -> Case:
    assert view.began is not None
    step = None if case.step is None else view.steps[case.step]
    id_ = f"{view.began.saga}:{case.number}"
    resolved = case.resolved
    return Case(
        id_,
        view.began.saga,
        view.began.name,
        view.began.key,
        case.words,
        None if step is None else step.action,
        case.step,
        None if step is None else step.state,
        None if step is None or step.amount is None else Decimal(step.amount),
        None if step is None else step.currency,
        datetime.fromtimestamp(case.at / 1e9, UTC),
        claims.get(id_),
        ("settled" if resolved is None else resolved.how) if not case.open else None,
        None if resolved is None else resolved.by,
        None if resolved is None else resolved.evidence,
    )


def _still_open(case: Case) -> Case:
    if case.resolved is not None:
        who = "" if case.by is None else f" by {case.by} ({case.evidence})"
        raise _conflict(case.id, f"it is settled already: {case.resolved}{who}", f"saga show {case.saga_id}")
    return case


def _view(place: Backend, saga: str) -> SagaView | None:
    reading = place.read(saga)
    if reading is None:
        return None
    try:
        view = fold.fold(reading.records)
    except fold.FoldError:
        return None
    return None if view.began is None else view


def _parsed(case_id: str) -> tuple[str, int]:
    saga, _, number = case_id.strip().partition(":")
    if not is_saga_id(saga.upper()) or not number.isdecimal():
        _none(case_id)
    return saga.upper(), int(number)


def _refuse_empty(text: str, what: str) -> None:
    if not isinstance(text, str) or not text.strip():  # pyright: ignore[reportUnnecessaryIsInstance] -- it goes into the log
        raise ValueError(f"a case needs {what}")


def _conflict(id_: str, why: str, then: str) -> CaseConflict:
    return CaseConflict(f"the case {id_} was not touched: {why}", world="nothing was changed", next=then)


def _none(id_: str) -> NoReturn:
    raise NotFound(f"there is no case {id_} here", world="nothing was changed", next="see: saga cases list")
