"""The simulated world: vendors in a process of their own and a SQLite table, all really changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from saga_core.demo import actions, client, vendor
from saga_core.demo.acts import AMOUNT, Broken, Holdings, Scripted

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path

_ORDERS = {"A-17": "open", "A-18": "open", "A-19": "held"}


class SimulatedWorld:
    """A card processor, a CRM and a bank in one server process, and orders in a SQLite file."""

    title = "a card processor, a CRM and a bank in a process of their own, and orders in a SQLite file"
    imports = actions.__name__
    agent: Sequence[str] = (sys.executable, "-m", "saga_core.demo.agent")

    def __init__(self, directory: Path) -> None:
        self._orders = directory / "orders.db"
        self._vendor: subprocess.Popen[str] | None = None

    def prepare(self) -> None:
        """Start new vendors and write the orders anew."""
        self.close()
        command = [sys.executable, "-I", vendor.__file__]  # as a file: it starts faster without the package around it
        self._vendor = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._vendor.stdout is not None
        address = self._vendor.stdout.readline().strip()
        if not address:
            raise Broken("the vendors' process did not start")
        os.environ[client.VENDOR] = address
        os.environ[client.ORDERS] = str(self._orders)
        self._orders.unlink(missing_ok=True)
        with closing(client.orders()) as connection:
            connection.execute("create table orders (id text primary key, status text)")
            connection.executemany("insert into orders values (?, ?)", _ORDERS.items())

    def calls(self) -> Sequence[Scripted]:
        return script()

    def wire(self) -> Scripted:
        order = {"iban": "DE02120300000000202051", "amount": AMOUNT}
        return Scripted(
            f'demo.bank.send_wire(iban="{order["iban"]}", amount={AMOUNT})',
            lambda: client.ask("POST", "/wires", order),
            lambda: actions.send_wire(iban="DE02120300000000202051", amount=AMOUNT),
        )

    def withhold_answer(self) -> None:
        client.ask("POST", "/withhold", {})

    def has_charged(self, within: timedelta) -> bool:
        return client.ask("GET", f"/charged?within={within.total_seconds()}")["charged"]

    def read_back(self) -> Holdings:
        with closing(client.orders()) as connection:
            is_restored = client.read_orders(connection) == _ORDERS
        return Holdings(**client.ask("GET", "/ledger"), rows_restored=is_restored)

    def close(self) -> None:
        """End the vendors' process."""
        if self._vendor is not None:
            self._vendor.communicate()
            self._vendor = None


def script() -> Sequence[Scripted]:
    """Return what the agent calls."""
    won, ids = {"Status": "Won"}, list(_ORDERS)
    return (
        Scripted(
            'demo.crm.patch_lead(patch={"Status": "Won"})',
            lambda: client.patch_lead(won),
            lambda: actions.patch_lead(patch=won),
        ),
        Scripted(
            f'demo.orders.mark(ids={json.dumps(ids)}, status="paid")',
            lambda: client.mark_orders(ids, "paid"),
            lambda: actions.mark_orders(ids=ids, status="paid"),
        ),
        Scripted(
            f'demo.card.charge(customer="cus_ada", amount={AMOUNT}, currency="usd")',
            lambda: client.charge("cus_ada", AMOUNT, "usd", os.urandom(8).hex()),
            lambda: actions.charge(customer="cus_ada", amount=AMOUNT, currency="usd"),
        ),
    )


@contextmanager
def open_world(directory: Path) -> Generator[SimulatedWorld]:
    """Open the simulated world with its files in a directory."""
    world = SimulatedWorld(directory)
    try:
        yield world
    finally:
        world.close()
