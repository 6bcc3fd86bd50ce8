"""The vendors of the demo, each a process of its own on a TCP port of this machine, started together."""

import signal
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from saga_connectors.testing import LocalServer
from saga_connectors.testing.postgres import LocalPostgres


class Vendors(NamedTuple):
    """What runs."""

    stripe: LocalServer
    salesforce: LocalServer
    postgres: LocalPostgres


@contextmanager
def running() -> Generator[Vendors]:
    """Start the vendors and end them; they end as well when this process dies.

    Raises:
        OSError: One did not start.
    """
    with ExitStack() as ends:
        # An interrupt waits for those that are still starting: only what has started can be ended.
        with ThreadPoolExecutor() as pool:
            stripe = pool.submit(lambda: ends.enter_context(_shielded("stripe")))
            salesforce = pool.submit(lambda: ends.enter_context(_shielded("salesforce")))
            postgres = pool.submit(lambda: ends.enter_context(LocalPostgres()))
            vendors = Vendors(stripe.result(), salesforce.result(), postgres.result())
        yield vendors


def _shielded(name: str) -> LocalServer:
    """Start a local vendor that Ctrl-C in the terminal does not reach: what it interrupts is undone at the vendor."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return LocalServer.in_process(name)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
