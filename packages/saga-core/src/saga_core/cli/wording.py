"""How states, times and values are put before a person; a state has a word and a shape, never a colour alone."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Any

from saga_core.cli.masking import harmless, mask_value
from saga_core.clock import SYSTEM

_SECOND = 1_000_000_000
_WIDEST = 60

WORDS = {
    "running": "running",
    "suspended": "suspended",
    "committing": "committing",
    "committed": "committed",
    "unwinding": "unwinding",
    "rolled_back": "rolled back",
    "left_in_place": "left in place",
    "needs_human": "needs a person",
    "damaged": "damaged",
    "empty": "empty",
}
"""The states of sagas, and two in which a log can be found: damaged, and without any record."""

_SHAPES = dict(zip(WORDS, "○⏸◑●◐↩◇■✖·", strict=True))
_PLAIN_SHAPES = dict(zip(WORDS, "o=+*~<^!x.", strict=True))


def sign(state: str) -> str:
    """Return a state's shape and word."""
    try:
        _SHAPES[state].encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return f"{_PLAIN_SHAPES[state]} {WORDS[state]}"
    return f"{_SHAPES[state]} {WORDS[state]}"


def moment(at: int) -> str:
    """Return a wall time, nanoseconds since 1970, as UTC with milliseconds."""
    return datetime.fromtimestamp(at / _SECOND, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def when(at: int, *, utc: bool) -> str:
    """Return a wall time as people say it, `2 m ago`, or as UTC."""
    return moment(at) if utc else f"{age(SYSTEM.wall() - at)} ago"


def age(nanoseconds: int) -> str:
    """Return a duration in its largest unit."""
    seconds = max(nanoseconds, 0) // _SECOND
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def latency(nanoseconds: int) -> str:
    """Return how long a call took."""
    if nanoseconds < _SECOND:
        return f"{max(nanoseconds, 0) / 1_000_000:.1f} ms"
    return f"{nanoseconds / _SECOND:.1f} s" if nanoseconds < 120 * _SECOND else age(nanoseconds)


def brief(value: Any, name: str = "") -> str:
    """Return a recorded value, masked, if it is short; else what it is and how much of it there is."""
    masked = mask_value(value, name)
    text = harmless(json.dumps(masked, ensure_ascii=False))
    if len(text) <= _WIDEST:
        return text
    if isinstance(value, str):
        return f"<text, {len(value)} letters>"
    if isinstance(value, dict):
        return f"<{len(value)} fields>"  # pyright: ignore[reportUnknownArgumentType]
    return f"<{len(value)} items>" if isinstance(value, list) else f"<a long {type(value).__name__}>"  # pyright: ignore[reportUnknownArgumentType]


def print_json(value: Any) -> None:
    """Print one JSON document."""
    print(json.dumps(value, ensure_ascii=False, indent=2))
