"""What the agent calls, in which order, and on which objects of the world."""

import json
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from saga_connectors.demo import actions, client
from saga_core import Action
from saga_core.demo.acts import AMOUNT, Scripted

# References that nobody else uses: the store is left behind, and recovering it later must lead to no real account.
STRIPE, SALESFORCE, POSTGRES = "demo_stripe", "demo_sf", "demo_pg"
CUSTOMER, LEAD = "SAGA_DEMO_CUSTOMER", "SAGA_DEMO_LEAD"
"""Variables that hold the ids of the customer and of the Lead."""


def calls() -> Sequence[Scripted]:
    """Return the calls of the agent's run; after them it fails."""
    return (
        _scripted(
            client.patch_object,
            actions.patch_object,
            object_type="Lead",
            object_id=os.environ[LEAD],
            patch={"Status": "Won"},
            credential_ref=SALESFORCE,
        ),
        _scripted(
            client.update,
            actions.update,
            table="orders",
            set={"status": "paid", "note": "won"},
            where={"customer": "ada"},
            credential_ref=POSTGRES,
        ),
        _scripted(
            client.charge,
            actions.charge,
            customer_id=os.environ[CUSTOMER],
            amount=AMOUNT,
            credential_ref=STRIPE,
        ),
    )


def wire() -> Scripted:
    """Return the call that could not be undone."""
    return _scripted(
        client.send_wire, actions.send_wire, iban="DE02120300000000202051", amount=AMOUNT, credential_ref=POSTGRES
    )


def _scripted(directly: Callable[..., object], recorded: Action[..., Any], **arguments: object) -> Scripted:
    words = ", ".join(f"{name}={json.dumps(value)}" for name, value in arguments.items())
    return Scripted(f"{recorded.name}({words})", partial(directly, **arguments), partial(recorded, **arguments))
