"""The fake remote: a ledger, and a network that loses, delays and repeats what is sent to it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from .host import running
from .loop import NOBODY

if TYPE_CHECKING:
    from collections.abc import Callable

    from .host import Host

T = TypeVar("T")

LANDS_WITHIN = 8.0
"""Seconds within which a request that was sent lands, or never does."""

PATIENCE = 2.0
"""Seconds for which a client waits for an answer."""


REMOTE: ContextVar[Remote] = ContextVar("simulated_remote")
"""The remote that the running process talks to."""


class Lost(ConnectionError):
    """No answer came: the request may land, or may have landed."""


class Declined(Exception):
    """The remote said no: nothing happened, and nothing will."""


@dataclass
class Charge:
    """One effect that landed.

    Attributes:
        key: The idempotency key under which it was asked for.
        refunds: The keys under which it was effectively given back, in order.
    """

    id: str
    saga: str
    key: str
    refunds: list[str] = field(default_factory=list[str])


class Remote:
    """The service and the wires to it.

    Attributes:
        charges: What landed, by id.
        mails: The keys under which each held effect landed, by what it was about.
        attempts: The key of each call that the remote knows of, and what it answered.
        is_calm: The network loses and delays nothing any more, and every question is answered.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self.draw = host.draw
        self.charges: dict[str, Charge] = {}
        self.made: dict[str, str] = {}
        self.refunds: dict[str, str] = {}
        self.mails: defaultdict[str, list[str]] = defaultdict(list)
        self.is_calm = False
        self.loss = host.draw.choice([0.0, 0.15, 0.4])

    async def charge(self, saga: str, key: str, *, may_decline: bool = False) -> str:
        """Ask for an effect and return its id."""
        self._refuse_unlogged(saga, key)
        if may_decline and self._host.draw.random() < 0.3:
            await self._call(f"declines {key[:4]}", lambda: None)
            raise Declined
        return await self._call(f"charge {key[:4]}", lambda: self._land(saga, key))

    async def mail(self, saga: str, item: str, key: str, *, keyed: bool, may_decline: bool = False) -> None:
        """Ask for a held effect."""
        self._refuse_unlogged(saga, key)
        flaw = self._host.forbids_mail(saga)
        if flaw is not None:
            self._host.loop.problems.append(f"a held effect is sent although {flaw}")
        if may_decline and self._host.draw.random() < 0.3:
            await self._call(f"declines {key[:4]}", lambda: None)
            raise Declined

        def work() -> None:
            if not (keyed and key in self.mails[item]):
                self.mails[item].append(key)
            if len(self.mails[item]) > 1:
                self._host.loop.problems.append(f"a held effect was sent twice: {item}")

        await self._call(f"mail {key[:4]}", work, repeats=keyed)

    async def find_mail(self, item: str, key: str) -> bool:
        """Ask whether a held effect landed under a key."""
        return await self._call(f"find mail {key[:4]}", lambda: key in self.mails[item], repeats=False)

    async def refund(self, saga: str, charge: str, key: str, *, keyed: bool) -> None:
        """Ask for an effect to be given back."""
        self._refuse_unlogged(saga, key)
        await self._call(f"refund {charge}", lambda: self._give_back(charge, key, keyed=keyed), repeats=keyed)

    async def release(self, saga: str, of: str, key: str) -> None:
        """Ask for whatever an attempt made to be given back; harmless where it made nothing."""
        self._refuse_unlogged(saga, key)

        def work() -> None:
            made = self.made.get(of)
            if made is not None:
                self._give_back(made, key, keyed=True)

        await self._call(f"release {of[:4]}", work)

    async def find(self, key: str) -> str | None:
        """Ask whether an attempt landed."""
        return await self._call(f"find {key[:4]}", lambda: self.made.get(key), repeats=False)

    async def find_refund(self, key: str) -> bool:
        """Ask whether an undo landed."""
        return await self._call(f"find refund {key[:4]}", lambda: key in self.refunds, repeats=False)

    def _land(self, saga: str, key: str) -> str:
        if key not in self.made:
            made = Charge(f"ch{len(self.charges) + 1}", saga, key)
            self.charges[made.id] = made
            self.made[key] = made.id
        return self.made[key]

    def _give_back(self, charge: str, key: str, *, keyed: bool) -> None:
        made = self.charges.get(charge)
        if made is None:
            self._host.loop.problems.append(f"a refund of {charge}, which never was")
            return
        if made.key in self._host.kept.get(made.saga, ()):
            self._host.loop.problems.append(f"{charge} is given back although its commit is in the log")
        if not (keyed and key in self.refunds):
            made.refunds.append(key)
            self.refunds[key] = charge
        if len(made.refunds) > 1:
            self._host.loop.problems.append(f"{charge} was given back twice")

    def _refuse_unlogged(self, saga: str, key: str) -> None:
        """Hold what is about to be sent against the log and the lock."""
        process = running()
        process.act(f"sends under {key[:4]}")
        if not self._host.knows_durably(saga, key):
            self._host.loop.problems.append(f"{process} sends under {key[:4]}, of which the disk knows nothing")
        if self._host.owners.get(saga) is not process:
            self._host.loop.problems.append(f"{process} acts in the name of {saga}, which it does not own")

    async def _call(self, what: str, work: Callable[[], T], *, repeats: bool = True) -> T:
        """Send a request and wait for its answer.

        Raises:
            Lost: None came in time.
        """
        host, draw, loop = self._host, self._host.draw, self._host.loop
        process = running()
        process.act(what)
        answer: asyncio.Future[T] = loop.create_future()
        fate = "ok" if self.is_calm or draw.random() >= self.loss else draw.choice(["dropped", "mute", "late", "twice"])

        def arrive(*, is_heard: bool) -> None:
            result = work()
            host.loop.tell(f"remote: {what} ({fate})")
            if is_heard:
                loop.call_later(draw.expovariate(20.0), reply, result, context=NOBODY)

        def reply(result: T) -> None:
            if not answer.done() and not process.is_dead:
                answer.set_result(result)

        if fate == "dropped":
            host.loop.tell(f"network: drops {what}")
        soon = min(draw.expovariate(10.0), PATIENCE)
        if fate == "late":
            loop.call_later(draw.uniform(0.0, LANDS_WITHIN * 0.999), lambda: arrive(is_heard=False), context=NOBODY)
        elif fate != "dropped":
            loop.call_later(soon, lambda: arrive(is_heard=fate != "mute"), context=NOBODY)
        if fate == "twice" and repeats:
            again = draw.uniform(soon, LANDS_WITHIN * 0.999)
            loop.call_later(again, lambda: arrive(is_heard=False), context=NOBODY)
        try:
            async with asyncio.timeout(PATIENCE):
                return await answer
        except TimeoutError:
            raise Lost(what) from None
