"""The vendors' world, and what it must hold after a run."""

import time
from datetime import timedelta

from saga_connectors.demo.vendors import Vendors
from saga_connectors.demo.world import LocalWorld
from saga_core.demo.acts import Holdings

AMOUNT = 42_000
_A_MINUTE = timedelta(minutes=1)
UNTOUCHED = Holdings(net=0, charges=0, refunds=0, lead="New", rows_restored=True, wires=0)
UNDONE = UNTOUCHED._replace(charges=1, refunds=1)
STANDING = Holdings(net=AMOUNT, charges=1, refunds=0, lead="Won", rows_restored=False, wires=0)


class World:
    """A Stripe account, a Salesforce org and a PostgreSQL database, as new."""

    def __init__(self, vendors: Vendors) -> None:
        self.vendors = vendors
        self._local = LocalWorld(vendors)
        self._local.prepare()

    def read_back(self) -> Holdings:
        """Ask each vendor what it holds."""
        return self._local.read_back()

    def has_charged(self) -> bool:
        """Wait until Stripe holds a charge; False if it does not within a minute."""
        return self._local.has_charged(_A_MINUTE)

    def is_confirming(self) -> bool:
        """Wait until a payment is about to be confirmed; False if none is within a minute."""
        until = time.monotonic() + _A_MINUTE.total_seconds()
        while not self.vendors.stripe.snapshot()["payment_intents"]:
            if time.monotonic() > until:
                return False
            time.sleep(0.02)
        return True
