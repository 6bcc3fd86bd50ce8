"""Two processes at once, at every point at which one can overtake the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .exploration import Explorer
from .programs import Play, Program
from .races import RACES, calls_of, race_program
from .stage import stage

if TYPE_CHECKING:
    from collections.abc import Callable

FEWEST = {"settled_meanwhile": 20, "parked_meanwhile": 20, "two_recoverers": 40, "two_tidiers": 10, "two_openers": 20}
"""How many calls the first process makes at least: a race with none proves nothing."""


class RaceExplorer(Explorer):
    """Finds a race by its name."""

    def program_of(self, name: str) -> Program:
        return race_program(name)

    def count(self, kind: str) -> int:
        """Return how many calls the first process of a race makes."""
        counted: list[int] = []

        def act(play: Play) -> None:
            counted.append(calls_of(play, kind))

        self.run(Program(kind, act))
        return counted[0]


def one_race(kind: str) -> tuple[int, Explorer]:
    """Run a race with the second process at each call of the first, and judge what comes of it."""
    with stage() as on:
        explorer = RaceExplorer(on)
        calls = explorer.count(kind)
        for number in range(calls):
            explorer.crash(race_program(f"race-{kind}-{number}"), 2, step=4)
        return calls, explorer


@pytest.mark.parametrize("kind", RACES)
def test_no_order_of_two_processes_breaks_a_promise(kind: str, tally: Callable[[str, int], None]) -> None:
    calls, explorer = one_race(kind)
    tally("states of races", explorer.total)
    assert calls >= FEWEST[kind]
    assert explorer.total >= calls * 10
