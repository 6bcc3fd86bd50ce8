"""The webhook over real sockets: what is not signed, not now, not once, or not understood decides nothing."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from saga_core import Saga, Store, irreversible, webhook
from saga_core import approvals as people
from saga_core.webhook import MOST, WINDOW, message, receive

from .world import World, in_scope, unique

SECRET = b"a secret of at least sixteen bytes"
FORMER = b"the secret that was used before it"


@pytest.fixture
def request_id(store: Store, world: World) -> str:
    @irreversible(unique("wire"))
    async def wire(item: str) -> str:
        return world.charge(item, "key")

    async def body(saga: Saga) -> None:
        await wire("rent")

    in_scope(store, body, key="k")
    (found,) = people.pending(store)
    return found.id


@pytest.fixture
def port(store: Store) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answer = receive(store, self.headers.items(), body, secrets=[SECRET, FORMER])
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever, args=(0.01,))
    serving.start()
    yield server.server_port
    server.shutdown()
    serving.join()
    server.server_close()


def post(port: int, headers: list[tuple[str, str]], body: bytes) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.putrequest("POST", "/")
    for name, value in [*headers, ("Content-Length", str(len(body)))]:
        connection.putheader(name, value)
    connection.endheaders(body)
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


def signed(body: bytes, *, secret: bytes = SECRET, at: int = 0, delivery: str = "d" * 20) -> list[tuple[str, str]]:
    """Sign as another implementation would, made from the module's text."""
    moment = str(int(time.time()) + at)
    mac = hmac.new(secret, f"{moment}.{delivery}.".encode() + body, hashlib.sha256).hexdigest()
    return [("Saga-Delivery", delivery), ("Saga-Signature", f"t={moment},v1={mac}")]


def decision(id_: str, **more: Any) -> bytes:
    return json.dumps({"id": id_, "verb": "approve", "by": "ana", **more}).encode()


def state(store: Store, id_: str) -> str:
    return people.get(store, id_).state


@pytest.mark.parametrize("secret", [SECRET, FORMER], ids=["current", "former"])
def test_a_signed_decision_is_carried_out_once(store: Store, port: int, request_id: str, secret: bytes) -> None:
    sent = message({"id": request_id, "verb": "approve", "by": "ana", "reason": "fine"}, secret=secret)
    assert post(port, list(sent.headers.items()), sent.body)[0] == 200
    assert state(store, request_id) == "approved"
    status, told = post(port, list(sent.headers.items()), sent.body)
    assert (status, "received before" in told["words"]) == (409, True)
    late = decision(request_id, verb="reject", by="bo")
    status, told = post(port, signed(late), late)
    assert (status, "already decided by ana (fine)" in told["words"]) == (409, True)
    assert state(store, request_id) == "approved"


def forged(id_: str) -> dict[str, tuple[list[tuple[str, str]], bytes]]:
    """Return messages of which none may decide anything, whatever is answered."""
    good = decision(id_)
    (delivery, signature) = signed(good)
    upper = (signature[0], signature[1].upper())
    return {
        "unsigned": ([], good),
        "only a delivery": ([delivery], good),
        "empty signature": ([delivery, ("Saga-Signature", "")], good),
        "another secret": (signed(good, secret=b"x" * 32), good),
        "another body": (signed(good), good + b" "),
        "another delivery": ([("Saga-Delivery", "e" * 20), signature], good),
        "too old": (signed(good, at=-WINDOW - 5), good),
        "too new": (signed(good, at=WINDOW + 5), good),
        "another time": ([delivery, (signature[0], signature[1].replace("t=", "t=1"))], good),
        "signed twice": ([delivery, signature, signature], good),
        "delivered twice": ([delivery, delivery, signature], good),
        "no scheme": ([delivery, (signature[0], signature[1].replace("v1=", "v0="))], good),
        "upper case": ([delivery, upper], good),
        "two signatures in one": ([delivery, (signature[0], signature[1] + "," + signature[1])], good),
        "short delivery": (signed(good, delivery="x"), good),
        "truncated": (signed(good), good[:-3]),
        "huge": (signed(good + b" " * MOST), good + b" " * MOST),
        "no JSON": (signed(b"{"), b"{"),
        "not UTF-8": (signed(b'{"verb": "\xff"}'), b'{"verb": "\xff"}'),
        "deep": (signed(b"[" * 60_000), b"[" * 60_000),
        "a list": (signed(b"[]"), b"[]"),
        "no verb": _signed({"id": id_, "by": "ana"}),
        "an unknown verb": _signed({"id": id_, "by": "ana", "verb": "approved"}),
        "a verb that is true": _signed({"id": id_, "by": "ana", "verb": True}),
        "an upper verb": _signed({"id": id_, "by": "ana", "verb": "APPROVE"}),
        "nobody": _signed({"id": id_, "by": "", "verb": "approve"}),
        "no name": _signed({"id": id_, "verb": "approve"}),
        "a number for a name": _signed({"id": id_, "by": 7, "verb": "approve"}),
        "an edit that is none": _signed({"id": id_, "by": "ana", "verb": "approve", "edit": [1]}),
        "an edit of nothing": _signed({"id": id_, "by": "ana", "verb": "approve", "edit": {"nothing": 1}}),
        "another request": _signed({"id": "0" * 16, "by": "ana", "verb": "approve"}),
    }


