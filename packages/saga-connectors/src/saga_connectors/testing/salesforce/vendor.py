"""The local Salesforce org behind HTTP, and everything that other people do in it."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from saga_connectors.testing.fault import ClientGone, Fault, When, answering, held_back
from saga_connectors.testing.salesforce.composite import composed
from saga_connectors.testing.salesforce.identifier import normalised
from saga_connectors.testing.salesforce.org import USERS, Flow, Org, ValidationRule, kind_of
from saga_connectors.testing.salesforce.refusal import Refusal, bad
from saga_connectors.testing.salesforce.rest import Answer, Call, answered
from saga_connectors.testing.salesforce.schema import OBJECTS
from saga_connectors.testing.salesforce.session import Sessions

_FAULT_CODES = {
    HTTPStatus.FORBIDDEN: "REQUEST_LIMIT_EXCEEDED",
    HTTPStatus.TOO_MANY_REQUESTS: "REQUEST_LIMIT_EXCEEDED",
    HTTPStatus.SERVICE_UNAVAILABLE: "SERVER_UNAVAILABLE",
}


@dataclass
class _Arrangement:
    """Moves that somebody makes just before the server looks at a certain request."""

    trigger: Fault
    moves: list[Mapping[str, Any]]


class SalesforceOrg:
    """A stateful Salesforce org: leads, accounts, contacts and opportunities.

    It answers what the vendor's guides describe and nothing more; there is no SOQL, no SOAP and no bulk API.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.org = Org()
        self.sessions = Sessions()
        self._requests: list[dict[str, Any]] = []
        self._arrangements: list[_Arrangement] = []

    def routes(self) -> Sequence[BaseRoute]:
        """The REST API below `/services/data`, and the OAuth endpoints."""
        methods = ["GET", "POST", "PATCH", "DELETE", "PUT"]
        return [
            Route("/services/data/v{version}/{path:path}", self._data, methods=methods),
            Route("/services/oauth2/token", self._token, methods=["POST"]),
            Route("/services/oauth2/userinfo", self._user_info, methods=["GET", "POST"]),
        ]

    def state(self) -> Mapping[str, Any]:
        """The records, the recycle bin, the field history, and every request that was looked at."""
        rows = [{"attributes": {"type": kind_of(each).name}} | row for each, row in self.org.rows.items()]
        return {
            "records": {row["Id"]: row for row in rows if not row["IsDeleted"]},
            "recycle_bin": {row["Id"]: row for row in rows if row["IsDeleted"]},
            "history": self.org.history,
            "requests": self._requests,
            "logins": self.sessions.logins,
            "users": dict(USERS),
        }

    def act(self, move: str, /, **facts: Any) -> Mapping[str, Any]:
        """Make a move; the methods of `Moves` are the moves.

        Raises:
            LookupError: There is no such move.
            ValueError: The org refused it.
        """
        made = getattr(Moves(self), move, None)
        if move.startswith("_") or made is None:
            raise LookupError(f"there is no move {move!r}")
        try:
            return made(**facts)
        except Refusal as refusal:
            raise ValueError(f"{refusal.code}: {refusal.body[0]['message']}") from refusal

    def arrange(self, trigger: Fault, moves: list[Mapping[str, Any]]) -> None:
        """Make `moves` just before the server looks at the request for which `trigger` fires."""
        self._arrangements.append(_Arrangement(trigger, moves))

    async def _data(self, request: Request) -> Response:
        self._make_arranged_moves(request)
        body = await request.body()
        try:
            await held_back(request, "before")
            answer = _faulty(request, "before") or self._answered(request, body)
            await held_back(request, "after")
            answer = _faulty(request, "after") or answer
        except ClientGone:
            return Response()
        return _response(answer, self.sessions.limit_info)

    def _answered(self, request: Request, body: bytes) -> Answer:
        version, path = request.path_params["version"], request.path_params["path"]
        headers = {name.lower(): value for name, value in request.headers.items()}
        entry: dict[str, Any] = {"method": request.method, "path": request.url.path}
        # Which condition a request carried, and whether it let assignment rules run, is part of what tests compare.
        telling = ("if-unmodified-since", "if-match", "sforce-auto-assign")
        entry["headers"] = {name: headers[name] for name in telling if name in headers}
        self._requests.append(entry)
        try:
            user = self.sessions.user(headers.get("authorization", ""))
            call = Call(request.method, path, user, dict(request.query_params), headers, _parsed(body))
            if (request.method, path) == ("GET", "limits/"):
                answer = Answer(HTTPStatus.OK, self.sessions.limits)
            elif (request.method, path) == ("POST", "composite"):
                answer = composed(self.org, user, call.body, version)
            else:
                answer = answered(self.org, call, version)
        except Refusal as refusal:
            answer = Answer(refusal.status, refusal.body)
            entry["error"] = refusal.code
        entry["status"] = int(answer.status)
        return answer

    def _make_arranged_moves(self, request: Request) -> None:
        due = [each for each in self._arrangements if each.trigger.fires(request.method, request.url.path)]
        self._arrangements = [each for each in self._arrangements if not each.trigger.is_spent]
        for move in (move for each in due for move in each.moves):
            self.act(move["move"], **move.get("facts", {}))

    async def _token(self, request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode()))
        scheme, _, proof = request.headers.get("authorization", "").partition(" ")
        if scheme == "Basic":
            form["client_id"], _, form["client_secret"] = base64.b64decode(proof).decode().partition(":")
        try:
            token = self.sessions.granted(form)
        except Refusal as refusal:
            return JSONResponse({"error": refusal.code, "error_description": refusal.body[0]["message"]}, 400)
        url = str(request.base_url).rstrip("/")
        body = {"access_token": token, "instance_url": url, "token_type": "Bearer", "id": f"{url}/id/00D/005"}
        return JSONResponse(body)

    async def _user_info(self, request: Request) -> Response:
        # "The UserInfo Endpoint" (Salesforce Help): who the access token belongs to.
        user = self.sessions.users.get(request.headers.get("authorization", "").removeprefix("Bearer "))
        if user is None:
            return Response("Bad_OAuth_Token", HTTPStatus.FORBIDDEN)
        return JSONResponse({"user_id": user, "organization_id": "00D5gQ000000001AAA"})


