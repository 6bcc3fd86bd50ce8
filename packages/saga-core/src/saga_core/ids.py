"""Names: time-ordered saga ids and deterministic step keys."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_VALUES = {letter: value for value, letter in enumerate(_ALPHABET)}
_LENGTH = 26
_LATEST = "76EZ91ZPZZ"  # the last millisecond of the year 9999, behind which there are no dates


def new_saga_id() -> str:
    """Return a fresh ULID: 26 letters, the first ten of them the time in milliseconds."""
    number = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    return "".join([_ALPHABET[number >> shift & 31] for shift in range(5 * _LENGTH - 5, -1, -5)])


def is_saga_id(text: str) -> bool:
    """Tell whether a text has the form of a saga id."""
    is_ours = not text.strip(_ALPHABET)  # strips from both ends: what is left is foreign
    return len(text) == _LENGTH and text[:10] <= _LATEST and is_ours


def start_date(saga_id: str) -> str:
    """Return the UTC date on which the saga began, as YYYY-MM-DD."""
    milliseconds = 0
    for letter in saga_id[:10]:
        milliseconds = milliseconds << 5 | _VALUES[letter]
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d")


def step_key(saga_id: str, position: str, purpose: str, attempt: int) -> str:
    """Return the idempotency key of one attempt: 32 hex digits, the same in every process."""
    from hashlib import blake2b  # noqa: PLC0415 -- a saga without keyed calls never pays for it

    text = f"{saga_id}\0{position}\0{purpose}\0{attempt}"
    return blake2b(text.encode(), digest_size=16, person=b"saga-step").hexdigest()


def key_digest(key: str) -> str:
    """Return what a store keeps of a saga's key: 32 hex digits from which the key cannot be read."""
    from hashlib import blake2b  # noqa: PLC0415 -- a saga without a key never pays for it

    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16, person=b"saga-key").hexdigest()
