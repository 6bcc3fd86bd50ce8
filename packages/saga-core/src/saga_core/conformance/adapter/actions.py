"""The tools of the scenarios: actions over the ledger."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, TypedDict

from saga_core import compensable, current_step, inverse, irreversible
from saga_core.answers import Landed, NotLanded
from saga_core.conformance.adapter.ledger import Declined, Ledger

if TYPE_CHECKING:
    from saga_core import Attempt, Call, Compensation

_AT_ONCE = timedelta(0)
"""An effect here dies with its process: it lands at once or never."""


class Done(TypedDict):
    """What a tool tells the model: the effect's id, and for what it was."""

    effect: str
    item: str


@inverse("conformance.refund")
async def refund(effect: str) -> None:
    """Give a charge back."""
    Ledger.here().take_back(effect, current_step().key)


@inverse("conformance.free")
def free(effect: str) -> None:
    """Give up what was reserved."""
    Ledger.here().take_back(effect, current_step().key)


def _probe(attempt: Attempt) -> Landed[Done] | NotLanded:
    effect = Ledger.here().find(attempt.key)
    return NotLanded() if effect is None else Landed(Done(effect=effect, item=attempt.args["item"]))


def _refund(call: Call[Done]) -> Compensation:
    return refund.bind(call.result["effect"])


def _free(call: Call[Done]) -> Compensation:
    return free.bind(call.result["effect"])


@compensable("conformance.charge", undo=_refund, lands_within=_AT_ONCE)
async def charge(item: str, amount: int) -> Done:
    """Charge the customer for an item.

    Args:
        item: What is bought.
        amount: The price in minor units.
    """
    return Done(effect=Ledger.here().land(item, current_step().key, amount), item=item)


@compensable("conformance.reserve", undo=_free, lands_within=_AT_ONCE)
def reserve(item: str) -> Done:
    """Reserve an item in the stock.

    Args:
        item: What is reserved.
    """
    return Done(effect=Ledger.here().land(item, current_step().key), item=item)


@compensable("conformance.slow", undo=_free, lands_within=_AT_ONCE)
def slow(item: str) -> Done:
    """Order an item from a supplier who takes long; nothing can interrupt it.

    Args:
        item: What is ordered.
    """
    ledger = Ledger.here()
    ledger.begin(item)
    ledger.wait_until(lambda: ledger.is_released)
    return Done(effect=ledger.land(item, current_step().key), item=item)


@compensable("conformance.linger", undo=_refund, lands_within=_AT_ONCE)
async def linger(item: str) -> Done:
    """Rent an item; the answer comes long after the effect.

    Args:
        item: What is rented.
    """
    ledger = Ledger.here()
    effect = ledger.land(item, current_step().key)
    ledger.begin(item)
    await ledger.until(lambda: ledger.is_released)
    return Done(effect=effect, item=item)


@compensable("conformance.flaky", undo=_free, lands_within=_AT_ONCE, not_landed=Declined)
def flaky(item: str) -> Done:
    """Take an item from the stock; the first try for each is declined.

    Args:
        item: What is taken.
    """
    ledger = Ledger.here()
    ledger.decline_once(item)
    return Done(effect=ledger.land(item, current_step().key), item=item)


@irreversible("conformance.wire")
def wire(item: str) -> Done:
    """Wire the money for an item.

    Args:
        item: What is paid for.
    """
    return Done(effect=Ledger.here().land(item, current_step().key), item=item)


for _action in (charge, reserve, slow, linger, flaky):
    _action.probe(_probe)
