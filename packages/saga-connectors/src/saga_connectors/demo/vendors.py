"""The vendors of the demo, each a process of its own on a TCP port of this machine, started together."""

import signal
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import NamedTuple, TypeVar

from saga_connectors.testing import LocalServer
from saga_connectors.testing.postgres import LocalPostgres

V = TypeVar("V")


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
    with ThreadPoolExecutor() as pool, ExitStack() as ends:

        def begin(start: Callable[[], V], end: Callable[[V], None]) -> Future[V]:
            starting = pool.submit(start)
            ends.callback(lambda: None if starting.exception() else end(starting.result()))
            return starting

        stripe = begin(lambda: _shielded("stripe"), LocalServer.close)
        salesforce = begin(lambda: _shielded("salesforce"), LocalServer.close)
        postgres = begin(LocalPostgres, LocalPostgres.stop)
        yield Vendors(stripe.result(), salesforce.result(), postgres.result())


def _shielded(name: str) -> LocalServer:
    """Start a local vendor that Ctrl-C in the terminal does not reach: what it interrupts is undone at the vendor."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return LocalServer.in_process(name)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
