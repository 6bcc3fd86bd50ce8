"""PaymentIntents and the charges they make: https://docs.stripe.com/payments/paymentintents/lifecycle."""

import secrets
import time
from typing import Any

from saga_connectors.testing.stripe.card import Card
from saga_connectors.testing.stripe.customer import alive, declined, merge, method_of
from saga_connectors.testing.stripe.failure import Failure
from saga_connectors.testing.stripe.ledger import Ledger, Object
from saga_connectors.testing.stripe.shape import Values

UNCONFIRMED = ("requires_payment_method", "requires_confirmation", "requires_action")
_LEAST = {"usd": 50, "eur": 50, "gbp": 30, "jpy": 50}
_MOST = 99_999_999


def create(ledger: Ledger, _ref: str, given: Values) -> Object:
    """Make a PaymentIntent, and confirm it in the same breath if asked to."""
    currency = given["currency"].lower()
    if len(currency) != 3 or not currency.isalpha():  # noqa: PLR2004 - ISO 4217
        raise Failure(f"Invalid currency: {currency}", param="currency")
    amount = given["amount"]
    if amount < _LEAST.get(currency, 1):
        raise Failure("Amount is too small for this currency.", code="amount_too_small", param="amount")
    if amount > _MOST:
        raise Failure("Amount must be no more than 999,999.99.", code="amount_too_large", param="amount")
    if "customer" in given:
        alive(ledger, given["customer"], param="customer")
    method = _usable(ledger, given["payment_method"], given.get("customer")) if "payment_method" in given else None
    # The default since the API of 2023-08-16.
    automatic = given.get("automatic_payment_methods", {"enabled": True})
    intent = ledger.add(
        "payment_intent",
        amount=amount,
        amount_capturable=0,
        amount_received=0,
        automatic_payment_methods={"allow_redirects": "always", **automatic},
        capture_method=given.get("capture_method", "automatic_async"),
        confirmation_method=given.get("confirmation_method", "automatic"),
        currency=currency,
        customer=given.get("customer"),
        payment_method=method,
        payment_method_types=["card"],
        status="requires_confirmation" if method else "requires_payment_method",
        description=given.get("description"),
    )
    intent["client_secret"] = f"{intent['id']}_secret_{secrets.token_hex(8)}"
    merge(intent["metadata"], given.get("metadata", {}))
    if given.get("confirm"):
        confirm(ledger, intent["id"], {name: given[name] for name in ("off_session", "return_url") if name in given})
    return intent


def confirm(ledger: Ledger, ref: str, given: Values) -> Object:
    """Try to take the money. A decline leaves a failed charge and an intent that can be confirmed again."""
    intent = ledger.find("payment_intent", ref)
    if intent["status"] not in UNCONFIRMED:
        raise _unexpected(
            intent, f"You cannot confirm this PaymentIntent because it has a status of {intent['status']}."
        )
    if intent["automatic_payment_methods"]["allow_redirects"] == "always" and "return_url" not in given:
        raise Failure(
            "This PaymentIntent is configured to accept payment methods enabled in your Dashboard. Because some of "
            "these payment methods might redirect your customer off of your page, you must provide a `return_url`.",
            param="return_url",
        )
    method = intent["payment_method"]
    if "payment_method" in given:
        method = _usable(ledger, given["payment_method"], intent["customer"])
    if method is None:
        raise _unexpected(intent, "You cannot confirm this PaymentIntent because it's missing a payment method.")
    intent["payment_method"] = method
    card = ledger.cards[method]
    if card.needs_authentication and not (given.get("off_session") or given.get("error_on_requires_action")):
        intent["status"] = "requires_action"
        intent["next_action"] = {"type": "use_stripe_sdk", "use_stripe_sdk": {}}
        return intent
    if card.needs_authentication:
        raise _failed(ledger, intent, card, "authentication_required")
    if card.code is not None:
        raise _failed(ledger, intent, card, card.code)
    return _authorised(ledger, intent, card)


