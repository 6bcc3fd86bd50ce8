"""Durations as they are typed: seconds, or a number with m, h or d."""

from __future__ import annotations

from argparse import ArgumentTypeError
from datetime import timedelta

_UNITS = {"m": 60, "h": 3_600, "d": 86_400}


def span(text: str) -> timedelta:
    """Return a duration that was typed, for argparse."""
    unit = _UNITS.get(text[-1:], 1)
    try:
        found = timedelta(seconds=float(text if unit == 1 else text[:-1]) * unit)
    except (ValueError, OverflowError):
        found = timedelta(-1)
    if found < timedelta():
        raise ArgumentTypeError(f"{text!r} is not a number of seconds")
    return found
