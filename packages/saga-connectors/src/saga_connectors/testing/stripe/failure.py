"""The errors that the local Stripe answers, in Stripe's own words and codes."""

import inspect
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from stripe import PaymentIntent


class Failure(Exception):
    """An error answer. `is_validation` ones come before anything was executed, so no key remembers them."""

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        status: int = 400,
        type: str = "invalid_request_error",  # noqa: A002 - Stripe's word
        is_validation: bool = False,
        **more: Any,
    ) -> None:
        super().__init__(message)
        if code is not None and code not in known_codes():
            raise AssertionError(f"the installed stripe package knows no error code {code!r}")
        self.status = status
        self.is_validation = is_validation
        self.body: Mapping[str, Any] = {
            "error": {"message": message, "type": type}
            | {name: value for name, value in {"code": code, "param": param, **more}.items() if value is not None}
        }


def missing(kind: str, ref: str, *, param: str = "id", status: int = 404) -> Failure:
    """Return the error for a reference that leads nowhere."""
    return Failure(f"No such {kind}: '{ref}'", code="resource_missing", param=param, status=status)


@cache
def known_codes() -> frozenset[str]:
    """Return every error code that the installed package documents for a payment."""
    source = inspect.getsource(PaymentIntent.LastPaymentError)
    codes = re.search(r"\n    +code: Optional\[(.*?)\n    +\"\"\"", source, re.DOTALL)
    if codes is None:
        raise AssertionError("the installed stripe package lists its error codes elsewhere")
    return frozenset(re.findall(r'"([a-z0-9_]+)"', codes[1]))
