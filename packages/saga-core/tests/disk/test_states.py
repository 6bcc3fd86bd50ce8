"""The file store on the simulated disk: no crash, fault or order of what reaches the platter breaks a promise.

A failure ends with its case, which is played alone by `SAGA_DISK_CASE='<case>' pytest <this file>`. Random programs are
played until `SAGA_DISK_STATES` states are judged, from the seed `SAGA_DISK_SEED` on:

    SAGA_DISK_STATES=1000000 uv run pytest packages/saga-core/tests/disk/test_states.py -k random
"""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

import pytest

from saga_core.stores.encryption import Encryption

from .exploration import Effort, Explorer, case_of
from .programs import PROGRAMS, Program, random_program
from .races import race_program
from .stage import stage
from .trade import TRADES, TradeExplorer, program_of

if TYPE_CHECKING:
    from collections.abc import Callable

    Tally = Callable[[str, int], None]

CASE = os.environ.get("SAGA_DISK_CASE", "")
SEED = int(os.environ.get("SAGA_DISK_SEED", "0"))
STATES = int(os.environ.get("SAGA_DISK_STATES", "2000"))

EFFORT = Effort(crash=6, faulty=1, nested=6, nested_each=8)
TRADE_EFFORT = Effort(crash=6, faulty=1, nested=3, nested_each=6)


class AnyExplorer(Explorer):
    """Knows every program by its name."""

    def program_of(self, name: str) -> Program:
        return race_program(name) if name.startswith("race-") else super().program_of(name)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_no_crash_and_no_fault_breaks_a_promise_of_the_store(program: Program, tally: Tally) -> None:
    """Every call crashed and failed; what comes back is read, taken over, ended, and crashed again meanwhile."""
    with stage() as on:
        explorer = Explorer(on, SEED)
        explorer.explore(program, EFFORT)
        calls = explorer.calls
    tally("states of the store", explorer.total)
    assert explorer.counts["power"] >= 2 * calls["changing"]
    assert explorer.counts["kill"] >= 2 * calls["changing"]
    assert explorer.counts["eio"] >= calls["all"]
    assert explorer.counts["again"] == EFFORT.nested * EFFORT.nested_each
    assert explorer.total > 1000


@pytest.mark.parametrize("name", ["long_records", "taken_over"])
def test_no_crash_and_no_fault_breaks_a_promise_of_an_encrypted_store(name: str, tally: Tally) -> None:
    """The tags of the records are chained over every take-over and every torn end."""
    with stage() as on:
        on.encryption = Encryption("key-1", lambda _: bytes(32))
        explorer = Explorer(on, SEED)
        explorer.explore(explorer.program_of(name), Effort(crash=4, faulty=1, nested=3, nested_each=6))
    tally("states of encrypted stores", explorer.total)
    assert explorer.total > 800


@pytest.mark.parametrize("name", TRADES)
def test_no_crash_and_no_fault_breaks_a_guarantee_of_the_engine(name: str, tally: Tally) -> None:
    """The ledger is compared with the logs after recovery: G1 to G5."""
    with stage() as on:
        explorer = TradeExplorer(on, SEED)
        explorer.explore(program_of(f"trade-{name}"), TRADE_EFFORT)
    tally("states of the engine", explorer.total)
    assert explorer.counts["power"] >= 100
    assert explorer.counts["kill"] >= 100
    assert explorer.counts["again"] > 0
    assert explorer.total > 500


@pytest.mark.timeout(120 + STATES / 50)
def test_no_random_program_breaks_a_promise_of_the_store(tally: Tally) -> None:
    total = 0
    for seed in itertools.count(SEED):
        with stage(seed) as on:
            explorer = Explorer(on, seed)
            explorer.explore(random_program(seed), EFFORT)
        total += explorer.total
        if total >= STATES:
            break
    tally("states of random programs", total)


if CASE:

    def test_the_case_that_the_environment_names() -> None:
        with stage(SEED) as on:
            kind = TradeExplorer if CASE.startswith("trade-") else AnyExplorer
            kind(on).replay(case_of(CASE))
