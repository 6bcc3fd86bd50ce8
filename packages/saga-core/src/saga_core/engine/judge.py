"""Putting a call before the gate, and logging a refusal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from saga_core import codec
from saga_core.engine.session import log
from saga_core.errors import GateRefused
from saga_core.gate import Judgement, Proposal, Verdict
from saga_core.records import Refused
from saga_core.secrets import mask

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from msgspec import Raw

    from saga_core.engine.invocation import Invocation


class Money(NamedTuple):
    """The declared amount of a call, in minor units, and its currency."""

    amount: Decimal | None
    currency: str | None

    @property
    def text(self) -> str | None:
        """The amount as records hold it."""
        return None if self.amount is None else str(self.amount)


_NO_MONEY = Money(None, None)
_MOST = 10**18


def judge(call: Invocation, position: str, given: Mapping[str, Any], frozen: Raw) -> tuple[Money, Judgement]:
    """Return the call's money and what the gate asks for, if it does not say no.

    Raises:
        GateRefused: It does; the refusal is logged, nothing was called.
    """
    declared = call.declared
    money = _NO_MONEY
    if declared.money is not None:
        amount, currency = declared.money_of(given)
        problem = _problem(amount, currency)
        if problem is not None:
            raise refused(call, position, Verdict("money", "built in", problem))
        money = Money(Decimal(amount), currency)
    proposal = Proposal(
        declared.name,
        frozen,
        declared.reversibility,
        money.amount,
        money.currency,
        None if declared.undo_within is None else _undo_until(declared.undo_within),
        declared.hold
        or (
            declared.reversibility != "irreversible" and (declared.undo is not None or declared.keyed_undo is not None)
        ),
        declared.probe is not None,
    )
    judgement = call.session.gate.judge(proposal)
    if judgement.refusal is not None:
        raise refused(call, position, judgement.refusal)
    return money, judgement


def _undo_until(window: timedelta | Callable[..., object]) -> datetime:
    """Return until when the undo is possible; where only the result will tell, that is not known to be any time."""
    now = datetime.now(UTC)
    return now + window if isinstance(window, timedelta) else now


def _problem(amount: Any, currency: str | None) -> str | None:
    if isinstance(amount, bool) or not isinstance(amount, (int, Decimal)):
        return "its amount is missing or no exact number"
    if isinstance(amount, Decimal) and not amount.is_finite():
        return "its amount is not finite"
    if amount < 0:
        return "its amount is negative"
    if amount > _MOST:
        return "its amount is larger than any that can be meant"
    return "its currency is missing" if currency is None else None


def refused(call: Invocation, position: str, verdict: Verdict) -> GateRefused:
    """Log that a call is refused and return the error that says so."""
    session, declared = call.session, call.declared
    verdict = Verdict(*(mask(codec.words(word)) for word in verdict))
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
            verdict.place,
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