class Moves:
    """What `LocalServer.act` can do in the org. `user` is a key of `users` in the state."""

    def __init__(self, vendor: SalesforceOrg) -> None:
        self._vendor = vendor
        self._org = vendor.org
        self._sessions = vendor.sessions

    def create(
        self, *, object_type: str, fields: Mapping[str, Any], user: str = "pat", age: float = 86400
    ) -> Mapping[str, Any]:
        """A person creates a record, `age` seconds ago."""
        at = self._org.now() - timedelta(seconds=age)
        return {"id": self._org.create(OBJECTS[object_type], fields, USERS[user], at, assign=False)}

    def edit(self, *, object_id: str, fields: Mapping[str, Any], user: str = "pat") -> Mapping[str, Any]:
        """A person edits a record, with everything that saving it entails."""
        self._org.update(kind_of(object_id), self._long(object_id), fields, USERS[user], self._org.now(), assign=False)
        return {}

    def delete(self, *, object_id: str) -> Mapping[str, Any]:
        """A person deletes a record."""
        self._org.delete(kind_of(object_id), self._long(object_id), self._org.now())
        return {}

    def undelete(self, *, object_id: str) -> Mapping[str, Any]:
        """A person restores a record from the recycle bin."""
        self._org.undelete(self._long(object_id), self._org.now())
        return {}

    def purge(self) -> Mapping[str, Any]:
        """Somebody empties the recycle bin."""
        self._org.rows = {each: row for each, row in self._org.rows.items() if not row["IsDeleted"]}
        return {}

    def stop_clock(self, *, stopped: bool = True) -> Mapping[str, Any]:
        """The org's time stands still, so that all that follows happens in one second; or it goes on."""
        self._org.stopped_at = self._org.now() if stopped else None
        return {}

    def log_in(self, *, user: str = "integration") -> Mapping[str, Any]:
        """Somebody fetches an access token."""
        return {"access_token": self._sessions.open(user)}

    def tokens(self) -> Mapping[str, Any]:
        """Somebody lists every access token that was ever handed out, to search for them."""
        return {"tokens": self._sessions.issued}

    def credential(self) -> Mapping[str, Any]:
        """The administrator hands out the secrets of the connected app."""
        return {
            "client_id": self._sessions.client_id,
            "client_secret": self._sessions.client_secret,
            "refresh_token": self._sessions.refresh_token,
            "username": self._sessions.username,
            "password": self._sessions.password,
        }

    def expire_sessions(self) -> Mapping[str, Any]:
        """Every access token that was handed out becomes invalid."""
        self._sessions.expire()
        return {}

    def refuse_logins(self, *, refused: bool = True) -> Mapping[str, Any]:
        """The administrator blocks the connected app, or lets it in again."""
        self._sessions.logins_refused = refused
        return {}

    def spend_calls(self, *, left: int) -> Mapping[str, Any]:
        """Another program uses up the org's API requests of the day but for `left`."""
        self._sessions.used = self._sessions.total - left
        return {}

    def lock_row(self, *, object_id: str, times: int = 1) -> Mapping[str, Any]:
        """Another transaction holds the record while it is saved the next `times` times."""
        self._org.locks[self._long(object_id)] = times
        return {}

    def add_validation_rule(self, **facts: Any) -> Mapping[str, Any]:
        """The administrator adds a `ValidationRule`."""
        rule = ValidationRule(**facts)
        self._org.rules.append(rule)
        return asdict(rule)

    def drop_validation_rule(self, *, name: str) -> Mapping[str, Any]:
        """The administrator removes a validation rule."""
        self._org.rules = [rule for rule in self._org.rules if rule.name != name]
        return {}

    def add_flow(self, **facts: Any) -> Mapping[str, Any]:
        """The administrator adds a `Flow`."""
        flow = Flow(**facts)
        self._org.flows.append(flow)
        return asdict(flow)

    def add_assignment_rule(self, *, object_type: str, owner: str) -> Mapping[str, Any]:
        """The administrator makes every save of the object hand the record to `owner`, unless told otherwise."""
        self._org.assignments[object_type] = USERS[owner]
        return {}

    def arrange(self, *, on: str, moves: list[Mapping[str, Any]], nth: int = 1) -> Mapping[str, Any]:
        """Make `moves` just before the server looks at the `nth` request from now that matches `on`."""
        self._vendor.arrange(Fault(kind="answer", on=on, nth=nth), moves)
        return {}

    def _long(self, object_id: str) -> str:
        found = normalised(object_id)
        if found not in self._org.rows:
            raise LookupError(f"there is no record {object_id}")
        return found


def _faulty(request: Request, when: When) -> Answer | None:
    fault = answering(request, when)
    if fault is None:
        return None
    status = HTTPStatus(fault.status)
    code = _FAULT_CODES.get(status, "UNKNOWN_EXCEPTION")
    return Answer(status, [{"message": "An unexpected error occurred.", "errorCode": code}], fault.headers)


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        raise bad("JSON_PARSER_ERROR", "Unexpected character") from None


def _response(answer: Answer, limit_info: str) -> Response:
    headers = {"Sforce-Limit-Info": limit_info, **answer.headers}
    if answer.body is None:
        return Response(status_code=answer.status, headers=headers)
    return JSONResponse(answer.body, answer.status, headers)
