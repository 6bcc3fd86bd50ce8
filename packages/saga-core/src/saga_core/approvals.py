"""What people decide about calls that wait for them, and the standing grants that they give.

A decision binds exactly one call, as it was asked or as the person edited it, and is good for one run of it. The first
decision wins. What would run stands in the saga's log; the control database holds the decisions. Everything is durable
when a function returns.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from saga_core import codec, fold
from saga_core.clock import nanoseconds
from saga_core.errors import ApprovalConflict, NotFound
from saga_core.permissions import Decision, Grant, Standing, State, digest
from saga_core.secrets import mask
from saga_core.stores.store import Backend

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from saga_core.records import Asked
    from saga_core.stores import Store
    from saga_core.view import SagaView

__all__ = ["Approval", "approve", "get", "grant", "grants", "pending", "reject", "revoke", "revoke_grant"]

_A_DAY = timedelta(days=1)


class Approval(msgspec.Struct, frozen=True):
    """A call that waits, or waited, for people.

    Attributes:
        id: Names the request.
        action: The action's registered name.
        args: Exactly what would run.
        reason: Why the rules ask.
        saga_id: The saga.
        key: The key under which it goes on.
        state: What became of the request.
        amount: The declared amount, in minor units.
        currency: Its currency.
        requester: Who may not approve, where known.
        quorum: How many different persons have to approve.
        decisions: What was decided so far, with name, verdict, reason, edited arguments and time.
        story: What the saga did before, in words.
        asked_at: When.
        expires_at: When it turns into a no.
    """

    id: str
    action: str
    args: Mapping[str, Any]
    reason: str
    saga_id: str
    key: str | None
    state: State
    amount: Decimal | None
    currency: str | None
    requester: str | None
    quorum: int
    decisions: tuple[Mapping[str, Any], ...]
    story: tuple[str, ...]
    asked_at: datetime
    expires_at: datetime


def pending(store: Store, /, *, key: str | None = None) -> Sequence[Approval]:
    """Return what waits for a person, oldest first; of one saga where its key is given.

    Raises:
        StoreError: The store cannot be read.
    """
    found = (_shown(_backend(store), standing) for standing in _backend(store).permits.pending())
    return [one for one in found if one is not None and (key is None or one.key == key)]


def get(store: Store, approval_id: str, /) -> Approval:
    """Return a request, whatever became of it.

    Raises:
        NotFound: There is none of this id.
    """
    standing = _backend(store).permits.asked(approval_id)
    shown = None if standing is None else _shown(_backend(store), standing)
    return _none(approval_id) if shown is None else shown


def approve(
    store: Store,
    approval_id: str,
    /,
    *,
    by: str,
    reason: str | None = None,
    edit: Mapping[str, Any] | None = None,
) -> Approval:
    """Let a call run once, exactly as it was asked or as it is edited, and return the request as it stands now.

    Args:
        store: The store.
        approval_id: The request.
        by: Who decides; not the requester, and nobody twice.
        reason: Why, for the log.
        edit: Arguments by name to run with instead; the gate judges them again before they do.

    Raises:
        NotFound: There is no such request.
        ApprovalConflict: It is decided, expired or used; or this person may not decide it.
    """
    changed = None if edit is None else dict(edit)

    def decision(approval: Approval, asked: Asked) -> Decision:
        if not changed:
            return Decision(by, "approve", reason or "", asked.digest)
        unknown = changed.keys() - approval.args.keys()
        if unknown:
            raise _conflict(
                approval_id, f"{', '.join(sorted(unknown))} is no argument of the call", "name those it has"
            )
        frozen = codec.freeze({**approval.args, **changed})
        args = codec.thaw(frozen)
        codec.refuse_unfit(args)
        bound = digest(approval.saga_id, asked.position, asked.attempt, asked.action, asked.version, args)
        return Decision(by, "approve", reason or "", bound, bytes(frozen))

    return _decide(store, approval_id, by, decision)


def reject(store: Store, approval_id: str, /, *, by: str, reason: str) -> Approval:
    """Say no to a call; it is refused with the reason, which a model can read.

    Raises:
        NotFound: There is no such request.
        ApprovalConflict: It is decided, expired or used.
    """

    def decision(_: Approval, asked: Asked) -> Decision:
        return Decision(by, "reject", reason, asked.digest)

    return _decide(store, approval_id, by, decision)


def revoke(store: Store, approval_id: str, /, *, by: str, reason: str) -> Approval:
    """Take an approval back before it is used; the call is refused.

    Raises:
        NotFound: There is no such request.
        ApprovalConflict: It is not approved, or used already.
    """

    def decision(_: Approval, asked: Asked) -> Decision:
        return Decision(by, "revoke", reason, asked.digest)

    return _decide(store, approval_id, by, decision)


def grant(
    store: Store,
    actions: str,
    /,
    *,
    by: str,
    reason: str,
    args: Mapping[str, str] | None = None,
    uses: int | None = None,
    limit: Decimal | int | None = None,
    currency: str | None = None,
    expires_in: timedelta = _A_DAY,
) -> Grant:
    """Approve calls to come, where one person's approval is enough.

    Args:
        store: The store.
        actions: The pattern of the actions' names.
        by: Who grants.
        reason: Why.
        args: Patterns of argument values by their paths; each has to match.
        uses: For how many calls; any number by default.
        limit: The largest amount of one call, in minor units, with its currency.
        currency: The currency of the limit.
        expires_in: How long it is good.

    Raises:
        ValueError: It grants nothing, or for no time, or a limit without a currency.
    """
    _refuse_nameless(by)
    if not actions or (uses is not None and uses < 1) or expires_in <= timedelta(0):
        raise ValueError("a grant is for some actions, at least one use and some time")
    if (limit is None) != (currency is None) or (limit is not None and not Decimal(limit).is_finite()):
        raise ValueError("a limit is an amount with its currency")
    made = Grant(
        os.urandom(8).hex(),
        actions,
        dict(args or {}),
        uses,
        None if limit is None else str(Decimal(limit)),
        currency,
        0,
        mask(codec.words(by)),
        mask(codec.words(reason)),
    )
    return _backend(store).permits.grant(made, nanoseconds(expires_in))


def grants(store: Store, /) -> Sequence[Grant]:
    """Return every grant with its uses, ended ones too, oldest first."""
    return _backend(store).permits.grants()


def revoke_grant(store: Store, grant_id: str, /, *, by: str) -> Grant:
    """Take a grant back; calls that used it before stand.

    Raises:
        NotFound: There is no such grant.
    """
    _refuse_nameless(by)
    found = _backend(store).permits.revoke_grant(grant_id, codec.words(by))
    return _none(grant_id) if found is None else found


def _decide(store: Store, approval_id: str, by: str, decision: Callable[[Approval, Asked], Decision]) -> Approval:
    _refuse_nameless(by)
    backend = _backend(store)
    approval = get(store, approval_id)
    asked = _asked_of(_view(backend, approval.saga_id), approval_id)
    if asked is None:
        _none(approval_id)
    made = decision(approval, asked)
    made = msgspec.structs.replace(made, by=mask(codec.words(by)), reason=mask(codec.words(made.reason)))

    def allowed(standing: Standing) -> None:
        _refuse_late(standing, made)

    decided = backend.permits.decide(approval_id, made, allowed)
    shown = None if decided is None else _shown(backend, decided)
    return _none(approval_id) if shown is None else shown


def _refuse_late(standing: Standing, made: Decision) -> None:
    """Refuse a decision that comes too late, or from somebody who may not make it."""
    request, state = standing.request, standing.state
    if made.verdict == "revoke":
        if state == "approved" or (state == "pending" and standing.decisions):
            return
        raise _conflict(request.id, f"it is {state}: there is no approval to take back", "nothing is left to do")
    if state != "pending":
        last = standing.decisions[-1] if standing.decisions else None
        who = "" if last is None else f", already decided by {last.by} ({last.reason or last.verdict})"
        raise _conflict(request.id, f"it is {state}{who}", "to take an approval back before its use: revoke")
    if made.verdict == "approve":
        if request.requester is not None and made.by == request.requester:
            raise _conflict(request.id, "its requester may not approve it", "another person has to")
        if any(one.by == made.by and one.digest == made.digest for one in standing.decisions):
            raise _conflict(request.id, f"{made.by} approved it already", "another person has to")


def _shown(backend: Backend, standing: Standing) -> Approval | None:
    """Return a request with what its saga's log says of it; None where the log is gone."""
    request = standing.request
    view = _view(backend, request.saga)
    asked = _asked_of(view, request.id)
    if view is None or asked is None:
        return None
    is_over = view.ended is not None or view.unwinding
    state: State = "withdrawn" if is_over and standing.state in {"pending", "approved"} else standing.state
    if state == "withdrawn" and standing.state == "pending":
        return None
    return Approval(
        request.id,
        asked.action,
        codec.thaw(asked.args),
        "; ".join(reason for _, _, reason in asked.reasons),
        request.saga,
        None if view.began is None else view.began.key,
        state,
        None if asked.amount is None else Decimal(asked.amount),
        asked.currency,
        request.requester,
        request.quorum,
        tuple(_told(decision) for decision in standing.decisions),
        tuple(f"{step.number}. {step.action}: {step.state.replace('_', ' ')}" for step in view.steps.values()),
        _time(request.asked_at),
        _time(request.expires_at),
    )


