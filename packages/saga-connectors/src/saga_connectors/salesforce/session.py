"""A conversation with one org: each request is sent once, and an expired session is renewed once."""

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Self, cast
from urllib.parse import urlsplit

import msgspec
import requests
from simple_salesforce.api import Salesforce
from simple_salesforce.exceptions import SalesforceError, SalesforceExpiredSession
from simple_salesforce.util import call_salesforce

from saga_connectors.credentials import resolve
from saga_connectors.errors import CredentialMalformed
from saga_connectors.salesforce.errors import AnswerLost, SessionRefused
from saga_connectors.salesforce.refusal import read_refused, unreachable, was_never_sent, write_refused

CONNECT_SECONDS, ANSWER_SECONDS = 10.0, 30.0

# Tokens that this process fetched itself, by the digest of the credential that fetched them: logging in for each call
# would soon hit the vendor's login limit.
_fetched: dict[bytes, str] = {}


class Answer(msgspec.Struct, frozen=True):
    """What a read brought: the JSON object, when the org answered, and how many API calls it has left today."""

    body: Mapping[str, Any]
    at: datetime | None
    calls_left: int | None


class Session:
    """Requests to the org behind a credential reference. It blocks: call it on a worker thread, one at a time.

    The vendor's library builds and sends each request and reads its errors. Its own retries are not used: they send
    the request again without the caller's headers, so that a guarded write becomes an unguarded one.
    """

    def __init__(self, credential_ref: str) -> None:
        self._ref = credential_ref
        self._credential = resolve(credential_ref, needs=("instance_url",))
        self.instance_url = _instance_url(credential_ref, self._credential["instance_url"])
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
            raise read_refused(error) from None
        except requests.RequestException as error:
            raise unreachable(error) from None
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
            raise write_refused(error, values) from None
        except requests.RequestException as error:
            if was_never_sent(error):
                raise unreachable(error) from None
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
        fetched = _fetched.get(_digest(self._credential))
        given = self._credential.get("access_token")
        return fetched or (given if isinstance(given, str) and given else self._log_in())

    def _renewed_token(self, refused: str) -> str:
        # Whoever keeps the credential fresh may have done so since this session began.
        self._credential = resolve(self._ref, needs=("instance_url",))
        if "client_id" in self._credential:
            return self._log_in()
        given = self._credential.get("access_token")
        if isinstance(given, str) and given not in ("", refused):
            return given
        raise self._refused("its access token has expired, and nothing in it can fetch a new one")

    def _log_in(self) -> str:
        credential = self._credential
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
            raise unreachable(error) from None
        if not isinstance(body, dict) or "access_token" not in body:
            said = cast("dict[str, Any]", body).get("error") if isinstance(body, dict) else None
            named = said if isinstance(said, str) and re.fullmatch(r"\w{1,60}", said) else answer.status_code
            raise self._refused(f"the login was answered with {named}")
        token = str(cast("dict[str, Any]", body)["access_token"])
        _fetched[_digest(credential)] = token
        return token

    def _refused(self, why: str) -> SessionRefused:
        return SessionRefused(
            f"Salesforce does not accept the credential {self._ref!r}: {why}.",
            next="give the reference a valid credential; saga_connectors.salesforce lists the forms",
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


def _digest(credential: Mapping[str, Any]) -> bytes:
    return hashlib.sha256(repr(sorted(credential.items())).encode()).digest()


def _as_it_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


def _timeout() -> tuple[float, float]:
    return CONNECT_SECONDS, ANSWER_SECONDS
