"""Which seeds are run, and what is said of one that fails."""

from __future__ import annotations

import os

from .run import Run

ASKED = os.environ.get("SAGA_SEEDS", "")
"""`17` repeats one seed and prints its trace; `0-1000000` is a campaign."""

ORDINARY = range(10_000)
BATCH = 500


def seeds() -> range:
    """Return the seeds to run."""
    if not ASKED:
        return ORDINARY
    first, _, last = ASKED.partition("-")
    return range(int(first), int(last or first) + 1)


def batches() -> list[range]:
    """Return the seeds in parts, each of them a test."""
    chosen = seeds()
    return [chosen[start : start + BATCH] for start in range(0, len(chosen), BATCH)]


def first_failure(chosen: range) -> str | None:
    """Return what the first seed that fails says, with its trace; None if all hold."""
    for seed in chosen:
        run = Run(seed)
        wrong = run.play()
        if len(chosen) == 1 and not wrong:
            print("\n".join(run.told))  # noqa: T201 -- asked for by its seed
        if wrong:
            lines = [f"seed {seed}: {'; '.join(wrong)}", f"repeat it: SAGA_SEEDS={seed}", str(run.program), *run.told]
            return "\n".join(lines)
    return None
