"""The engine, its recovery and a fake remote in thousands of worlds of virtual time, each decided by its seed.

`SAGA_SEEDS=17 uv run pytest packages/saga-core/tests/simulation -k kept_undone -s` repeats a seed and prints its trace;
`SAGA_SEEDS=0-1000000` with `--timeout 0` is a campaign of about an hour.
"""

from __future__ import annotations

import pytest

from .run import Run
from .seeds import batches, first_failure


@pytest.mark.parametrize("chosen", batches(), ids=lambda chosen: f"{chosen[0]}-{chosen[-1]}")
def test_whatever_dies_stops_or_is_lost_each_effect_is_kept_undone_once_or_told(chosen: range) -> None:
    failure = first_failure(chosen)
    assert failure is None, failure


@pytest.mark.parametrize("seed", [5, 23, 1009])
def test_a_seed_decides_everything(seed: int) -> None:
    first, second = Run(seed), Run(seed)
    assert first.play() == second.play()
    assert len(first.told) > 3
    assert first.told == second.told


def test_the_worlds_are_eventful() -> None:
    """A campaign in which nothing is lost, killed or undone would prove nothing."""
    lines = "\n".join(line for seed in range(1000) for line in _told(seed))
    for event in (
        "killed in front of",
        "killed from outside",
        "power lost",
        "cancelled",
        "(late)",
        "network: drops",
        "(twice)",
        "the disk fails",
        "writes Adopted",
        "writes Resent",
        "writes Held",
        "writes Released",
        "writes CaseOpened",
        "writes Committed",
        "writes RolledBack",
        "writes Suspended",
    ):
        assert event in lines, f"no world of the first 1000 has: {event}"


def _told(seed: int) -> list[str]:
    run = Run(seed)
    run.play()
    return run.told
