"""The endpoints of the local Stripe, and the order in which a request is treated."""

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from stripe import params

from saga_connectors.testing.fault import ClientGone, answering, held_back
from saga_connectors.testing.stripe import customer, payment, refund
from saga_connectors.testing.stripe.failure import Failure
from saga_connectors.testing.stripe.idempotency import Answer, Keys
from saga_connectors.testing.stripe.ledger import Ledger, Object
from saga_connectors.testing.stripe.move import MOVES
from saga_connectors.testing.stripe.shape import Values, checked, decoded

_CLIENT_GONE = 499  # nobody sees it; it tells the state's `requests` how this one ended

Operation = Callable[[Ledger, str, Values], Object]


@dataclass(frozen=True)
class Endpoint:
    """One method and path, the package's type of its parameters, what it does, and which parameters it understands."""

    method: str
    path: str
    params: type
    operation: Operation
    models: str = ""

    def read(self, form: str) -> Values:
        """Return the parameters of a request.

        Raises:
            Failure: Stripe would refuse them, or (501) would understand one that this server does not.
        """
        given = checked(decoded(form), self.params)
        if strange := given.keys() - self.models.split() - {"expand"}:
            raise Failure(
                f"the local Stripe does not model {', '.join(sorted(strange))} of {self.method} {self.path}",
                status=HTTPStatus.NOT_IMPLEMENTED,
                type="api_error",
                is_validation=True,
            )
        return given


class StripeVendor:
    """One Stripe account in test mode; any key that starts with `sk_test_` or `rk_test_` opens it."""

    def __init__(self) -> None:
        self._ledger = Ledger()
        self._keys = Keys()
        self._requests: list[Object] = []

    def routes(self) -> Sequence[BaseRoute]:
        """The part of Stripe's v1 API that is here."""
        return [
            *(Route(end.path, self._endpoint(end), methods=[end.method]) for end in ENDPOINTS),
            Route("/{rest:path}", _unrecognized, methods=["GET", "POST", "DELETE"]),
        ]

    def state(self) -> Mapping[str, Any]:
        """The whole ledger: objects by id, `net` per customer and currency, keys, and every request in order."""
        ledger = self._ledger
        return {
            "account": ledger.account,
            **{f"{kind}s": held for kind, held in ledger.objects.items()},
            "net": ledger.net(),
            "keys": {
                key: {"request": kept, "status": answer.status} for key, (kept, answer) in self._keys.kept.items()
            },
            "running_keys": list(self._keys.running),
            "requests": self._requests,
        }

    def reset(self) -> None:
        """Forget everything."""
        self._ledger = Ledger()
        self._keys = Keys()
        self._requests = []

    def act(self, move: str, /, **facts: Any) -> Mapping[str, Any]:
        """Do what others do; the moves are listed in this package's docstring."""
        return MOVES[move](self._ledger, self._keys, **facts)

    def _endpoint(self, end: Endpoint) -> Callable[[Request], Any]:
        async def respond(request: Request) -> Response:
            entry: Object = {"method": request.method, "path": request.url.path, "status": None}
            key = request.headers.get("idempotency-key") if request.method == "POST" else None
            if key is not None:
                entry["key"] = key
            self._requests.append(entry)
            headers = {"request-id": f"req_{secrets.token_hex(7)}"}
            try:
                answer = await self._answer(end, request, key, headers)
            except Failure as failure:
                answer = Answer(failure.status, failure.body)
            except (ClientGone, ClientDisconnect):
                answer = Answer(_CLIENT_GONE, {})
            entry["status"] = answer.status
            if "idempotent-replayed" in headers:
                entry["replayed"] = True
            return JSONResponse(answer.body, answer.status, headers)

        return respond

    async def _answer(self, end: Endpoint, request: Request, key: str | None, headers: dict[str, str]) -> Answer:
        _authenticate(request)
        form = (await request.body()).decode() if request.method == "POST" else request.url.query
        if fault := answering(request, "before"):
            headers.update(fault.headers)
            if fault.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                # What Stripe refuses at the door, no key remembers.
                return _faulty(fault.status)
        given = end.read(form)
        if key is None:
            return await self._executed(end, request, given, headers)
        fingerprint = json.dumps([request.method, request.url.path, given], sort_keys=True)
        if (kept := self._keys.replay(key, fingerprint)) is not None:
            headers["idempotent-replayed"] = "true"
            return kept
        self._keys.begin(key, fingerprint)
        answer = None
        try:
            answer = await self._settled(end, request, given, headers)
            return answer
        finally:
            self._keys.end(key, answer)

    async def _settled(self, end: Endpoint, request: Request, given: Values, headers: dict[str, str]) -> Answer:
        try:
            return await self._executed(end, request, given, headers)
        except Failure as failure:
            if failure.is_validation:
                raise
            return Answer(failure.status, failure.body)

    async def _executed(self, end: Endpoint, request: Request, given: Values, headers: dict[str, str]) -> Answer:
        await held_back(request, "before")
        if fault := answering(request, "before"):
            return _faulty(fault.status)
        expand = given.pop("expand", [])
        made = end.operation(self._ledger, request.path_params.get("id", ""), given)
        answer = Answer(200, self._ledger.shown(made, expand))
        with suppress(ClientGone):
            await held_back(request, "after")
        if fault := answering(request, "after"):
            headers.update(fault.headers)
            return _faulty(fault.status)
        return answer