def capture(ledger: Ledger, ref: str, given: Values) -> Object:
    """Take what was authorised, or part of it; the rest is released."""
    intent = ledger.find("payment_intent", ref)
    if intent["status"] != "requires_capture":
        raise _unexpected(
            intent, f"This PaymentIntent could not be captured because it has a status of {intent['status']}."
        )
    amount = given.get("amount_to_capture", intent["amount_capturable"])
    if amount > intent["amount_capturable"]:
        raise Failure(
            "The amount to capture is more than is capturable.", code="amount_too_large", param="amount_to_capture"
        )
    charge = ledger.objects["charge"][intent["latest_charge"]]
    charge.update(captured=True, amount_captured=amount)
    intent.update(status="succeeded", amount_capturable=0, amount_received=amount)
    merge(intent["metadata"], given.get("metadata", {}))
    return intent


def cancel(ledger: Ledger, ref: str, given: Values) -> Object:
    """Cancel an intent that has taken no money; an authorisation is released."""
    intent = ledger.find("payment_intent", ref)
    if intent["status"] not in (*UNCONFIRMED, "requires_capture"):
        raise _unexpected(
            intent, f"You cannot cancel this PaymentIntent because it has a status of {intent['status']}."
        )
    if intent["status"] == "requires_capture":
        charge = ledger.objects["charge"][intent["latest_charge"]]
        charge.update(amount_refunded=charge["amount"], refunded=True)
    intent.update(
        status="canceled",
        amount_capturable=0,
        canceled_at=int(time.time()),
        cancellation_reason=given.get("cancellation_reason"),
        next_action=None,
    )
    return intent


def _usable(ledger: Ledger, ref: str, customer: str | None) -> str:
    method = method_of(ledger, ref, param="payment_method")
    if method["customer"] is not None and method["customer"] != customer:
        raise Failure(
            f"The PaymentMethod {ref} belongs to another customer. Please include the Customer in the "
            "`customer` parameter on the PaymentIntent.",
            param="payment_method",
        )
    return method["id"]


def _authorised(ledger: Ledger, intent: Object, card: Card) -> Object:
    is_manual = intent["capture_method"] == "manual"
    amount = intent["amount"]
    charge = _charge(ledger, intent, status="succeeded", paid=True, disputed=card.is_disputed)
    charge.update(captured=not is_manual, amount_captured=0 if is_manual else amount)
    if card.is_disputed:
        dispute(ledger, charge)
    intent.update(
        status="requires_capture" if is_manual else "succeeded",
        amount_capturable=amount if is_manual else 0,
        amount_received=0 if is_manual else amount,
        latest_charge=charge["id"],
        last_payment_error=None,
        next_action=None,
    )
    return intent


def dispute(ledger: Ledger, charge: Object) -> Object:
    """Let the customer's bank take the money back."""
    charge["disputed"] = True
    return ledger.add(
        "dispute",
        amount=charge["amount_captured"],
        charge=charge["id"],
        currency=charge["currency"],
        payment_intent=charge["payment_intent"],
        reason="fraudulent",
        status="needs_response",
    )


def _failed(ledger: Ledger, intent: Object, card: Card, code: str) -> Failure:
    charge = _charge(ledger, intent, status="failed", paid=False, failure_code=code, captured=False)
    method = ledger.objects["payment_method"][intent["payment_method"]]
    failure = declined(code, card.decline_code or code, charge=charge["id"], payment_method=method)
    intent.update(
        status="requires_payment_method",
        latest_charge=charge["id"],
        last_payment_error=dict(failure.body["error"]),
        payment_method=None,
    )
    return declined(
        code, card.decline_code or code, charge=charge["id"], payment_method=method, payment_intent=ledger.shown(intent)
    )


def _charge(ledger: Ledger, intent: Object, **fields: Any) -> Object:
    return ledger.add(
        "charge",
        **{
            "amount": intent["amount"],
            "amount_captured": 0,
            "amount_refunded": 0,
            "currency": intent["currency"],
            "customer": intent["customer"],
            "disputed": False,
            "metadata": dict(intent["metadata"]),
            "payment_intent": intent["id"],
            "payment_method": intent["payment_method"],
            "refunded": False,
            **fields,
        },
    )


def _unexpected(intent: Object, message: str) -> Failure:
    return Failure(message, code="payment_intent_unexpected_state", payment_intent=dict(intent))
