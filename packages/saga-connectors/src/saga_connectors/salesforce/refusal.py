"""What Salesforce's answers say about the write: kept nothing, or may have kept it."""

from collections.abc import Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import Any, cast

import msgspec

from saga_connectors.errors import MissingExtra

try:
    import requests
    from simple_salesforce.exceptions import SalesforceError
    from urllib3.exceptions import NewConnectionError
except ImportError as missing:
    raise MissingExtra(
        "saga_connectors.salesforce", "salesforce", library=missing.name or "simple-salesforce"
    ) from missing

from saga_connectors.salesforce.errors import (
    AnswerLost,
    CallsExhausted,
    NothingWritten,
    RecordBusy,
    RecordMissing,
    SessionRefused,
    Unreadable,
    WriteRefused,
)


class Problem(msgspec.Struct, frozen=True):
    """One entry of the list with which Salesforce answers a refused request."""

    code: str
    message: str
    fields: tuple[str, ...]


class PreconditionFailed(Exception):
    """The record was modified after the moment that the request named: it was not written (412)."""


def unusable() -> Unreadable:
    """Return the error for an answer that is not what the vendor's guides describe."""
    return Unreadable(
        "Salesforce's answer is not what its API describes.", next="check that instance_url is the org's own address"
    )


def _problems(error: SalesforceError) -> tuple[Problem, ...]:
    # The library annotates the raw bytes; it hands over the parsed body wherever there is one.
    content: Any = error.content
    entries = cast("list[dict[str, Any]]", content) if isinstance(content, list) else []
    return tuple(
        Problem(str(each["errorCode"]), str(each.get("message", "")), tuple(map(str, each.get("fields") or ())))
        for each in entries
        if "errorCode" in each
    )


def read_refused(error: SalesforceError) -> NothingWritten:
    """Return the error for a read that was answered with one."""
    return _known_refusal(error) or Unreadable(
        f"Salesforce answered a read with {error.status}{_named(_problems(error))}.",
        next="call again; if it persists, compare with Salesforce's status page",
    )


def write_refused(error: SalesforceError, values: Mapping[str, Any]) -> Exception:
    """Return the error for a write of `values` that was answered with one: proof that nothing was kept, or a doubt."""
    # "Status Codes and Error Responses" (REST API Developer Guide): below 500 and with error codes in the body, the
    # request was refused and its transaction rolled back. Anything else comes from somewhere on the way.
    if error.status == HTTPStatus.PRECONDITION_FAILED:
        return PreconditionFailed()
    known = _known_refusal(error)
    if known is not None:
        return known
    problems = _problems(error)
    if problems and HTTPStatus.BAD_REQUEST <= error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
        refused = WriteRefused(
            f"Salesforce refused the write{_named(problems)}.", next="change what it objects to, then call again"
        )
        refused.reason = "; ".join(_reason(problem, values) for problem in problems)
        return refused
    return AnswerLost(
        f"Salesforce answered a write with {error.status}{_named(problems)}.",
        world="the record may have been changed",
        next="do not repeat it; its values are read back when the saga is settled",
    )


def _known_refusal(error: SalesforceError) -> NothingWritten | None:
    problems = _problems(error)
    codes = {problem.code for problem in problems}
    if error.status == HTTPStatus.UNAUTHORIZED:
        return SessionRefused(
            f"Salesforce does not accept the session, also after one renewal{_named(problems)}.",
            next="give the reference a valid credential; saga_connectors.salesforce lists the forms",
        )
    if "ENTITY_IS_DELETED" in codes or (error.status == HTTPStatus.NOT_FOUND and problems):
        return RecordMissing(
            f"Salesforce has no such record{_named(problems)}.",
            next="check the object type and the id; a deleted record may be in the recycle bin",
        )
    if "UNABLE_TO_LOCK_ROW" in codes:
        return RecordBusy("another transaction holds the record.", next="call again in a moment")
    if "REQUEST_LIMIT_EXCEEDED" in codes:
        exhausted = CallsExhausted(
            "the org's allowance of API requests is used up.",
            next="wait until requests of the last 24 hours expire, or raise the allowance",
        )
        if any(problem.message.startswith("TotalRequests") for problem in problems):
            # The daily allowance does not come back within a few retries; the one for concurrent requests does.
            exhausted.retry_after = timedelta(minutes=15)
        return exhausted
    return None


def _reason(problem: Problem, values: Mapping[str, Any]) -> str:
    """Return a problem in words: its message only where an administrator wrote it and no value of ours is in it."""
    named = f"{problem.code} ({', '.join(problem.fields)})" if problem.fields else problem.code
    ours = [str(value) for value in values.values() if value is not None and not isinstance(value, bool)]
    if problem.code != "FIELD_CUSTOM_VALIDATION_EXCEPTION" or any(text and text in problem.message for text in ours):
        return named
    return f"{named}: {problem.message[:200]}"


def _named(problems: tuple[Problem, ...]) -> str:
    codes = [problem.code for problem in problems]
    fields = [name for problem in problems for name in problem.fields]
    return (f" ({', '.join(codes)})" if codes else "") + (f" about {', '.join(fields)}" if fields else "")


def unreachable(error: requests.RequestException) -> Unreadable:
    """Return the error for a request whose failure in transit left nothing behind."""
    return Unreadable(
        f"Salesforce could not be asked ({type(error).__name__}).",
        next="check the address and the network, then call again",
    )


def was_never_sent(error: requests.RequestException) -> bool:
    """True if no connection was made, so that no byte of the request left this machine."""
    reason: Any = getattr(error.args[0], "reason", None) if error.args else None
    return isinstance(error, requests.ConnectTimeout) or isinstance(reason, NewConnectionError)