def _authenticate(request: Request) -> None:
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme != "Bearer" or not key.startswith(("sk_test_", "rk_test_")):
        raise Failure("Invalid API Key provided: " + "*" * 8 + key[-4:], status=401)


def _faulty(status: int) -> Answer:
    code = "rate_limit" if status == HTTPStatus.TOO_MANY_REQUESTS else None
    kind = "api_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"
    failure = Failure("An error occurred.", code=code, status=status, type=kind)
    return Answer(status, failure.body)


async def _unrecognized(request: Request) -> Response:
    failure = Failure(f"Unrecognized request URL ({request.method}: {request.url.path}).", status=404)
    return JSONResponse(failure.body, failure.status)


def _list(kind: str) -> Operation:
    def run(ledger: Ledger, _ref: str, given: Values) -> Object:
        found = [item for item in ledger.newest(kind) if _matches(item, given)]
        after, before = given.get("starting_after"), given.get("ending_before")
        ids = [item["id"] for item in found]
        if after is not None:
            ledger.find(kind, after, param="starting_after")
            found = found[ids.index(after) + 1 :] if after in ids else []
        elif before is not None:
            ledger.find(kind, before, param="ending_before")
            found = found[: ids.index(before)] if before in ids else []
        limit = given.get("limit", 10)
        if not 1 <= limit <= 100:  # noqa: PLR2004 - Stripe's bounds
            raise Failure("Invalid limit: must be between 1 and 100", param="limit", is_validation=True)
        page = found[-limit:] if before is not None else found[:limit]
        return {"object": "list", "data": page, "has_more": len(found) > limit, "url": f"/v1/{kind}s"}

    return run


def _matches(item: Object, given: Values) -> bool:
    created = given.get("created", {})
    if isinstance(created, int):
        created = {"gte": created, "lte": created}
    at = item["created"]
    tests: dict[str, Callable[[int], bool]] = {
        "gt": lambda bound: at > bound,
        "gte": lambda bound: at >= bound,
        "lt": lambda bound: at < bound,
        "lte": lambda bound: at <= bound,
    }
    return all(tests[name](bound) for name, bound in cast("Mapping[str, int]", created).items()) and all(
        item[name] == given[name] for name in ("customer", "payment_intent", "charge") if name in given
    )


def _retrieve(kind: str) -> Operation:
    return lambda ledger, ref, _given: ledger.find(kind, ref)


_PAGE = "limit starting_after ending_before created customer"
_CUSTOMER = "description email invoice_settings metadata name phone"

ENDPOINTS = (
    Endpoint("GET", "/v1/account", params.AccountRetrieveCurrentParams, lambda ledger, _ref, _given: ledger.account),
    Endpoint("POST", "/v1/customers", params.CustomerCreateParams, customer.create, f"{_CUSTOMER} payment_method"),
    Endpoint("GET", "/v1/customers/{id}", params.CustomerRetrieveParams, customer.retrieve),
    Endpoint("POST", "/v1/customers/{id}", params.CustomerUpdateParams, customer.update, _CUSTOMER),
    Endpoint("DELETE", "/v1/customers/{id}", params.CustomerDeleteParams, customer.delete),
    Endpoint("POST", "/v1/payment_methods", params.PaymentMethodCreateParams, customer.create_method, "type card"),
    Endpoint("GET", "/v1/payment_methods/{id}", params.PaymentMethodRetrieveParams, _retrieve("payment_method")),
    Endpoint("POST", "/v1/payment_methods/{id}/attach", params.PaymentMethodAttachParams, customer.attach, "customer"),
    Endpoint("POST", "/v1/payment_methods/{id}/detach", params.PaymentMethodDetachParams, customer.detach),
    Endpoint(
        "POST",
        "/v1/payment_intents",
        params.PaymentIntentCreateParams,
        payment.create,
        "amount automatic_payment_methods capture_method confirm confirmation_method currency customer description "
        "metadata off_session payment_method return_url",
    ),
    Endpoint("GET", "/v1/payment_intents", params.PaymentIntentListParams, _list("payment_intent"), _PAGE),
    Endpoint("GET", "/v1/payment_intents/{id}", params.PaymentIntentRetrieveParams, _retrieve("payment_intent")),
    Endpoint(
        "POST",
        "/v1/payment_intents/{id}/confirm",
        params.PaymentIntentConfirmParams,
        payment.confirm,
        "error_on_requires_action off_session payment_method return_url",
    ),
    Endpoint(
        "POST",
        "/v1/payment_intents/{id}/capture",
        params.PaymentIntentCaptureParams,
        payment.capture,
        "amount_to_capture metadata",
    ),
    Endpoint(
        "POST",
        "/v1/payment_intents/{id}/cancel",
        params.PaymentIntentCancelParams,
        payment.cancel,
        "cancellation_reason",
    ),
    Endpoint("GET", "/v1/charges", params.ChargeListParams, _list("charge"), f"{_PAGE} payment_intent"),
    Endpoint("GET", "/v1/charges/{id}", params.ChargeRetrieveParams, _retrieve("charge")),
    Endpoint(
        "POST",
        "/v1/refunds",
        params.RefundCreateParams,
        refund.create,
        "amount charge metadata payment_intent reason",
    ),
    Endpoint("GET", "/v1/refunds", params.RefundListParams, _list("refund"), f"{_PAGE} charge payment_intent"),
    Endpoint("GET", "/v1/refunds/{id}", params.RefundRetrieveParams, _retrieve("refund")),
    Endpoint("POST", "/v1/refunds/{id}/cancel", params.RefundCancelParams, refund.cancel),
)
