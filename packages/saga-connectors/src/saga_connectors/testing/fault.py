"""Faults that a test arms in a local vendor server: what real networks and real vendors do on bad days."""

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

Kind = Literal["drop", "late", "hang", "answer"]
When = Literal["before", "after"]


class ClientGone(Exception):
    """The client went away while the server held its request back."""


@dataclass
class Fault:
    """One armed fault. It fires for the `nth` matching request and the `count - 1` matching ones that follow.

    drop: the connection is closed without an answer, `before` or `after` the effect.
    late: the connection is closed at once, the request is executed `seconds` later, or at `release`.
    hang: silence, `before` or `after` the effect, until `seconds` have passed, `release`, or the client gives up.
    answer: the vendor answers with `status` and `headers`, `before` or `after` the effect.
    """

    kind: Kind
    on: str
    when: When = "before"
    nth: int = 1
    count: int = 1
    seconds: float | None = None
    status: int = 500
    headers: dict[str, str] = field(default_factory=dict[str, str])
    seen: int = 0

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind) or self.when not in get_args(When):
            raise ValueError(f"there is no fault {self.kind!r} {self.when!r} an effect")
        # `*` stands for one path segment, so that "POST /v1/refunds" does not also mean ".../cancel".
        parts = (re.escape(part) for part in self.on.split("*"))
        self._pattern = re.compile("[^/]+".join(parts))

    def fires(self, method: str, path: str) -> bool:
        """Count a matching request; true if it is one of those to be hit."""
        if not self._pattern.fullmatch(f"{method} {path}"):
            return False
        self.seen += 1
        return self.nth <= self.seen < self.nth + self.count

    @property
    def is_spent(self) -> bool:
        """True once it has hit all it was armed for."""
        return self.seen >= self.nth + self.count - 1


class Faults:
    """The armed faults of one server, and everything they hold back."""

    def __init__(self) -> None:
        self.armed: list[Fault] = []
        self._gate = asyncio.Event()
        self._late: set[asyncio.Task[None]] = set()

    def arm(self, details: Mapping[str, Any]) -> None:
        """Arm the fault that `details` describe."""
        self.armed.append(Fault(**details))

    def take(self, method: str, path: str) -> Fault | None:
        """Return the first fault that fires for this request; every matching one has then seen it."""
        firing = [fault for fault in self.armed if fault.fires(method, path)]
        self.armed = [fault for fault in self.armed if not fault.is_spent]
        return firing[0] if firing else None

    def release(self) -> None:
        """Let go of everything that is held back now; what is held back later waits again."""
        self._gate.set()
        self._gate = asyncio.Event()

    async def reset(self) -> None:
        """Forget every fault; requests still held back are never executed."""
        self.armed.clear()
        for task in self._late:
            task.cancel()
        await asyncio.gather(*self._late, return_exceptions=True)

    async def wait(self, seconds: float | None) -> None:
        """Return after `seconds` or at the next `release`, whichever is first."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._gate.wait(), seconds)

    def later(self, fault: Fault, app: ASGIApp, scope: Scope, body: bytes) -> None:
        """Execute a request whose client is gone, when `fault` says so."""

        async def run() -> None:
            await self.wait(fault.seconds)
            await app(scope, _replayed(body), _unheard)

        task = asyncio.create_task(run())
        self._late.add(task)
        task.add_done_callback(self._late.discard)


class FaultLayer:
    """ASGI middleware that carries out what happens on the wire: `drop` and `late`.

    `hang` and `answer` belong inside the vendor, which knows what is in flight and what its errors look like:
    the fault is handed on in `scope["fault"]`, see `held_back` and `answering`.
    """

    def __init__(self, app: ASGIApp, faults: Faults) -> None:
        self._app = app
        self._faults = faults

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["faults"] = self._faults
        scope["fault"] = fault = self._faults.take(scope["method"], scope["path"])
        if fault is None or fault.kind in ("hang", "answer"):
            await self._app(scope, receive, send)
            return
        try:
            body = await Request(scope, receive).body()
        except ClientDisconnect:
            return
        if fault.kind == "late":
            self._faults.later(fault, self._app, dict(scope), body)
        elif fault.when == "after":
            await self._app(scope, _replayed(body), _unheard)
        scope["cut"]()
        while (await receive())["type"] != "http.disconnect":
            pass


async def held_back(request: Request, when: When) -> None:
    """Hang here if that was armed for this request and moment.

    Raises:
        ClientGone: The client gave up first; what would have followed does not happen.
    """
    fault: Fault | None = request.scope["fault"]
    if fault is None or fault.kind != "hang" or fault.when != when:
        return
    waits = asyncio.ensure_future(request.scope["faults"].wait(fault.seconds))
    leaves = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait((waits, leaves), return_when=asyncio.FIRST_COMPLETED)
        if leaves.done():
            raise ClientGone
    finally:
        waits.cancel()
        leaves.cancel()


def answering(request: Request, when: When) -> Fault | None:
    """Return the `answer` fault armed for this request and moment."""
    fault: Fault | None = request.scope["fault"]
    return fault if fault is not None and fault.kind == "answer" and fault.when == when else None


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _replayed(body: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


async def _unheard(message: Message) -> None:
    """Nobody is left to hear the answer."""
