"""Idempotency keys: https://docs.stripe.com/api/idempotent_requests.

The first answer of an executed request is kept under its key, whatever its status, a 500 included. A repeat gets that
answer; a repeat with other parameters, or while the first one still runs, gets an error. What failed validation, was
rate limited or met a running request is not kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from saga_connectors.testing.stripe.failure import Failure


@dataclass(frozen=True)
class Answer:
    """A status and a body, as they go out."""

    status: int
    body: Mapping[str, Any]


class Keys:
    """The idempotency keys of one account."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[str, Answer]] = {}
        self.running: dict[str, str] = {}

    def replay(self, key: str, request: str) -> Answer | None:
        """Return the answer kept under `key`, None if this request is its first.

        Raises:
            Failure: The key belongs to another request, or to one that still runs.
        """
        kept = self.kept.get(key)
        known = self.running.get(key) or (kept and kept[0])
        if known is not None and known != request:
            raise Failure(
                "Keys for idempotent requests can only be used with the same parameters they were first used with. "
                f"Try using a key other than '{key}' if you meant to execute a different request.",
                type="idempotency_error",
            )
        if key in self.running:
            raise Failure(
                "There is currently another in-progress request using this Idempotent Key.",
                code="idempotency_key_in_use",
                status=409,
                type="idempotency_error",
            )
        return kept and kept[1]

    def begin(self, key: str, request: str) -> None:
        """Mark a request as running."""
        self.running[key] = request

    def end(self, key: str, answer: Answer | None) -> None:
        """Keep the answer of an executed request; None if nothing was executed."""
        request = self.running.pop(key)
        if answer is not None:
            self.kept[key] = (request, answer)

    def prune(self) -> None:
        """Forget the kept answers, as Stripe may after 24 hours."""
        self.kept.clear()
