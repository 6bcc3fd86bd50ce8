"""A user's tools: functions for a model, whose bodies call the connectors' actions on the world of the demo."""

import os
from collections.abc import Callable
from typing import Any

from saga_connectors import postgres, salesforce, stripe
from saga_connectors.demo import actions
from saga_connectors.demo.actions import send_wire
from saga_connectors.demo.script import CUSTOMER, LEAD, POSTGRES, SALESFORCE, STRIPE

WIRE = {"iban": "DE02120300000000202051", "amount": 5_000, "credential_ref": POSTGRES}

__all__ = ["WIRE", "asynchronous", "send_wire", "synchronous"]


def patch_lead(status: str) -> str:
    """Set the status of the Lead."""
    actions.patch_object(
        object_type="Lead", object_id=os.environ[LEAD], patch={"Status": status}, credential_ref=SALESFORCE
    )
    return f"the Lead is {status}"


def pay_orders(customer: str) -> str:
    """Mark a customer's orders as paid."""
    rows = actions.update(table="orders", set={"status": "paid"}, where={"customer": customer}, credential_ref=POSTGRES)
    return f"{len(rows)} orders paid"


def charge_customer(amount: int) -> str:
    """Charge the customer."""
    charged = actions.charge(customer_id=os.environ[CUSTOMER], amount=amount, credential_ref=STRIPE)
    return f"charged: {charged['payment_intent']}"


async def patch_lead_async(status: str) -> str:
    """Set the status of the Lead."""
    await salesforce.patch_object(
        object_type="Lead", object_id=os.environ[LEAD], patch={"Status": status}, credential_ref=SALESFORCE
    )
    return f"the Lead is {status}"


async def pay_orders_async(customer: str) -> str:
    """Mark a customer's orders as paid."""
    rows = await postgres.update(
        table="orders", set={"status": "paid"}, where={"customer": customer}, credential_ref=POSTGRES
    )
    return f"{len(rows)} orders paid"


async def charge_customer_async(amount: int) -> str:
    """Charge the customer."""
    charged = await stripe.charge(customer_id=os.environ[CUSTOMER], amount=amount, credential_ref=STRIPE)
    return f"charged: {charged['payment_intent']}"


synchronous: dict[str, Callable[..., Any]] = {
    "patch_lead": patch_lead,
    "pay_orders": pay_orders,
    "charge_customer": charge_customer,
}
asynchronous: dict[str, Callable[..., Any]] = {
    "patch_lead": patch_lead_async,
    "pay_orders": pay_orders_async,
    "charge_customer": charge_customer_async,
}
