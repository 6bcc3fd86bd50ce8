"""The world of the full demo: what the acts change at the vendors, and what is read back from them."""

import json
import os
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

from saga_connectors import postgres
from saga_connectors.credentials import variable
from saga_connectors.demo import actions, client, script
from saga_connectors.demo.script import CUSTOMER, LEAD, POSTGRES, SALESFORCE, STRIPE
from saga_connectors.demo.vendors import Vendors, running
from saga_core.demo.acts import Broken, Holdings, Scripted

_LOOK_SECONDS = 0.02
_EVERYTHING = 100
_ADDRESS = "127.0.0.1"
_CARD = "pm_card_visa"
_DROP = "DROP TABLE IF EXISTS orders, wires; DROP SCHEMA IF EXISTS saga CASCADE;"
_CREATE = """
CREATE TABLE orders (id int PRIMARY KEY, customer text, status text, total numeric(10, 2), note text);
INSERT INTO orders VALUES
    (17, 'ada', 'open', 180.00, NULL), (18, 'ada', 'held', 215.50, 'call first'), (19, 'ada', 'open', 24.50, ''),
    (20, 'bob', 'open', 99.00, NULL);
CREATE TABLE wires (iban text, amount bigint);
"""


class LocalWorld:
    """A Stripe account, a Salesforce org and a PostgreSQL database, each asked through its own client."""

    imports = actions.__name__
    agent: Sequence[str] = (sys.executable, "-m", "saga_connectors.demo.agent")

    def __init__(self, vendors: Vendors) -> None:
        stripe, salesforce, asyncpg = (f"{name} {version(name)}" for name in ("stripe", "simple-salesforce", "asyncpg"))
        self.title = (
            f"a local Stripe, a local Salesforce and PostgreSQL {vendors.postgres.binaries.version}, "
            f"called over TCP through {stripe}, {salesforce} and {asyncpg}"
        )
        self._vendors = vendors
        self._orders: Sequence[str] = ()

    def prepare(self) -> None:
        """Empty the account and the org and write the tables anew."""
        vendors = self._vendors
        vendors.stripe.reset()
        vendors.salesforce.reset()
        token = vendors.salesforce.act("log_in")["access_token"]
        _give(STRIPE, api_key="sk_test_demo", base_url=vendors.stripe.url)
        _give(SALESFORCE, instance_url=vendors.salesforce.url, access_token=token)
        _give(POSTGRES, dsn=f"{vendors.postgres.dsn}?sslmode=disable")
        lead = {"LastName": "Lovelace", "Company": "Analytical Engines", "Status": "New"}
        os.environ[LEAD] = vendors.salesforce.act("create", object_type="Lead", fields=lead)["id"]
        with client.payments(STRIPE) as payments:
            customer = payments.v1.customers.create(
                {"payment_method": _CARD, "invoice_settings": {"default_payment_method": _CARD}}
            )
        os.environ[CUSTOMER] = customer.id
        for statements in (_DROP, _CREATE, postgres.install_sql()):
            client.run_script(statements, credential_ref=POSTGRES)
        self._orders = _orders()

    def calls(self) -> Sequence[Scripted]:
        return script.calls()

    def wire(self) -> Scripted:
        return script.wire()

    def withhold_answer(self) -> None:
        self._vendors.stripe.arm("hang", on="POST /v1/payment_intents/*/confirm", when="after")

    def has_charged(self, within: timedelta) -> bool:
        until = time.monotonic() + within.total_seconds()
        while not self._vendors.stripe.snapshot()["charges"]:
            if time.monotonic() > until:
                return False
            time.sleep(_LOOK_SECONDS)
        return True

    def read_back(self) -> Holdings:
        with client.payments(STRIPE) as payments:
            charges = payments.v1.charges.list({"limit": _EVERYTHING}).data
            refunds = payments.v1.refunds.list({"limit": _EVERYTHING}).data
        with client.records("Lead", SALESFORCE) as leads:
            lead = leads.get(os.environ[LEAD])
        ((wires,),) = client.query("SELECT count(*) FROM wires", credential_ref=POSTGRES)
        taken = sum(charge.amount_captured for charge in charges if charge.status == "succeeded")
        back = sum(refund.amount for refund in refunds if refund.status == "succeeded")
        return Holdings(
            net=taken - back,
            charges=len(charges),
            refunds=len(refunds),
            lead=lead["Status"],
            rows_restored=_orders() == self._orders,
            wires=wires,
        )


@contextmanager
def open_world(directory: Path) -> Generator[LocalWorld]:  # noqa: ARG001 - the vendors keep their files apart
    """Start the vendors, tell so on standard error, and end them when the acts are over.

    Raises:
        Broken: A vendor did not start.
    """
    begun = time.monotonic()
    _tell("starting a local Stripe, a local Salesforce and PostgreSQL, each in a process of its own ...")
    with _environment(), ExitStack() as stack:
        try:
            vendors = stack.enter_context(running())
        except OSError as error:
            raise Broken(f"a vendor did not start: {error}") from error
        _tell(f"ready after {time.monotonic() - begun:.1f} s")
        yield LocalWorld(vendors)


@contextmanager
def _environment() -> Generator[None]:
    """Let nothing that is set here lead through a proxy, and put the environment back as it was."""
    before = dict(os.environ)
    os.environ.update(NO_PROXY=_ADDRESS, no_proxy=_ADDRESS)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _give(credential_ref: str, **fields: str) -> None:
    os.environ[variable(credential_ref)] = json.dumps(fields)


def _orders() -> Sequence[str]:
    rows = client.query("SELECT o::text FROM orders AS o ORDER BY id", credential_ref=POSTGRES)
    return [row for (row,) in rows]


def _tell(words: str) -> None:
    sys.stderr.write(f"saga demo: {words}\n")
    sys.stderr.flush()
