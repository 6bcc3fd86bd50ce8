"""The vendors' own clients, called plainly: by tools that know no saga, and to ask the vendors what they hold."""

import asyncio
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import requests
import stripe
from simple_salesforce.api import Salesforce, SFType

from saga_connectors.credentials import resolve

CURRENCY = "usd"
_ANSWER_SECONDS = 10


@contextmanager
def payments(credential_ref: str) -> Generator[stripe.StripeClient]:
    """Open Stripe's client."""
    credential = resolve(credential_ref)
    http = stripe.RequestsClient(timeout=_ANSWER_SECONDS)
    try:
        yield stripe.StripeClient(
            credential["api_key"], base_addresses={"api": credential["base_url"]}, http_client=http
        )
    finally:
        http.close()


def charge(*, customer_id: str, amount: int, credential_ref: str) -> None:
    """Charge a customer's default payment method."""
    with payments(credential_ref) as client:
        settings = client.v1.customers.retrieve(customer_id).invoice_settings
        assert settings is not None
        client.v1.payment_intents.create(
            {
                "amount": amount,
                "currency": CURRENCY,
                "customer": customer_id,
                "payment_method": cast("str", settings.default_payment_method),
                "confirm": True,
                "off_session": True,
                "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
            }
        )


@contextmanager
def records(object_type: str, credential_ref: str) -> Generator[SFType]:
    """Open Salesforce's client for one kind of record."""
    credential = resolve(credential_ref)
    with requests.Session() as http:
        org = Salesforce(instance_url=credential["instance_url"], session_id=credential["access_token"], session=http)
        found: SFType = getattr(org, object_type)
        found.base_url = found.base_url.replace("https:", "http:", 1)  # the package knows no other
        yield found


def patch_object(*, object_type: str, object_id: str, patch: Mapping[str, Any], credential_ref: str) -> None:
    """Write fields of a record."""
    with records(object_type, credential_ref) as found:
        found.update(object_id, dict(patch))


def update(*, table: str, set: Mapping[str, Any], where: Mapping[str, Any], credential_ref: str) -> None:  # noqa: A002
    """Write columns of the rows that have certain values."""
    written = ", ".join(f"{column} = ${number}" for number, column in enumerate(set, 1))
    asked = " AND ".join(f"{column} = ${number}" for number, column in enumerate(where, len(set) + 1))
    statement = f"UPDATE {table} SET {written} WHERE {asked}"  # noqa: S608 - every name in it stands in the script
    query(statement, *set.values(), *where.values(), credential_ref=credential_ref)


def send_wire(*, iban: str, amount: int, credential_ref: str) -> None:
    """Send a wire: the bank keeps its books in a table."""
    query("INSERT INTO wires (iban, amount) VALUES ($1, $2)", iban, amount, credential_ref=credential_ref)


def query(statement: str, *values: object, credential_ref: str) -> Sequence[Sequence[Any]]:
    """Run one statement and return its rows."""
    return asyncio.run(_query(resolve(credential_ref)["dsn"], statement, values))


def run_script(statements: str, *, credential_ref: str) -> None:
    """Run statements without values."""
    asyncio.run(_query(resolve(credential_ref)["dsn"], statements, None))


async def _query(dsn: str, statement: str, values: Sequence[object] | None) -> Sequence[Sequence[Any]]:
    connection = cast("Any", await asyncpg.connect(dsn))  # pyright: ignore[reportUnknownMemberType]
    try:
        if values is None:
            await connection.execute(statement)
            return ()
        return await connection.fetch(statement, *values)
    finally:
        await connection.close()
