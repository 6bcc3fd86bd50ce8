"""Recorded, undoable charges with Stripe.

A credential reference stands for a secret or restricted key, or for a JSON object with `api_key` and, to reach another
server than Stripe's, `base_url`. The key needs to read and write payments and refunds, and to read customers; to read
the account too, where neither the call nor the customer names a currency.
"""

from saga_connectors.errors import MissingExtra

try:
    from saga_connectors.stripe.errors import (
        AnswerLost,
        ChargeCanceled,
        ChargeDeclined,
        NotChargeable,
        NothingCharged,
        RequestRefused,
        StripeUnavailable,
    )
    from saga_connectors.stripe.payment import Charge, charge
    from saga_connectors.stripe.refund import undo_charge
except ModuleNotFoundError as missing:
    if missing.name not in {"stripe", "httpx"}:
        raise
    raise MissingExtra("saga_connectors.stripe", "stripe", library=missing.name) from missing

__all__ = [
    "AnswerLost",
    "Charge",
    "ChargeCanceled",
    "ChargeDeclined",
    "NotChargeable",
    "NothingCharged",
    "RequestRefused",
    "StripeUnavailable",
    "charge",
    "undo_charge",
]
