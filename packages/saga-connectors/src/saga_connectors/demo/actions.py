"""The demo's actions: those of the connectors, and a wire; `saga recover --import` takes this module."""

import stripe

from saga_connectors.demo import client
from saga_connectors.sync.postgres import update
from saga_connectors.sync.salesforce import patch_object
from saga_connectors.sync.stripe import charge
from saga_core import irreversible

__all__ = ["charge", "patch_object", "send_wire", "update"]

# It would write an identifier into the home directory of whoever looks at the demo.
stripe.enable_telemetry = False


@irreversible("bank.send_wire")
def send_wire(*, iban: str, amount: int, credential_ref: str) -> None:
    """Send a wire; nothing brings it back."""
    client.send_wire(iban=iban, amount=amount, credential_ref=credential_ref)
