"""A conversation with one org: each request is sent once, and an expired session is renewed once."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Self, cast
from urllib.parse import urlsplit

import msgspec

from saga_connectors.credentials import resolve
from saga_connectors.errors import CredentialMalformed, MissingExtra

try:
    import requests
    from simple_salesforce.api import Salesforce
    from simple_salesforce.exceptions import SalesforceError, SalesforceExpiredSession
    from simple_salesforce.util import call_salesforce
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

CONNECT_SECONDS, ANSWER_SECONDS = 10.0, 30.0

# Tokens that this process fetched itself, by credential reference and org: logging in for each request would soon hit
# the vendor's login limit.
_renewed: dict[tuple[str, str], str] = {}


class Problem(msgspec.Struct, frozen=True):
    """One entry of the list with which Salesforce answers a refused request."""

    code: str
    message: str
    fields: tuple[str, ...]


class Answer(msgspec.Struct, frozen=True):
    """What a read brought: the JSON object, when the org answered, and how many API calls it has left today."""

    body: Mapping[str, Any]
    at: datetime | None
    calls_left: int | None


class PreconditionFailed(Exception):
    """The record was modified after the moment that the request named: it was not written (412)."""


class Session:
    """Requests to the org behind a credential reference. It blocks: call it on a worker thread, one at a time.

    The vendor's library builds and sends each request and reads its errors. Its own retries are not used: they send
    the request again without the caller's headers, so that a guarded write becomes an unguarded one.
    """

    def __init__(self, credential_ref: str) -> None:
        self._ref = credential_ref
        credential = resolve(credential_ref, needs=("instance_url",))
        self.instance_url = _instance_url(credential_ref, credential["instance_url"])
        self._http = requests.Session()
        # Without an auth of its own, requests takes one from a .netrc and replaces the token.
        self._http.auth = _as_it_is
        self._user_id: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._http.close()

    def get(self, path: str, params: Mapping[str, str] | None = None) -> Answer:
        """Read a JSON object from below `/services/data/vXX.X/`.

        Raises:
            NothingWritten: It could not be read; the class says why.
        """
        try:
            response = self._request("GET", path, {}, params=dict(params or {}))
            body: Any = response.json()
        except SalesforceError as error:
            raise _read_refused(error) from None
        except requests.RequestException as error:
            raise _unreachable(error) from None
        date = response.headers.get("Date")
        usage: Any = Salesforce.parse_api_usage(response.headers.get("Sforce-Limit-Info", "")).get("api-usage")
        return Answer(
            body,
            parsedate_to_datetime(date) if date else None,
            None if usage is None else usage.total - usage.used,
        )

    def patch(self, path: str, values: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        """Write `values`, once.

        Raises:
            PreconditionFailed: A condition among the headers does not hold any more; nothing was written.
            NothingWritten: Salesforce refused it, or it cannot have been sent; the class says why.
            AnswerLost: It may have been written.
        """
        body = msgspec.json.Encoder(decimal_format="number").encode(values)
        try:
            self._request("PATCH", path, headers, data=body)
        except SalesforceError as error:
            raise _write_refused(error, values) from None
        except requests.RequestException as error:
            if _never_sent(error):
                raise _unreachable(error) from None
            raise AnswerLost(
                f"no answer to a write came from Salesforce ({type(error).__name__}).",
                world="the record may have been changed",
                next="do not repeat it; its values are read back when the saga is settled",
            ) from None

    def user_id(self) -> str | None:
        """Return the id of the user that the credential acts as, None if Salesforce does not say."""
        if self._user_id is None:
            url = f"{self.instance_url}/services/oauth2/userinfo"
            headers = {"Authorization": f"Bearer {self._token()}"}
            try:
                answer = self._http.get(url, headers=headers, timeout=_timeout(), allow_redirects=False)
                self._user_id = str(answer.json()["user_id"])
            except (requests.RequestException, LookupError, TypeError):
                return None
        return self._user_id

    def _request(self, method: str, path: str, headers: Mapping[str, str], **options: Any) -> requests.Response:
        token = self._token()
        try:
            return self._send(token, method, path, headers, options)
        except SalesforceExpiredSession:
            # Refused before it was looked at, so the same request, headers and all, may be sent once more.
            return self._send(self._renewed_token(token), method, path, headers, options)

    def _send(
        self, token: str, method: str, path: str, headers: Mapping[str, str], options: Mapping[str, Any]
    ) -> requests.Response:
        org = Salesforce(instance_url=self.instance_url, session_id=token, session=self._http)
        # The library knows https only; a plain address got past _instance_url because it is this machine's own.
        base = org.base_url if self.instance_url.startswith("https:") else org.base_url.replace("https:", "http:", 1)
        return call_salesforce(
            base + path,
            method,
            self._http,
            {**org.headers, **headers},
            timeout=_timeout(),
            allow_redirects=False,
            **options,
        )

    def _token(self) -> str:
        renewed = _renewed.get((self._ref, self.instance_url))
        if renewed is not None:
            return renewed
        credential = resolve(self._ref)
        given = credential.get("access_token")
        return given if isinstance(given, str) and given else self._log_in(credential)

    def _renewed_token(self, refused: str) -> str:
        _renewed.pop((self._ref, self.instance_url), None)
        credential = resolve(self._ref)
        if "client_id" in credential:
            return self._log_in(credential)
        # Whoever keeps the credential fresh may have done so since this session began.
        given = credential.get("access_token")
        if isinstance(given, str) and given not in ("", refused):
            return given
        raise self._refused("its access token has expired, and nothing in it can fetch a new one")

    def _log_in(self, credential: Mapping[str, Any]) -> str:
        if "client_id" not in credential:
            raise self._refused("it holds neither an access_token nor a client_id")
        form = {name: credential[name] for name in ("client_id", "client_secret") if name in credential}
        if "refresh_token" in credential:
            form |= {"grant_type": "refresh_token", "refresh_token": credential["refresh_token"]}
        elif "username" in credential:
            form |= {"grant_type": "password", "username": credential["username"], "password": credential["password"]}
        else:
            form |= {"grant_type": "client_credentials"}
        try:
            answer = self._http.post(
                f"{self.instance_url}/services/oauth2/token", data=form, timeout=_timeout(), allow_redirects=False
            )
            body: Any = answer.json()
        except requests.RequestException as error:
            raise _unreachable(error) from None
        if not isinstance(body, dict) or "access_token" not in body:
            said = cast("dict[str, Any]", body).get("error") if isinstance(body, dict) else None
            named = said if isinstance(said, str) and re.fullmatch(r"\w{1,60}", said) else answer.status_code
            raise self._refused(f"the login was answered with {named}")
        token = str(cast("dict[str, Any]", body)["access_token"])
        _renewed[self._ref, self.instance_url] = token
        return token

    def _refused(self, why: str) -> SessionRefused:
        return SessionRefused(
            f"Salesforce does not accept the credential {self._ref!r}: {why}.",
            next="give the reference a valid credential; saga_connectors.salesforce lists the forms",
        )


def unusable() -> Unreadable:
    """Return the error for an answer that is not what the vendor's guides describe."""
    return Unreadable(
        "Salesforce's answer is not what its API describes.", next="check that instance_url is the org's own address"
    )


