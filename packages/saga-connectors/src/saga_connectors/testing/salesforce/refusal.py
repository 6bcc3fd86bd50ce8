"""How the vendor says no."""

from http import HTTPStatus
from typing import Any


class Refusal(Exception):
    """A request that is answered with an error; nothing of it was carried out.

    "Status Codes and Error Responses" (REST API Developer Guide): the body is a list of objects with `message`,
    `errorCode` and, where a field is to blame, `fields`.
    """

    def __init__(self, status: HTTPStatus, code: str, message: str, fields: list[str] | None = None) -> None:
        super().__init__(code)
        self.status = status
        self.code = code
        self.body: list[dict[str, Any]] = [{"message": message, "errorCode": code}]
        if fields is not None:
            self.body[0]["fields"] = fields


def bad(code: str, message: str, *fields: str) -> Refusal:
    """Return the refusal of a request that says something impossible."""
    return Refusal(HTTPStatus.BAD_REQUEST, code, message, list(fields))


def missing() -> Refusal:
    """Return the refusal of a request for something that does not exist."""
    return Refusal(HTTPStatus.NOT_FOUND, "NOT_FOUND", "The requested resource does not exist")
