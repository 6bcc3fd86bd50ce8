"""Putting a call before the gate, and logging a refusal."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from saga_core import codec
from saga_core.engine.session import log
from saga_core.errors import GateRefused
from saga_core.gate import Proposal, Verdict
from saga_core.records import Refused

if TYPE_CHECKING:
    from msgspec import Raw

    from saga_core.engine.invocation import Invocation


class Money(NamedTuple):
    """The declared amount of a call, in minor units, and its currency."""

    amount: Decimal | None
    currency: str | None


_NO_MONEY = Money(None, None)


def judge(call: Invocation, position: str, frozen: Raw) -> Money:
    """Return the call's money if the gate lets it through.

    Raises:
        GateRefused: It does not; the refusal is logged, nothing was called.
    """
    declared = call.declared
    money, problem = _NO_MONEY, None
    if declared.money is not None:
        amount, currency = declared.money_of(codec.thaw(frozen))
        problem = _problem(amount, currency)
        money = Money(None if problem else Decimal(amount), currency)
    proposal = Proposal(
        declared.name,
        lambda: codec.thaw(frozen),
        declared.reversibility,
        amount=money.amount,
        currency=money.currency,
        undo_until=None,
        recoverable=declared.undo is not None or declared.keyed_undo is not None,
    )
    verdict = call.session.gate.judge(proposal) if problem is None else Verdict("money", "built in", problem)
    if verdict is None:
        return money
    raise _refused(call, position, Verdict(*map(codec.words, verdict)))


def _problem(amount: Any, currency: str | None) -> str | None:
    if isinstance(amount, bool) or not isinstance(amount, (int, str)):
        return "its amount is missing or no exact number"
    try:
        exact = Decimal(amount)
    except ArithmeticError:
        return "its amount is no number"
    if not exact.is_finite() or exact < 0:
        return "its amount is negative or not finite"
    return "its currency is missing" if currency is None else None


def _refused(call: Invocation, position: str, verdict: Verdict) -> GateRefused:
    session, declared = call.session, call.declared
    step = session.next_step()
    session.append(
        Refused(
            step,
            session.clock.wall(),
            declared.name,
            declared.version,
            declared.reversibility,
            call.node.path,
            position,
            verdict.rule,
            verdict.reason,
        )
    )
    log.info("saga %s step %d %s refused by %s (%s)", session.saga_id, step, declared.name, verdict.rule, verdict.place)
    earlier = sum(known.state == "applied" for known in session.view.steps.values())
    refusal = GateRefused(
        f"{declared.name!r} was refused before it ran: {verdict.reason}",
        saga_id=session.saga_id,
        world=f"nothing was sent; {earlier} earlier steps will be undone if this error leaves the scope",
        next=f"rule {verdict.rule} ({verdict.place}): use a call that can be undone, or change what it objects to",
    )
    refusal.rule, refusal.place = verdict.rule, verdict.place
    return refusal