def _instance_url(ref: str, given: str) -> str:
    address = urlsplit(given)
    is_own = address.scheme == "http" and address.hostname in ("127.0.0.1", "::1", "localhost")
    if not address.netloc or not (address.scheme == "https" or is_own):
        raise CredentialMalformed(
            f"the credential {ref!r} has an instance_url that is no https address.",
            world="nothing was called",
            next="use the org's own address, https://<my domain>.my.salesforce.com",
        )
    return f"{address.scheme}://{address.netloc}"


def _problems(error: SalesforceError) -> tuple[Problem, ...]:
    # The library annotates the raw bytes; it hands over the parsed body wherever there is one.
    content: Any = error.content
    entries = cast("list[dict[str, Any]]", content) if isinstance(content, list) else []
    return tuple(
        Problem(str(each["errorCode"]), str(each.get("message", "")), tuple(map(str, each.get("fields") or ())))
        for each in entries
        if "errorCode" in each
    )


def _read_refused(error: SalesforceError) -> NothingWritten:
    return _known_refusal(error) or Unreadable(
        f"Salesforce answered a read with {error.status}{_named(_problems(error))}.",
        next="call again; if it persists, compare with Salesforce's status page",
    )


def _write_refused(error: SalesforceError, values: Mapping[str, Any]) -> Exception:
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


def _unreachable(error: requests.RequestException) -> Unreadable:
    return Unreadable(
        f"Salesforce could not be asked ({type(error).__name__}).",
        next="check the address and the network, then call again",
    )


def _never_sent(error: requests.RequestException) -> bool:
    """True if no connection was made, so that no byte of the request left this machine."""
    reason: Any = getattr(error.args[0], "reason", None) if error.args else None
    return isinstance(error, requests.ConnectTimeout) or isinstance(reason, NewConnectionError)


def _as_it_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


def _timeout() -> tuple[float, float]:
    return CONNECT_SECONDS, ANSWER_SECONDS