def _told(decision: Decision) -> Mapping[str, Any]:
    return {
        "by": decision.by,
        "verdict": decision.verdict,
        "reason": decision.reason,
        "edit": None if decision.edit is None else codec.thaw(decision.edit),
        "at": _time(decision.at),
    }


def _view(backend: Backend, saga: str) -> SagaView | None:
    reading = backend.read(saga)
    return None if reading is None or reading.damage else fold.fold(reading.records)


def _asked_of(view: SagaView | None, request: str) -> Asked | None:
    return None if view is None else view.questions.get(request)


def _time(nanoseconds_: int) -> datetime:
    return datetime.fromtimestamp(nanoseconds_ / 1e9, UTC)


def _backend(store: Store) -> Backend:
    if not isinstance(store, Backend):
        raise TypeError(f"a {type(store).__qualname__} is no store: pass what saga_core.open_store returns")
    return store


def _refuse_nameless(by: str) -> None:
    if not isinstance(by, str) or not by.strip():  # pyright: ignore[reportUnnecessaryIsInstance] -- it goes into the log
        raise ValueError("a decision needs the name of who makes it")


def _conflict(id_: str, why: str, then: str) -> ApprovalConflict:
    return ApprovalConflict(
        f"the request {id_} was not decided: {why}", world="nothing was decided and nothing was called", next=then
    )


def _none(id_: str) -> NoReturn:
    raise NotFound(f"there is no {id_} here", world="nothing was decided", next="see: saga approvals list")
