"""A script that runs a saga against the bank and, as a rule, does not live to see its end."""

from __future__ import annotations

import itertools
import os
import resource
import signal
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from saga_core import Saga, SagaClosed, SagaError, StoreError, saga_scope
from saga_core.errors import OutcomeNotLogged

from . import bank
from .fault import FAULTS
from .fuse import FUSE
from .orders import Told, VictimOrders

if TYPE_CHECKING:
    from collections.abc import Coroutine


class Hallucinated(Exception):
    """The agent's run fails."""


class Run:
    """One saga of two charges, the second one in a savepoint."""

    def __init__(self, orders: VictimOrders) -> None:
        self._orders = orders
        self._first, self._second = orders.base * 10 + 1, orders.base * 10 + 2
        self.saga: Saga | None = None
        self.results: list[str] = []

    def scope(self) -> Any:
        orders = self._orders
        return saga_scope(
            "run",
            store=orders.store,
            key=orders.key,
            if_settled=orders.if_settled,
            tags={"base": str(orders.base)},
            stray=orders.stray,
            unwind_timeout=timedelta(seconds=orders.unwind),
        )

    def go(self) -> None:
        """Do what was planned."""
        match self._orders.plan:
            case "failing" | "committing" | "half":
                self.blocking()
            case "failing_async" | "committing_async" | "half_async":
                self._run(self.on_loop())
            case "parallel_async":
                self._run(self.parallel())
            case plan:
                getattr(self, plan)()

    def blocking(self) -> None:
        charge = bank.CHARGES[self._orders.remote]
        plan = self._orders.plan
        with self.scope() as self.saga:
            self._note(charge(self._first))
            with suppress(Hallucinated), saga_scope("inner"):
                self._note(charge(self._second))
                if plan == "half":
                    raise Hallucinated
            if plan == "failing":
                raise Hallucinated

    async def on_loop(self) -> None:
        plan = self._orders.plan
        async with self.scope() as self.saga:
            self._note(await bank.charge_async(self._first))
            with suppress(Hallucinated):
                async with saga_scope("inner"):
                    self._note(await bank.charge_async(self._second))
                    if plan == "half_async":
                        raise Hallucinated
            if plan == "failing_async":
                raise Hallucinated

    async def parallel(self) -> None:
        """Charge three times at once, and fail."""
        import asyncio  # noqa: PLC0415 -- as in `_run`

        async with self.scope() as self.saga:
            amounts = [self._first, self._second, self._second + 1]
            await asyncio.gather(*(bank.charge_async.at(str(amount))(amount) for amount in amounts))
            raise Hallucinated

    def storm(self) -> None:
        """Run one saga after another, of each plan in turn, until the process is killed."""
        for number in itertools.count():
            plan = ("failing", "committing", "half")[number % 3]
            base = self._orders.base + number
            run = Run(msgspec.structs.replace(self._orders, plan=plan, base=base))
            with suppress(Hallucinated):
                run.blocking()

    def contending(self) -> None:
        """Resume one of sixty keys after another, whoever else does the same."""
        for number in itertools.count():
            base = self._orders.base + number % 60
            with suppress(SagaError):
                Run(msgspec.structs.replace(self._orders, base=base, key=f"k{base}")).resume()

    def relieved(self) -> None:
        """Charge until the disk is full, make room, and fail."""
        with self.scope() as self.saga:
            with suppress(StoreError, OutcomeNotLogged, SagaClosed):
                self._note(bank.charge(self._first))
                self._note(bank.charge(self._second))
            _make_room()
            raise Hallucinated

    def nested(self) -> None:
        """Charge inside a charge, and fail."""
        with self.scope() as self.saga:
            bank.charge_around(self._first, self._second)
            raise Hallucinated

    def resume(self) -> None:
        """Do as `committing` does, with named positions."""
        charge = bank.CHARGES[self._orders.remote]
        with self.scope() as self.saga:
            self._note(charge.at("first")(self._first))
            self._note(charge.at("second")(self._second))

    def holding(self) -> None:
        """Charge, and hold two mails, the second one in a savepoint, until the commit."""
        mail = bank.MAILS[self._orders.remote]
        with self.scope() as self.saga:
            self._note(bank.charge(self._first))
            mail(self._second)
            with saga_scope("inner"):
                mail(self._second + 1)
            if self._orders.plan == "unholding":
                raise Hallucinated

    unholding = holding

    def holding_async(self) -> None:
        """Do the same on a loop."""

        async def run() -> None:
            async with self.scope() as self.saga:
                self._note(await bank.charge_async(self._first))
                await bank.mail_async(self._second)
                async with saga_scope("inner"):
                    await bank.mail_async(self._second + 1)

        self._run(run())

    def suspending(self) -> None:
        """Charge once, and let the saga wait."""
        with self.scope() as saga:
            self._note(bank.CHARGES[self._orders.remote].at("first")(self._first))
            saga.suspend("later")

    def straying(self) -> None:
        """Charge, and go on when that takes too long; then succeed."""
        with self.scope() as self.saga:
            with suppress(TimeoutError):
                self._note(bank.charge_slow.at("first")(self._first))
            FUSE.pass_by("gone on")

    def idle(self) -> None:
        """Do nothing."""
        with self.scope() as self.saga:
            pass

    def forking(self) -> None:
        """Charge, and fork: the child tries to go on, leaves the scope and lives until stdin ends."""
        with self.scope() as self.saga:
            self._note(bank.charge(self._first))
            child = os.fork()
            if not child:
                try:
                    bank.charge(self._second)
                except SagaError as refused:
                    sys.stdout.write(f"{type(refused).__name__}\n")
                    sys.stdout.flush()
            else:
                os.waitpid(child, 0)
        if not child:
            sys.stdin.read()
            os._exit(0)

    def retrying(self) -> None:
        """Fail to open the scope three times, count what is left open of that, make room, and do as `resume`."""
        before = _descriptors()
        for _ in range(3):
            try:
                self.resume()
            except StoreError as refused:
                self.results.append(type(refused).__name__)
        more = _descriptors() - before
        told = [*self.results, f"{more} descriptors more"]
        _make_room()
        self.resume()
        assert self.saga is not None
        self.results = [*told, self.saga.report.state]

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        import asyncio  # noqa: PLC0415 -- hundreds of processes here never need it

        asyncio.run(work)

    def _note(self, made: dict[str, Any]) -> None:
        self.results.append(made["id"])


def _make_room() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def main(orders: VictimOrders) -> Told:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell runs in its background is deaf to it
    for fault in orders.faults:
        FAULTS[fault]()
    if orders.disk:
        FUSE.disk = Path(orders.disk)
    if orders.limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (orders.limit, resource.RLIM_INFINITY))
    if orders.user:
        os.setresuid(orders.user, orders.user, orders.user)
    FUSE.watch_logs()
    if orders.system:
        FUSE.watch_system()
    FUSE.light(orders.at, orders.act, orders.then)
    FUSE.pass_by("start")
    run = Run(orders)
    error = ""
    try:
        run.go()
    except (Hallucinated, KeyboardInterrupt, SagaError) as raised:
        error = type(raised).__name__
    if orders.caught:
        sys.stdout.write("caught\n")
        sys.stdout.flush()
        sys.stdin.readline()
    saga = run.saga
    return Told(saga.id if saga else "", saga.report.state if saga else "", error, FUSE.moments, run.results)


if __name__ == "__main__":
    answer = main(msgspec.json.decode(os.fsencode(sys.argv[1]), type=VictimOrders))
    sys.stdout.buffer.write(msgspec.json.encode(answer))
