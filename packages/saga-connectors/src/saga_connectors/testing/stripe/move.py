"""What happens at Stripe without an API call: banks, card networks, other programs, time."""

from collections.abc import Callable, Mapping
from typing import Any

from saga_connectors.testing.stripe import payment, refund
from saga_connectors.testing.stripe.idempotency import Keys
from saga_connectors.testing.stripe.ledger import Ledger, Object


def dispute(ledger: Ledger, _keys: Keys, *, charge: str) -> Object:
    """The cardholder's bank takes a charge back."""
    return payment.dispute(ledger, ledger.objects["charge"][charge])


def settle_refund(ledger: Ledger, _keys: Keys, *, refund_id: str, status: str) -> Object:
    """A refund gets another status, at last or for now."""
    return refund.settle(ledger, ledger.objects["refund"][refund_id], status)


def refunds_become(ledger: Ledger, _keys: Keys, *, status: str | None) -> Object:
    """From now on every new refund has this status; None leaves it to the card again."""
    ledger.refunds_become = status
    return {}


def balance(ledger: Ledger, _keys: Keys, *, is_empty: bool) -> Object:
    """The account has nothing left to refund from, or has again."""
    ledger.is_balance_empty = is_empty
    return {}


def bill(ledger: Ledger, _keys: Keys, *, customer: str, currency: str) -> Object:
    """An invoice fixes the customer's currency."""
    found = ledger.objects["customer"][customer]
    found["currency"] = currency
    return found


def settle_account(ledger: Ledger, _keys: Keys, *, default_currency: str) -> Object:
    """The account's owner changes its default currency."""
    ledger.account["default_currency"] = default_currency
    return ledger.account


def prune_keys(_ledger: Ledger, keys: Keys) -> Object:
    """A day has passed: idempotency keys are forgotten."""
    keys.prune()
    return {}


def set_status(ledger: Ledger, _keys: Keys, *, intent: str, status: str) -> Object:
    """A payment is in a state that no card here leads to, for instance `processing`."""
    found = ledger.objects["payment_intent"][intent]
    found["status"] = status
    return found


Move = Callable[..., Mapping[str, Any]]

MOVES: Mapping[str, Move] = {
    "dispute": dispute,
    "settle_refund": settle_refund,
    "refunds_become": refunds_become,
    "balance": balance,
    "bill": bill,
    "settle_account": settle_account,
    "prune_keys": prune_keys,
    "set_status": set_status,
}
