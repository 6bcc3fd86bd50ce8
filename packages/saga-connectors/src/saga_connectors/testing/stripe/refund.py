"""Refunds: https://docs.stripe.com/api/refunds, and what becomes of them at the bank."""

from typing import Any

from saga_connectors.testing.stripe.customer import merge
from saga_connectors.testing.stripe.failure import Failure
from saga_connectors.testing.stripe.ledger import Ledger, Object
from saga_connectors.testing.stripe.shape import Values


def create(ledger: Ledger, _ref: str, given: Values) -> Object:
    """Give money back; without an amount, all that is left. More than was taken is never given back."""
    charge = _charge_of(ledger, given)
    left = charge["amount_captured"] - charge["amount_refunded"]
    if charge["disputed"]:
        raise Failure(
            f"Charge {charge['id']} has been charged back; cannot issue a refund.",
            code="charge_disputed",
        )
    if left <= 0:
        raise Failure(f"Charge {charge['id']} has already been refunded.", code="charge_already_refunded")
    amount = given.get("amount", left)
    if amount < 1:
        raise Failure("Invalid positive integer", code="parameter_invalid_integer", param="amount")
    if amount > left:
        raise Failure(
            f"Refund amount ({amount}) is greater than unrefunded amount on charge ({left})",
            param="amount",
        )
    if ledger.is_balance_empty:
        raise Failure("Insufficient funds in your Stripe balance to refund this amount.", code="balance_insufficient")
    refund = ledger.add(
        "refund",
        amount=amount,
        charge=charge["id"],
        currency=charge["currency"],
        customer=charge["customer"],
        payment_intent=charge["payment_intent"],
        reason=given.get("reason"),
        status=None,
    )
    merge(refund["metadata"], given.get("metadata", {}))
    charge["amount_refunded"] += amount
    charge["refunded"] = charge["amount_refunded"] == charge["amount"]
    card = ledger.cards.get(charge["payment_method"])
    status = ledger.refunds_become or (card.refund if card else "succeeded")
    if status == "failed":
        settle(ledger, refund, "failed")
    else:
        refund["status"] = status
    return refund


def cancel(ledger: Ledger, ref: str, _given: Values) -> Object:
    """Cancel a refund that waits for the customer; no other can be."""
    refund = ledger.find("refund", ref)
    if refund["status"] != "requires_action":
        raise Failure(
            f"Refund {ref} has a status of {refund['status']} and cannot be canceled.",
            code="status_transition_invalid",
        )
    return settle(ledger, refund, "canceled")


def settle(ledger: Ledger, refund: Object, status: str) -> Object:
    """Let a refund succeed, fail or be canceled at last. Failed and canceled ones are taken back from the charge."""
    if status not in ("pending", "requires_action", "succeeded", "failed", "canceled"):
        raise ValueError(f"a refund is never {status!r}")
    is_back = refund["status"] not in ("failed", "canceled")
    refund["status"] = status
    if status in ("failed", "canceled") and is_back:
        refund["failure_reason"] = "expired_or_canceled_card" if status == "failed" else None
        charge = ledger.objects["charge"][refund["charge"]]
        charge["amount_refunded"] -= refund["amount"]
        charge["refunded"] = False
    return refund


def _charge_of(ledger: Ledger, given: Values) -> dict[str, Any]:
    if "charge" in given:
        charge = ledger.find("charge", given["charge"], param="charge")
        if not charge["captured"]:
            raise Failure(f"Charge {charge['id']} is not refundable.", code="charge_not_refundable", param="charge")
        return charge
    if "payment_intent" not in given:
        raise Failure(
            "One of the following params should be provided for this request: payment_intent or charge.",
            code="parameter_missing",
            is_validation=True,
        )
    intent = ledger.find("payment_intent", given["payment_intent"], param="payment_intent")
    if intent["status"] != "succeeded":
        raise Failure(
            f"This PaymentIntent ({intent['id']}) does not have a successful charge to refund.",
            code="payment_intent_unexpected_state",
            param="payment_intent",
            payment_intent=dict(intent),
        )
    return ledger.objects["charge"][intent["latest_charge"]]
