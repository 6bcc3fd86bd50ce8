"""The part of the REST API that the local org answers, without any HTTP: a call in, an answer out."""

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import format_datetime, parsedate_to_datetime
from http import HTTPStatus
from typing import Any, cast

from saga_connectors.testing.salesforce.identifier import normalised
from saga_connectors.testing.salesforce.org import Org, Row
from saga_connectors.testing.salesforce.refusal import Refusal, bad, missing
from saga_connectors.testing.salesforce.schema import OBJECTS, ObjectType


@dataclass(frozen=True)
class Call:
    """One request below `/services/data/vXX.X/`, made by a user. Header names are in small letters."""

    method: str
    path: str
    user: str
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: Any = None


@dataclass(frozen=True)
class Answer:
    """What comes back."""

    status: HTTPStatus
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


def answered(org: Org, call: Call, version: str) -> Answer:
    """Carry out one call on the org.

    Raises:
        Refusal: It was refused, and the org is as it was.
    """
    match call.path.strip("/").split("/"):
        case ["sobjects", name]:
            return _basic(org, call, _kind(name), version)
        case ["sobjects", name, "describe"]:
            return _only(call, GET=lambda: Answer(HTTPStatus.OK, _kind(name).described()))
        case ["sobjects", name, object_id]:
            return _row(org, call, _kind(name), _identified(object_id), version)
        case _:
            raise missing()


def _only(call: Call, **methods: Callable[[], Answer]) -> Answer:
    if call.method not in methods:
        message = f"HTTP Method '{call.method}' not allowed. Allowed are {','.join(methods)}"
        raise Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", message)
    return methods[call.method]()


def _basic(org: Org, call: Call, kind: ObjectType, version: str) -> Answer:
    # "sObject Basic Information" (REST API Developer Guide).
    def create() -> Answer:
        object_id = org.create(kind, _fields(call), call.user, org.now(), assign=_assigns(call))
        place = {"Location": f"/services/data/v{version}/sobjects/{kind.name}/{object_id}"}
        return Answer(HTTPStatus.CREATED, {"id": object_id, "success": True, "errors": []}, place)

    def about() -> Answer:
        described = {key: value for key, value in kind.described().items() if key != "fields"}
        return Answer(HTTPStatus.OK, {"objectDescribe": described, "recentItems": []})

    return _only(call, GET=about, POST=create)


def _row(org: Org, call: Call, kind: ObjectType, object_id: str, version: str) -> Answer:
    # "sObject Rows" (REST API Developer Guide).
    def read() -> Answer:
        row = org.find(kind, object_id)
        asked = call.query.get("fields")
        names = asked.split(",") if asked else list(kind.fields)
        for name in names:
            if name not in kind.fields:
                raise bad("INVALID_FIELD", f"No such column '{name}' on sobject of type {kind.name}")
        since = _moment(call.headers.get("if-modified-since"))
        if since is not None and _modified(row) <= since:
            return Answer(HTTPStatus.NOT_MODIFIED)
        shown = org.shown(kind, row)
        url = f"/services/data/v{version}/sobjects/{kind.name}/{object_id}"
        body = {"attributes": {"type": kind.name, "url": url}} | {name: shown[name] for name in names}
        return Answer(HTTPStatus.OK, body, _validators(org, kind, row))

    def update() -> Answer:
        _check_preconditions(org, call, kind, org.find(kind, object_id))
        org.update(kind, object_id, _fields(call), call.user, org.now(), assign=_assigns(call))
        etag = {"ETag": _etag(org, kind, org.find(kind, object_id))} if kind.has_etag else {}
        # "Update Records Using sObject Rows": an ETag comes back for account records.
        return Answer(HTTPStatus.NO_CONTENT, headers=etag)

    def delete() -> Answer:
        # "Conditional Request Headers" (REST API Developer Guide): a DELETE knows no conditions.
        org.delete(kind, object_id, org.now())
        return Answer(HTTPStatus.NO_CONTENT)

    return _only(call, GET=read, PATCH=update, DELETE=delete)


def _check_preconditions(org: Org, call: Call, kind: ObjectType, row: Row) -> None:
    # "Conditional Request Headers": weak validation compares the last modified date, which an HTTP date names to
    # the second; strong validation is for accounts only; a value that is no date or tag is a bad request.
    given = call.headers.get("if-unmodified-since")
    if given is not None:
        limit = _moment(given)
        if limit is None:
            raise bad("INVALID_HEADER", "Invalid value for If-Unmodified-Since")
        if _modified(row) > limit:
            raise _precondition()
    if kind.has_etag and "if-match" in call.headers:
        tags = [tag.strip() for tag in call.headers["if-match"].split(",")]
        if not all(tag.startswith('"') and tag.endswith('"') for tag in tags):
            raise bad("INVALID_HEADER", "Invalid value for If-Match")
        if _etag(org, kind, row) not in tags:
            raise _precondition()


def _precondition() -> Refusal:
    message = "One or more of the preconditions in the request headers is not satisfied"
    return Refusal(HTTPStatus.PRECONDITION_FAILED, "PRECONDITION_FAILED", message)


def _validators(org: Org, kind: ObjectType, row: Row) -> dict[str, str]:
    validators = {"Last-Modified": format_datetime(_modified(row), usegmt=True)}
    return validators | {"ETag": _etag(org, kind, row)} if kind.has_etag else validators


def _modified(row: Row) -> datetime:
    return datetime.fromisoformat(row["LastModifiedDate"]).replace(microsecond=0)


def _moment(http_date: str | None) -> datetime | None:
    try:
        return parsedate_to_datetime(http_date) if http_date else None
    except ValueError:
        return None


def _etag(org: Org, kind: ObjectType, row: Row) -> str:
    content = json.dumps(org.shown(kind, row), sort_keys=True).encode()
    return f'"{base64.b64encode(hashlib.sha256(content).digest()[:20]).decode()}--gzip"'


def _assigns(call: Call) -> bool:
    # "Assignment Rule Header" (REST API Developer Guide): without the header the active rules are applied.
    return call.headers.get("sforce-auto-assign", "TRUE").upper() != "FALSE"


def _fields(call: Call) -> dict[str, Any]:
    if not isinstance(call.body, dict):
        raise bad("JSON_PARSER_ERROR", "The request body must be a JSON object")
    body = cast("dict[str, Any]", call.body)
    return {name: value for name, value in body.items() if name != "attributes"}


def _kind(name: str) -> ObjectType:
    if name not in OBJECTS:
        raise missing()
    return OBJECTS[name]


def _identified(given: str) -> str:
    found = normalised(given)
    if found is None:
        # MALFORMED_ID in "ExceptionCode" (SOAP API Developer Guide): neither 15 nor 18 characters of an id.
        raise bad("MALFORMED_ID", "malformed id")
    return found
