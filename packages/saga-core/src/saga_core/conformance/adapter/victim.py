"""The process that is killed: it makes itself the harness of another one, and plays."""

from __future__ import annotations

import asyncio
import pickle
import sys
from typing import TYPE_CHECKING, NamedTuple

from saga_core.conformance.adapter.actions import charge, reserve

if TYPE_CHECKING:
    from saga_core.conformance.adapter.script import Form, Harness, Script
    from saga_core.conformance.twin import Twin


class Orders(NamedTuple):
    """What the process is told on its standard input.

    Attributes:
        twin: The harness that it makes itself.
        form: How to play.
        store: The URL of the store.
        script: What to play.
    """

    twin: Twin
    form: Form
    store: str
    script: Script


def main() -> None:
    """Play what the orders say."""
    orders: Orders = pickle.load(sys.stdin.buffer)  # noqa: S301 -- written by the process that started this one
    harness: Harness = orders.twin.harness()
    if orders.form == "sync":
        harness.play(orders.script, (charge, reserve), orders.store, None)
    else:
        asyncio.run(harness.play_async(orders.script, (charge, reserve), orders.store, None))
