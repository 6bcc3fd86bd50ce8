"""Several calls in one request, as "Composite" (REST API Developer Guide) describes them."""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

from saga_connectors.testing.salesforce.org import Org
from saga_connectors.testing.salesforce.refusal import Refusal, bad
from saga_connectors.testing.salesforce.rest import Answer, Call, answered

LIMIT = 25


class _Halted(Exception):
    """A subrequest of an all-or-none request failed."""


def composed(org: Org, user: str, body: Any, version: str) -> Answer:
    """Carry out the subrequests in order; with `allOrNone` either all of them or none.

    Raises:
        Refusal: The request itself makes no sense; none of it was carried out.
    """
    asked = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
    requests = cast("list[dict[str, Any]]", asked.get("compositeRequest"))
    if not requests:
        raise bad("INVALID_INPUT", "compositeRequest is missing")
    if len(requests) > LIMIT:
        raise bad("LIMIT_EXCEEDED", f"Limit of {LIMIT} subrequests exceeded")
    all_or_none = asked.get("allOrNone") is True
    results: list[dict[str, Any]] = []
    try:
        with org.transaction():
            for request in requests:
                results.append(_result(org, user, request, results, version))
                if all_or_none and results[-1]["httpStatusCode"] >= HTTPStatus.BAD_REQUEST:
                    raise _Halted
    except _Halted:
        failed = len(results) - 1
        results = [
            results[failed] if at == failed else _halted(request["referenceId"]) for at, request in enumerate(requests)
        ]
    return Answer(HTTPStatus.OK, {"compositeResponse": results})


def _result(
    org: Org, user: str, request: Mapping[str, Any], earlier: list[dict[str, Any]], version: str
) -> dict[str, Any]:
    try:
        url = urlsplit(str(_referring(request["url"], earlier)))
        if not url.path.startswith("/services/data/v"):
            raise bad("INVALID_INPUT", "the url of a subrequest starts with /services/data")
        call = Call(
            method=request["method"],
            path=url.path.split("/", 4)[4],
            user=user,
            query=dict(parse_qsl(url.query)),
            headers={name.lower(): value for name, value in request.get("httpHeaders", {}).items()},
            body=_referring(request.get("body"), earlier),
        )
        answer = answered(org, call, version)
    except Refusal as refusal:
        answer = Answer(refusal.status, refusal.body)
    return {
        "body": answer.body,
        "httpHeaders": dict(answer.headers),
        "httpStatusCode": int(answer.status),
        "referenceId": request["referenceId"],
    }


def _referring(value: Any, earlier: list[dict[str, Any]]) -> Any:
    # `@{referenceId.field}` stands for a field of an earlier subrequest's answer.
    if isinstance(value, dict):
        return {name: _referring(each, earlier) for name, each in cast("dict[str, Any]", value).items()}
    if not isinstance(value, str):
        return value

    def found(reference: re.Match[str]) -> str:
        for result in earlier:
            if result["referenceId"] == reference[1] and isinstance(result["body"], dict):
                body = cast("dict[str, Any]", result["body"])
                if reference[2] in body:
                    return str(body[reference[2]])
        raise bad("PROCESSING_HALTED", f"Invalid reference specified. No value for {reference[0]} found")

    return re.sub(r"@\{(\w+)\.(\w+)\}", found, value)


def _halted(reference: str) -> dict[str, Any]:
    message = "The transaction was rolled back since another operation in the same transaction failed."
    return {
        "body": [{"errorCode": "PROCESSING_HALTED", "message": message}],
        "httpHeaders": {},
        "httpStatusCode": int(HTTPStatus.BAD_REQUEST),
        "referenceId": reference,
    }
