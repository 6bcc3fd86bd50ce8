"""Where a step's time goes, by looking often at what runs: nothing in the engine has to know of it."""

from __future__ import annotations

import signal
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import FrameType

EVERY = 0.0005
"""Seconds between two looks."""

PHASES = {
    "stores": "the log: frames and writes",
    "frame": "the log: frames and writes",
    "records": "the log: frames and writes",
    "fold": "the state",
    "view": "the state",
    "gate": "the gate",
    "engine.judge": "the gate",
    "codec": "freezing and checking values",
    "signature": "freezing and checking values",
    "engine.invocation": "freezing and checking values",
    "declaration": "deriving the undo",
    "inverse": "deriving the undo",
    "engine.landing": "deriving the undo",
    "engine.context": "the effect, its context and its outcome",
    "engine.effect": "the effect, its context and its outcome",
    "engine.io": "the effect, its context and its outcome",
    "engine": "the step's course",
}
"""Modules of saga_core by what they do for a step; the longest name that fits counts."""

_OURS = "saga_core."
_HERE = "benchmarks."


def phase_of(module: str) -> str | None:
    """Return the phase that a module belongs to, None for one that is neither ours nor the benchmark's."""
    if module.startswith(_HERE):
        return "the caller and the tool"
    if not module.startswith(_OURS):
        return None
    name = module.removeprefix(_OURS)
    while name:
        if name in PHASES:
            return PHASES[name]
        name = name.rpartition(".")[0]
    return module


@contextmanager
def looking(seen: Counter[str]) -> Generator[None]:
    """Count, while the block runs on the main thread, in which phase it is found; a call of C counts as its caller.

    An alarm that somebody else has set waits for the block's end.
    """

    def look(_: int, frame: FrameType | None) -> None:
        while frame is not None:
            phase = phase_of(frame.f_globals.get("__name__", ""))
            if phase is not None:
                seen[phase] += 1
                return
            frame = frame.f_back

    before = signal.signal(signal.SIGALRM, look)
    others = signal.setitimer(signal.ITIMER_REAL, EVERY, EVERY)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *others)


def lines(seen: Counter[str], step_us: float) -> list[str]:
    """Return a line per phase: its share, and its part of a step's microseconds."""
    total = max(1, seen.total())
    return [f"  {count / total:5.1%}  {count / total * step_us:7.2f} us  {name}" for name, count in seen.most_common()]
