"""Stripe's test cards: https://docs.stripe.com/testing, each with what it does there."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Card:
    """How a test card behaves when it is attached, charged and refunded."""

    number: str
    brand: str = "visa"
    code: str | None = None
    decline_code: str | None = None
    attaches: bool = True
    refund: Literal["succeeded", "pending"] = "succeeded"
    is_disputed: bool = False
    needs_authentication: bool = False

    @property
    def last4(self) -> str:
        """The last four digits."""
        return self.number[-4:]


def _declined(number: str, decline_code: str, code: str = "card_declined", *, attaches: bool = False) -> Card:
    return Card(number, code=code, decline_code=decline_code, attaches=attaches)


CARDS = {
    "pm_card_visa": Card("4242424242424242"),
    "pm_card_mastercard": Card("5555555555554444", brand="mastercard"),
    "pm_card_visa_chargeDeclined": _declined("4000000000000002", "generic_decline"),
    "pm_card_visa_chargeDeclinedInsufficientFunds": _declined("4000000000009995", "insufficient_funds"),
    "pm_card_visa_chargeDeclinedLostCard": _declined("4000000000009987", "lost_card"),
    "pm_card_chargeDeclinedExpiredCard": _declined("4000000000000069", "expired_card", "expired_card"),
    "pm_card_chargeDeclinedProcessingError": _declined("4000000000000119", "processing_error", "processing_error"),
    # Attaches to a customer, and is declined only when it is charged.
    "pm_card_chargeCustomerFail": _declined("4000000000000341", "generic_decline", attaches=True),
    "pm_card_authenticationRequired": Card("4000002760003184", needs_authentication=True),
    "pm_card_createDispute": Card("4000000000000259", is_disputed=True),
    "pm_card_pendingRefund": Card("4000000000007726", refund="pending"),
    # Its refunds succeed first and fail later: `act("settle_refund", refund=..., status="failed")`.
    "pm_card_refundFail": Card("4000000000005126"),
}
CARDS["pm_card_chargeDeclined"] = CARDS["pm_card_visa_chargeDeclined"]

BY_NUMBER = {card.number: name for name, card in CARDS.items() if name != "pm_card_chargeDeclined"}