def _signed(content: dict[str, Any]) -> tuple[list[tuple[str, str]], bytes]:
    body = json.dumps(content).encode()
    return signed(body), body


@pytest.mark.parametrize("name", forged(""))
def test_what_is_forged_replayed_or_odd_decides_nothing(store: Store, port: int, request_id: str, name: str) -> None:
    headers, body = forged(request_id)[name]
    status, told = post(port, headers, body)
    assert status in {400, 401, 404, 409, 413}
    assert told["words"]
    assert state(store, request_id) == "pending"


def anything(*_: object) -> bool:
    return True


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("another secret", "compare"),
        ("too old", "window"),
    ],
)
def test_a_verifier_that_lets_it_pass_is_caught(
    store: Store, port: int, request_id: str, monkeypatch: pytest.MonkeyPatch, name: str, fault: str
) -> None:
    if fault == "compare":
        monkeypatch.setattr("saga_core.webhook.hmac.compare_digest", anything)
    else:
        monkeypatch.setattr(webhook, "WINDOW", 10**6)
    with pytest.raises(AssertionError):
        test_what_is_forged_replayed_or_odd_decides_nothing(store, port, request_id, name)


@pytest.mark.parametrize("secrets", [[], [b""], [b"short"], [SECRET, b""]], ids=repr)
def test_there_is_no_unsigned_mode(store: Store, secrets: list[bytes]) -> None:
    with pytest.raises(ValueError, match="no unsigned mode"):
        receive(store, [], b"", secrets=secrets)
    with pytest.raises(ValueError, match="no unsigned mode"):
        webhook.application(store, secrets=secrets)
    with pytest.raises(ValueError, match="no unsigned mode"):
        message({}, secret=secrets[-1] if secrets else b"")


def test_a_message_tells_of_a_request_what_a_person_must_know(store: Store, request_id: str) -> None:
    sent = message(people.get(store, request_id), secret=SECRET)
    content = json.loads(sent.body)
    assert (content["id"], content["args"], content["reason"]) == (request_id, {"item": "rent"}, "irreversible")
    assert signed(sent.body, delivery=sent.headers["Saga-Delivery"])[1][1] == sent.headers["Saga-Signature"]


def test_the_application_takes_decisions_by_post(store: Store, request_id: str) -> None:
    import asyncio  # noqa: PLC0415

    app = webhook.application(store, secrets=[SECRET])
    body = decision(request_id)

    async def call(method: str, chunks: list[bytes]) -> int:
        sent: list[Any] = []
        headers = [(name.lower().encode(), value.encode()) for name, value in signed(body)]
        events = [{"body": chunk, "more_body": number < len(chunks)} for number, chunk in enumerate(chunks, 1)]

        async def get() -> Any:
            return events.pop(0)

        async def send(event: Any) -> None:
            sent.append(event)

        await app({"type": "http", "method": method, "headers": headers}, get, send)
        return int(sent[0]["status"])

    assert asyncio.run(call("GET", [body])) == 405
    assert state(store, request_id) == "pending"
    assert asyncio.run(call("POST", [body[:5], body[5:]])) == 200
    assert state(store, request_id) == "approved"
