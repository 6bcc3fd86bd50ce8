"""Charges for synchronous callers: the declaration of `saga_connectors.stripe`, run on a private event loop."""

from saga_connectors import stripe
from saga_connectors.stripe import Charge

charge = stripe.charge.blocking()

__all__ = ["Charge", "charge"]
