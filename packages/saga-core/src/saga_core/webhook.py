"""Signed messages about approvals: one that tells of a request, and one that brings a decision.

A message carries `Saga-Signature: t=SECONDS,v1=HEX`, an HMAC-SHA256 under a shared secret of the time, the delivery's
id and the raw body (`TIME.ID.BODY`), and `Saga-Delivery`, an id that is good once. Nothing of a body is parsed before
its signature holds. There is no unsigned mode, and a verb that is not known decides nothing.

A decision is a JSON object: `id` of the request, `verb` (`approve` or `reject`), `by`, and perhaps `reason` and `edit`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import time
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from saga_core import approvals
from saga_core.errors import ApprovalConflict, NotFound
from saga_core.secrets import mask, mask_value
from saga_core.stores.store import Backend

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from saga_core.approvals import Approval
    from saga_core.stores import Store

__all__ = ["MOST", "WINDOW", "Answer", "Message", "application", "message", "receive"]

WINDOW = 300
"""Seconds by which a message's time may differ from ours."""

MOST = 65_536
"""Bytes that a body may have."""

_SHORTEST_SECRET = 16
_SIGNATURE = re.compile(r"t=([0-9]{1,12}),v1=([0-9a-f]{64})")
_DELIVERY = re.compile(r"[A-Za-z0-9_-]{16,64}")
_OK, _BAD, _UNSIGNED, _UNKNOWN, _WRONG_METHOD, _CONFLICT, _LARGE = 200, 400, 401, 404, 405, 409, 413


class Message(NamedTuple):
    """A signed body, to be sent by POST with these headers."""

    headers: dict[str, str]
    body: bytes


class Answer(NamedTuple):
    """What to answer a message with: a status, and what came of it as JSON."""

    status: int
    body: bytes


def message(content: Approval | dict[str, Any], /, *, secret: bytes) -> Message:
    """Return a signed message: about a request, or with a decision about one.

    Args:
        content: A request, which is told with its arguments masked; or a decision as JSON.
        secret: What both sides know, at least 16 bytes.
    """
    _refuse_short([secret])
    body = json.dumps(content if isinstance(content, dict) else _told(content)).encode()
    delivery, at = os.urandom(16).hex(), str(int(time.time()))
    return Message(
        {
            "Content-Type": "application/json",
            "Saga-Delivery": delivery,
            "Saga-Signature": f"t={at},v1={_mac(secret, at, delivery, body)}",
        },
        body,
    )


def receive(store: Store, headers: Iterable[tuple[str, str]], body: bytes, /, *, secrets: Sequence[bytes]) -> Answer:
    """Carry out a message that brings a decision, and return what to answer; what was decided is durable then.

    Args:
        store: The store in which the call waits.
        headers: All headers as they came, each a pair; one that comes twice is none.
        body: The raw body.
        secrets: What is accepted: the current secret, and the former one while it is changed.

    Raises:
        ValueError: There is no secret, or one is shorter than 16 bytes.
        StoreError: The store cannot be used; nothing was decided.
    """
    _refuse_short(secrets)
    if len(body) > MOST:
        return _answer(_LARGE, "the body is too large")
    delivery = _signed_delivery(list(headers), body, secrets)
    if delivery is None:
        return _answer(_UNSIGNED, "the message is not signed, not for now, or not by us")
    assert isinstance(store, Backend)
    if not store.permits.receive_delivery(delivery, within=2 * WINDOW * 10**9):
        return _answer(_CONFLICT, "this message was received before; nothing more was decided")
    try:
        content: Any = json.loads(body)
    except (ValueError, RecursionError):
        return _answer(_BAD, "the body is no JSON; nothing was decided")
    if not isinstance(content, dict):
        return _answer(_BAD, "the body is no JSON object; nothing was decided")
    return _decided(store, cast("dict[str, Any]", content))


