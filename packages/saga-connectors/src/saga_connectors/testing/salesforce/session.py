"""Who may talk to the local org, and how often."""

import secrets
from dataclasses import dataclass, field
from http import HTTPStatus

from saga_connectors.testing.salesforce.org import USERS
from saga_connectors.testing.salesforce.refusal import Refusal


@dataclass
class Sessions:
    """Access tokens, each a user's, what gets new ones, and the org's daily allowance of API calls."""

    client_id: str = "saga-local-app"
    client_secret: str = field(default_factory=secrets.token_urlsafe)
    refresh_token: str = field(default_factory=secrets.token_urlsafe)
    username: str = "integration@saga.example"
    password: str = field(default_factory=secrets.token_urlsafe)
    users: dict[str, str] = field(default_factory=dict[str, str])
    issued: list[str] = field(default_factory=list[str])
    logins: int = 0
    logins_refused: bool = False
    used: int = 0
    total: int = 15000

    def open(self, user: str = "integration") -> str:
        """Return a new access token for `user`."""
        token = f"00D5gQ000000001!{secrets.token_urlsafe(24)}"
        self.users[token] = USERS[user]
        self.issued.append(token)
        return token

    def expire(self) -> None:
        """Make every token that was handed out invalid."""
        self.users.clear()

    def user(self, authorization: str) -> str:
        """Return the user of a request, and count the request.

        Raises:
            Refusal: The session is unknown or has expired, or the daily allowance is used up.
        """
        user = self.users.get(authorization.removeprefix("Bearer "))
        if user is None:
            # "Status Codes and Error Responses" (REST API Developer Guide), 401.
            raise Refusal(HTTPStatus.UNAUTHORIZED, "INVALID_SESSION_ID", "Session expired or invalid")
        if self.used >= self.total:
            # The same page, 403: with this code the org has used up its API requests.
            raise Refusal(HTTPStatus.FORBIDDEN, "REQUEST_LIMIT_EXCEEDED", "TotalRequests Limit exceeded.")
        self.used += 1
        return user

    @property
    def limit_info(self) -> str:
        """What "Limit Info Header" (REST API Developer Guide) says comes with every answer."""
        return f"api-usage={self.used}/{self.total}"

    @property
    def limits(self) -> dict[str, dict[str, int]]:
        """What the "Limits" resource (REST API Developer Guide) says about the allowance of API calls."""
        return {"DailyApiRequests": {"Max": self.total, "Remaining": self.total - self.used}}

    def granted(self, form: dict[str, str]) -> str:
        """Return a new access token for an OAuth 2.0 token request.

        "OAuth 2.0 Client Credentials Flow", "Refresh Token Flow" and "Username-Password Flow" (Salesforce Help).

        Raises:
            Refusal: The client, the grant or the secret is wrong; the code is OAuth's `error`.
        """
        self.logins += 1
        if self.logins_refused or (form.get("client_id"), form.get("client_secret")) != (
            self.client_id,
            self.client_secret,
        ):
            raise Refusal(HTTPStatus.BAD_REQUEST, "invalid_client", "invalid client credentials")
        proof = {
            "client_credentials": True,
            "refresh_token": form.get("refresh_token") == self.refresh_token,
            "password": (form.get("username"), form.get("password")) == (self.username, self.password),
        }.get(form.get("grant_type", ""))
        if proof is None:
            raise Refusal(HTTPStatus.BAD_REQUEST, "unsupported_grant_type", "grant type not supported")
        if not proof:
            raise Refusal(HTTPStatus.BAD_REQUEST, "invalid_grant", "authentication failure")
        return self.open()
