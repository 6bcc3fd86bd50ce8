"""The simulated vendors' client and the table of orders, as an agent's tools would use them without a saga."""

from __future__ import annotations

import http.client
import json
import os
import sqlite3
from contextlib import closing
from typing import Any

VENDOR = "SAGA_DEMO_VENDOR"
ORDERS = "SAGA_DEMO_ORDERS"
TIMEOUT = 10.0
"""Seconds that the vendor may take to answer."""


class VendorError(Exception):
    """The vendor answered with an error: nothing changed there."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(status, reason)
        self.status = status


def ask(method: str, path: str, body: Any = None, **headers: str) -> Any:
    """Send a request and return the answer.

    Raises:
        VendorError: The vendor said no.
        OSError: No answer came; a change may have landed.
    """
    connection = http.client.HTTPConnection(os.environ[VENDOR], timeout=TIMEOUT)
    with closing(connection):
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
    if response.status >= http.client.BAD_REQUEST:
        raise VendorError(response.status, answer["error"])
    return answer


def charge(customer: str, amount: int, currency: str, key: str) -> dict[str, Any]:
    """Charge a card, once per key."""
    return ask(
        "POST",
        "/charges",
        {"customer": customer, "amount": amount, "currency": currency},
        **{"Idempotency-Key": key},
    )


def patch_lead(patch: dict[str, str], guard: str | None = None) -> dict[str, Any]:
    """Change fields of the Lead; with a guard only if nobody changed it since."""
    return ask("POST", "/lead", patch, **({} if guard is None else {"If-Match": guard}))


def orders() -> sqlite3.Connection:
    """Return a connection to the table of orders."""
    return sqlite3.connect(os.environ[ORDERS], isolation_level=None, timeout=TIMEOUT)


def read_orders(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the status of each order."""
    return dict(connection.execute("select id, status from orders order by id").fetchall())


def mark_orders(ids: list[str], status: str) -> None:
    """Give orders a status."""
    with closing(orders()) as connection, connection:
        connection.execute("begin immediate")
        connection.executemany("update orders set status = ? where id = ?", [(status, order) for order in ids])