def _decided(store: Store, content: dict[str, Any]) -> Answer:
    id_, verb, by, reason, edit = (content.get(name) for name in ("id", "verb", "by", "reason", "edit"))
    if not isinstance(id_, str) or not isinstance(by, str) or not isinstance(reason, (str, type(None))):
        return _answer(_BAD, "id, by and reason are text; nothing was decided")
    if not isinstance(edit, (dict, type(None))):
        return _answer(_BAD, "edit is an object of arguments; nothing was decided")
    try:
        match verb:
            case "approve":
                found = approvals.approve(store, id_, by=by, reason=reason, edit=cast("dict[str, Any] | None", edit))
            case "reject" if edit is None:
                found = approvals.reject(store, id_, by=by, reason=reason or "")
            case _:
                return _answer(_BAD, "the verb is approve or reject; nothing was decided")
    except ApprovalConflict as late:
        return _answer(_CONFLICT, str(late.args[0]))
    except NotFound as missing:
        return _answer(_UNKNOWN, str(missing.args[0]))
    except (TypeError, ValueError) as wrong:
        return _answer(_BAD, f"{wrong}; nothing was decided")
    return _answer(_OK, f"the request is {found.state}", state=found.state)


def application(store: Store, /, *, secrets: Sequence[bytes]) -> Callable[..., Awaitable[None]]:
    """Return an ASGI application that takes decisions by POST, to be mounted or served by itself.

    Raises:
        ValueError: There is no secret, or one is shorter than 16 bytes.
    """
    _refuse_short(secrets)

    async def app(
        scope: dict[str, Any], get: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        import asyncio  # noqa: PLC0415 -- where it is served, it is there

        if scope["type"] != "http":
            return
        body, has_more = b"", True
        while has_more and len(body) <= MOST:
            event = await get()
            body += event.get("body", b"")
            has_more = event.get("more_body", False)
        if scope["method"] == "POST":
            headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
            answer = await asyncio.to_thread(receive, store, headers, body, secrets=secrets)
        else:
            answer = _answer(_WRONG_METHOD, "send a POST")
        await send(
            {
                "type": "http.response.start",
                "status": answer.status,
                "headers": [(b"content-type", b"application/json")],
            }
        )
        await send({"type": "http.response.body", "body": answer.body})

    return app


def _signed_delivery(headers: list[tuple[str, str]], body: bytes, secrets: Sequence[bytes]) -> str | None:
    """Return the id of a delivery whose signature holds now."""
    signature = _SIGNATURE.fullmatch(_only(headers, "saga-signature"))
    delivery = _DELIVERY.fullmatch(_only(headers, "saga-delivery"))
    if signature is None or delivery is None:
        return None
    at, given = signature.groups()
    if abs(time.time() - int(at)) > WINDOW:
        return None
    expected = [_mac(secret, at, delivery[0], body) for secret in secrets]
    holds = [hmac.compare_digest(mac, given) for mac in expected]  # all are compared, however many hold
    return delivery[0] if any(holds) else None


def _only(headers: list[tuple[str, str]], name: str) -> str:
    found = [value for key, value in headers if key.lower() == name]
    return found[0] if len(found) == 1 else ""


def _mac(secret: bytes, at: str, delivery: str, body: bytes) -> str:
    return hmac.new(secret, f"{at}.{delivery}.".encode() + body, hashlib.sha256).hexdigest()


def _refuse_short(secrets: Sequence[bytes]) -> None:
    if not secrets or any(len(secret) < _SHORTEST_SECRET for secret in secrets):
        raise ValueError(f"a webhook needs a secret of at least {_SHORTEST_SECRET} bytes: there is no unsigned mode")


def _answer(status: int, words: str, **more: str) -> Answer:
    return Answer(status, json.dumps({"words": mask(words), **more}).encode())


def _told(one: Approval) -> dict[str, Any]:
    return {
        "id": one.id,
        "state": one.state,
        "action": mask(one.action),
        "args": mask_value(dict(one.args)),
        "amount": None if one.amount is None else str(one.amount),
        "currency": one.currency,
        "reason": mask(one.reason),
        "saga": one.saga_id,
        "key": None if one.key is None else mask(one.key),
        "quorum": one.quorum,
        "expires_at": one.expires_at.isoformat(),
        "story": [mask(step) for step in one.story],
    }
