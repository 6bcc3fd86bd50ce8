"""Time as the engine sees it: wall time for people, boot time for waits."""

from __future__ import annotations

import random
import time
from datetime import timedelta
from typing import Protocol

LONGEST = timedelta(days=36_500)
"""What "for ever" means: longer durations are held to it."""

SECOND = 1_000_000_000
"""Nanoseconds."""


def seconds(duration: timedelta) -> float:
    """Return a duration in seconds, at most a hundred years, so that every clock and wait can hold it."""
    return min(duration, LONGEST).total_seconds()


def nanoseconds(duration: timedelta) -> int:
    """Return a duration in nanoseconds, at most a hundred years."""
    return int(seconds(duration) * SECOND)


class Clock(Protocol):
    """Where time comes from; a test replaces it."""

    def wall(self) -> int:
        """Return nanoseconds since 1970, for people and for deadlines that vendors set."""
        ...

    def up(self) -> int:
        """Return nanoseconds since boot, sleep included: what waits are measured by."""
        ...

    def jitter(self) -> float:
        """Return a factor from 0.5 to 1.5 that spreads retries."""
        ...


class SystemClock:
    """The machine's own clocks."""

    wall = staticmethod(time.time_ns)

    if hasattr(time, "CLOCK_BOOTTIME"):

        def up(self) -> int:
            return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    else:

        def up(self) -> int:
            return time.monotonic_ns()

    def jitter(self) -> float:
        return random.uniform(0.5, 1.5)  # noqa: S311 -- spreads load, guards nothing


SYSTEM = SystemClock()
