"""What can go wrong with Stripe; each error says whether money moved."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import stripe

from saga_core import SagaError

_UNTOUCHED = "no money was moved by this call"


class NothingCharged(SagaError):
    """The call ended before money moved, and it never will. Every error below but `AnswerLost` is one of these."""

    code = "SG610"

    def __init__(self, message: str, *, world: str = _UNTOUCHED, **more: Any) -> None:
        super().__init__(message, world=world, **more)


class ChargeDeclined(NothingCharged):
    """The card or its bank said no.

    Attributes:
        reason: Stripe's decline code (`insufficient_funds`, `authentication_required`, ...).
    """

    code = "SG611"
    reason: str = ""


class RequestRefused(NothingCharged):
    """Stripe refused the request, or the key, before executing anything.

    Attributes:
        reason: Stripe's error code, or the kind of the error where it has none.
    """

    code = "SG612"
    reason: str = ""


class ChargeCanceled(NothingCharged):
    """Whether the payment was confirmed was unclear, so it was canceled: no money can move any more."""

    code = "SG613"


class NotChargeable(NothingCharged):
    """The customer has no default payment method, is deleted, or no currency is known: nothing was sent."""

    code = "SG614"


class StripeUnavailable(NothingCharged):
    """Stripe could not be read from, and nothing was asked of it but that.

    Attributes:
        retry_after: The seconds that Stripe asks to wait.
    """

    code = "SG615"
    retry_after: float | None = None


class AnswerLost(SagaError):
    """Stripe's answer did not come, or was an error of its own: what was asked may have happened.

    Attributes:
        retry_after: The seconds that Stripe asks to wait.
    """

    code = "SG616"
    retry_after: float | None = None


def reason_of(error: stripe.StripeError) -> str:
    """Return Stripe's own word for an error: its decline code, its code, or the error's kind."""
    details: Any = error.error
    found = (getattr(details, "decline_code", None), getattr(details, "code", None), error.code)
    # A word is all that may leave: messages and bodies quote arguments, and client secrets.
    return next(
        (word for word in found if isinstance(word, str) and re.fullmatch(r"[a-z0-9_]{1,64}", word)),
        type(error).__name__,
    )


def is_replay(error: stripe.StripeError) -> bool:
    """Tell whether Stripe repeated what it had answered to this key before, and executed nothing now."""
    return (error.headers or {}).get("idempotent-replayed") == "true"


@contextmanager
def told(doing: str, *, lost: str | None = None) -> Generator[None]:
    """Raise the package's errors in the words of this one.

    Args:
        doing: What is asked, to continue "Stripe did not ...".
        lost: What may have happened to the world if no answer comes; None if only reading was asked for.
    """
    try:
        yield
    except stripe.StripeError as error:
        raise mapped(error, doing, lost) from error


def mapped(error: stripe.StripeError, doing: str, lost: str | None) -> SagaError:
    """Return our error for one of the package's."""
    reason = reason_of(error)
    request = f", request {error.request_id}" if error.request_id else ""
    if isinstance(error, stripe.CardError):
        declined = ChargeDeclined(
            f"Stripe did not {doing}: declined ({reason}{request})",
            next="ask for another payment method",
        )
        declined.reason = reason
        return declined
    if isinstance(error, (stripe.AuthenticationError, stripe.PermissionError)):
        next_ = "check the key that the credential reference stands for, and what it may do"
    elif isinstance(error, stripe.InvalidRequestError):
        next_ = "correct the call; the cause in the traceback has Stripe's own words"
    else:
        message = f"Stripe did not {doing}: {type(error).__name__} ({reason}{request})"
        gone = (
            StripeUnavailable(message, next="try again later")
            if lost is None
            else AnswerLost(message, world=lost, next="nothing to do: it is settled by asking Stripe")
        )
        gone.retry_after = _retry_after(error)
        return gone
    refused = RequestRefused(f"Stripe refused to {doing}: {reason}{request}", next=next_)
    refused.reason = reason
    return refused


def _retry_after(error: stripe.StripeError) -> float | None:
    asked = (error.headers or {}).get("retry-after", "")
    return float(asked) if asked.isdecimal() else None
