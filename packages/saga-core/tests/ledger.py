"""A small payment service in a process of its own: the world that kill -9 tests look at.

It needs the standard library only. It remembers every charge and every refund under the caller's key, and every request
that it was sent. A request is one line of JSON on a connection of its own; faults are planted through the same door.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import TYPE_CHECKING, Any, Literal, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Fault = Literal["lose_answer", "drop", "late", "refuse", "hold", "hold_answer"]
"""What may go wrong with a request.

`lose_answer`: it takes effect, and the connection breaks. `drop`: the connection breaks and nothing happens. `late`:
the connection breaks, and it takes effect at `release`. `refuse`: the service says no. `hold`: it waits for `release`
before it takes effect; `hold_answer`: behind it.
"""


class LedgerRefused(Exception):
    """The service said no: nothing happened."""


class AnswerLost(ConnectionError):
    """The connection broke before the answer: the request may have taken effect."""


@dataclass(frozen=True)
class State:
    """What the service remembers.

    Attributes:
        charges: Amounts by charge id, in order.
        keys: The key of each charge and each refund, by its id.
        refunds: The charge that each refund gave back, by the refund's id; a second one of a charge is here too.
        requests: Operation, key and what became of each request, in order of arrival.
        held: How many requests wait for `release` now, or will take effect then.
    """

    charges: Mapping[str, int]
    keys: Mapping[str, str]
    refunds: Mapping[str, str]
    requests: tuple[tuple[str, str, str], ...]
    held: int

    @property
    def standing(self) -> dict[str, int]:
        """Charges that nobody gave back."""
        back = set(self.refunds.values())
        return {charge: amount for charge, amount in self.charges.items() if charge not in back}

    @property
    def net(self) -> int:
        """What the customer has paid in the end; negative where something was given back twice."""
        return sum(self.charges.values()) - sum(self.charges.get(charge, 0) for charge in self.refunds.values())

    def sent(self, operation: str) -> list[str]:
        """Return the keys under which an operation was asked for, whatever became of it."""
        return [key for name, key, _ in self.requests if name == operation]


class LedgerProcess:
    """The service, from `with` to the end of the block; it also ends when this process does.

    Attributes:
        port: Where it listens on 127.0.0.1.
        url: The same as `ledger://127.0.0.1:PORT`.
    """

    def __init__(self, *, keyed: bool = True) -> None:
        """Choose whether a repeat under a known key is recognised, or takes effect again."""
        self._keyed = keyed

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-I", __file__, "keyed" if self._keyed else "forgetful"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.url = f"ledger://127.0.0.1:{self.port}"
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def state(self) -> State:
        """Return what the service remembers now."""
        return _state(_ask(self.port, {"do": "state"}))

    def fail(self, fault: Fault, operation: str = "charge", *, times: int = 1) -> None:
        """Plant a fault for the next requests of an operation: `charge`, `refund` or `find`."""
        _ask(self.port, {"do": "fail", "fault": fault, "operation": operation, "times": times})

    def release(self) -> None:
        """Let what is held take effect or be answered, and what is late land."""
        _ask(self.port, {"do": "release"})

    def wait_until(self, holds: Callable[[State], bool], *, seconds: float = 20.0) -> State:
        """Return the first state in which `holds` is true; the service wakes the waiter at each change.

        Raises:
            AssertionError: The time is over.
        """
        until = time.monotonic() + seconds
        version = -1
        while True:
            left = until - time.monotonic()
            found = _ask(self.port, {"do": "watch", "version": version, "seconds": max(left, 0.0)}, seconds=left + 10)
            state, version = _state(found), found["version"]
            if holds(state):
                return state
            assert time.monotonic() < until, f"the ledger never came to it: {state}"


def charge(port: int, key: str, amount: int, *, seconds: float = 30.0) -> dict[str, Any]:
    """Charge, and return the charge with its `id`, `key` and `amount`.

    Raises:
        LedgerRefused: Nothing was charged.
        AnswerLost: It may have been.
    """
    return _ask(port, {"do": "charge", "key": key, "amount": amount}, seconds=seconds)


def refund(port: int, key: str, charge_id: str, *, seconds: float = 30.0) -> dict[str, Any]:
    """Give a charge back, and return the refund with its `id`, `key` and `charge`.

    Raises:
        LedgerRefused: There is no such charge, or (only with keys) it was given back before: nothing happened.
        AnswerLost: It may have been given back.
    """
    return _ask(port, {"do": "refund", "key": key, "charge": charge_id}, seconds=seconds)


def find(port: int, key: str, *, seconds: float = 30.0) -> dict[str, Any] | None:
    """Return the newest charge or refund of a key, None if there is none.

    Raises:
        AnswerLost: The service did not answer.
    """
    return _ask(port, {"do": "find", "key": key}, seconds=seconds)["found"]


def _ask(port: int, request: dict[str, Any], *, seconds: float = 30.0) -> dict[str, Any]:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as answers:
                line = answers.readline()
    except OSError as broken:
        raise AnswerLost(f"{request['do']}: {broken}") from broken
    if not line.endswith(b"\n"):
        raise AnswerLost(f"{request['do']}: the connection broke before the answer")
    answer = json.loads(line)
    if "refused" in answer:
        raise LedgerRefused(answer["refused"])
    return answer


def _state(found: dict[str, Any]) -> State:
    requests = tuple((operation, key, became) for operation, key, became in found["requests"])
    return State(found["charges"], found["keys"], found["refunds"], requests, found["held"])


class _Refusal(Exception):
    pass


class _Book:
    """The service's memory; every change rings."""

    def __init__(self, *, keyed: bool) -> None:
        self._keyed = keyed
        self._changed = threading.Condition()
        self._version = 0
        self._released = 0
        self._held = 0
        self._charges: dict[str, int] = {}
        self._refunds: dict[str, str] = {}
        self._keys: dict[str, str] = {}
        self._requests: list[list[str]] = []
        self._faults: list[list[Any]] = []

    def answer(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """Do what is asked; None breaks the connection."""
        match request["do"]:
            case "state":
                return self._watch(-1, 0.0)
            case "watch":
                return self._watch(request["version"], request["seconds"])
            case "fail":
                with self._changed:
                    self._faults.append([request["operation"], request["fault"], request["times"]])
                return {}
            case "release":
                with self._changed:
                    self._released += 1
                    self._ring()
                return {}
            case _:
                return self._serve(request)

    def _serve(self, request: dict[str, Any]) -> dict[str, Any] | None:
        with self._changed:
            entry = [request["do"], request["key"], "arrived"]
            self._requests.append(entry)
            fault = self._next_fault(request["do"])
            self._ring()
            if fault in {"refuse", "drop"}:
                entry[2] = fault
                self._ring()
                return {"refused": "the service says no"} if fault == "refuse" else None
            if fault == "late":
                threading.Thread(target=self._land_late, args=(request, entry, self._released), daemon=True).start()
                self._held += 1
                self._ring()
                return None
            if fault == "hold":
                self._hold()
            answer = self._take_effect(request, entry)
            if fault == "hold_answer":
                self._hold()
            return None if fault == "lose_answer" else answer

    def _next_fault(self, operation: str) -> str | None:
        for fault in self._faults:
            if fault[0] == operation:
                fault[2] -= 1
                if not fault[2]:
                    self._faults.remove(fault)
                return fault[1]
        return None

    def _hold(self) -> None:
        self._held += 1
        self._ring()
        before = self._released
        self._changed.wait_for(lambda: self._released > before)
        self._held -= 1
        self._ring()

    def _land_late(self, request: dict[str, Any], entry: list[str], before: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._released > before)
            self._held -= 1
            self._take_effect(request, entry)

    def _take_effect(self, request: dict[str, Any], entry: list[str]) -> dict[str, Any]:
        try:
            answer = getattr(self, "_" + request["do"])(**{name: at for name, at in request.items() if name != "do"})
            entry[2] = "done"
        except _Refusal as refusal:
            answer = {"refused": str(refusal)}
            entry[2] = "refused"
        self._ring()
        return answer

    def _charge(self, key: str, amount: int) -> dict[str, Any]:
        known = self._find(key)["found"] if self._keyed else None
        if known is not None:
            return known
        charge_id = f"ch_{len(self._charges) + 1}"
        self._charges[charge_id] = amount
        self._keys[charge_id] = key
        return self._entry(charge_id)

    def _refund(self, key: str, charge: str) -> dict[str, Any]:
        known = self._find(key)["found"] if self._keyed else None
        if known is not None:
            return known
        if charge not in self._charges:
            raise _Refusal(f"there is no charge {charge}")
        if self._keyed and charge in self._refunds.values():
            raise _Refusal(f"charge {charge} was given back before")
        refund_id = f"re_{len(self._refunds) + 1}"
        self._refunds[refund_id] = charge
        self._keys[refund_id] = key
        return self._entry(refund_id)

    def _find(self, key: str) -> dict[str, Any]:
        found = [name for name, known in self._keys.items() if known == key]
        return {"found": self._entry(found[-1]) if found else None}

    def _entry(self, name: str) -> dict[str, Any]:
        if name in self._refunds:
            return {"id": name, "key": self._keys[name], "charge": self._refunds[name]}
        return {"id": name, "key": self._keys[name], "amount": self._charges[name]}

    def _watch(self, version: int, seconds: float) -> dict[str, Any]:
        with self._changed:
            self._changed.wait_for(lambda: self._version > version, seconds)
            return {
                "charges": dict(self._charges),
                "refunds": dict(self._refunds),
                "keys": dict(self._keys),
                "requests": [list(entry) for entry in self._requests],
                "held": self._held,
                "version": self._version,
            }

    def _ring(self) -> None:
        self._version += 1
        self._changed.notify_all()


def _serve_until_stdin_closes(*, keyed: bool) -> None:
    book = _Book(keyed=keyed)

    class Door(StreamRequestHandler):
        def handle(self) -> None:
            answer = book.answer(json.loads(self.rfile.readline()))
            if answer is not None:
                self.wfile.write(json.dumps(answer).encode() + b"\n")

    class Server(ThreadingTCPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A caller that was killed in mid-request is what this service is for."""

    with Server(("127.0.0.1", 0), Door) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sys.stdout.write(f"{server.server_address[1]}\n")
        sys.stdout.flush()
        sys.stdin.read()
        server.shutdown()


if __name__ == "__main__":
    _serve_until_stdin_closes(keyed=sys.argv[1] == "keyed")
