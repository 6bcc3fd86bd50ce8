"""Each fault of a store is found by the scenario that is there for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from saga_core.conformance.store import SCENARIOS, Harness, Scenario

from . import faults
from .harnesses import FileHarness, MemoryHarness, OutageHarness, boot_as_it_is
from .wrapped import Wrapped, WrappedHarness

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from saga_core.stores.store import Backend

    from .outage import Kept


def in_memory(fault: type[Wrapped]) -> Harness:
    return WrappedHarness(MemoryHarness(), fault)


def in_files(fault: type[Wrapped]) -> Harness:
    return WrappedHarness(FileHarness(), fault)


def on_a_bad_day(kept: Kept, fault: type[Wrapped]) -> Harness:
    return WrappedHarness(OutageHarness(kept), fault)


_FAULTS: list[tuple[Harness, str, str]] = [
    (in_memory(faults.LosingBytes), "every kind of record", "as it was written"),
    (in_memory(faults.Cutting), "records of several megabytes", "as it was written"),
    (in_memory(faults.Mixing), "records of sagas written in turn", "only 1 are"),
    (in_memory(faults.StandingStill), "positions grow", "positions should grow"),
    (in_memory(faults.Reordering), "the next owner reads everything", "record 3 should come back"),
    (in_memory(faults.Inventing), "a saga that never was", "should not be read"),
    (in_memory(faults.CreatingAgain), "a saga is created once", "created again"),
    (in_memory(faults.Buffering), "a record is seen by everybody", "the first 2 records"),
    (in_memory(faults.Halving), "a reader beside a writer", "as it was written"),
    (in_memory(faults.HandingOutTwice), "an owned log", "should be handed to nobody"),
    (in_memory(faults.WritingOn), "a log that was given up", "it took one"),
    (in_memory(faults.FreeingTwice), "giving a log up again", "should keep it"),
    (in_memory(faults.LookingFirst), "of many threads that claim", "of 8 that claim a log one should"),
    (faults.LocklessFiles(), "of many processes that claim", "3 did"),
    (faults.BufferingFiles(), "a killed owners log", "only .* are"),
    (in_memory(faults.Spreading), "taking one saga over", "2 records were written; 3"),
    (in_memory(faults.SettlingIntoNowhere), "a settled saga", "does not know it"),
    (in_memory(faults.ListingAsTheyCame), "open sagas come oldest first", "oldest first, should be"),
    (in_memory(faults.LosingParked), "a parked saga", "parked in 'suspended' should be"),
    (in_memory(faults.TidyingAway), "tidying takes nothing away", "should be"),
    (in_memory(faults.Hiding), "a saga that is put from place to place", "at any time"),
    (faults.ErasingWithoutTrace(), "an erased saga", "should have a tombstone"),
    (in_memory(faults.Believing), "what was synced is durable", "nothing was written that it could prove"),
    (in_files(faults.Believing), "what was synced is durable", "was synced; durable is"),
    (in_files(faults.ServingOne), "what many threads sync", "a thread synced"),
    (in_files(faults.AnsweringEarly), "sync later answers once", "it was not"),
    (in_memory(faults.AnsweringBackwards), "sync later answers once", "at place 0 could not be proven|it was not"),
    (in_memory(faults.AnsweringTwice), "sync later answers once", "it answered 2 times"),
    (in_files(faults.AnsweringTheBusy), "sync later answers each", "it was not"),
    (in_memory(faults.Raising), "sync soon", "the store raised StoreError: .*the log was given up"),
    (on_a_bad_day("synced", faults.Forgetting), "what was synced survives a loss of power", "not know it|only"),
    (on_a_bad_day("torn", faults.Forgetting), "what was synced survives a loss of power", "not know it|only"),
    (on_a_bad_day("synced", faults.DroppingJournals), "what was synced survives a loss of power behind", "only 0 are"),
    (faults.LosingMoved("synced"), "what was synced survives wherever", "does not know it"),
    (faults.LosingKeys("synced"), "a key that was taken", "it is None"),
    (in_memory(faults.GivingKeysTwice), "a generation of a key", "should be given once"),
    (in_memory(faults.FoldingKeys), "keys that look alike", "taken for another one"),
    (in_memory(faults.LookingForKeys), "of many threads that take", "should be given once"),
    (faults.KeysOfEachProcess(), "of many processes that take", "3 did"),
]


@pytest.fixture(autouse=True)
def _boot() -> Iterator[None]:
    yield
    boot_as_it_is()


def found(claim: str) -> Scenario:
    return min((one for one in SCENARIOS if one.name.startswith(claim)), key=lambda scenario: len(scenario.name))


@pytest.mark.parametrize(
    ("faulty", "scenario", "words"),
    [
        pytest.param(harness, found(claim), words, id=f"{type(harness).__name__} {harness.name}: {claim}")
        for harness, claim, words in _FAULTS
    ],
)
def test_a_faulty_store_is_found(faulty: Harness, scenario: Scenario, words: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=words):
        scenario.check(faulty, tmp_path)


def test_every_scenario_finds_a_fault() -> None:
    sharp = {found(claim).name for _, claim, _ in _FAULTS}
    assert [scenario.name for scenario in SCENARIOS if scenario.name not in sharp] == []


@pytest.mark.parametrize(
    "scenario", [one for one in SCENARIOS if one.needs <= {"power"}], ids=lambda scenario: scenario.name
)
def test_no_scenario_finds_a_fault_in_what_only_passes_on(scenario: Scenario, tmp_path: Path) -> None:
    scenario.check(WrappedHarness(OutageHarness("synced")), tmp_path)


def test_an_ability_that_a_harness_does_not_have_is_not_passed_over_in_silence(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="memory: does not say that it has the ability processes"):
        found("of many processes that claim").check(MemoryHarness(), tmp_path)


def test_a_store_that_does_not_answer_the_whole_protocol_is_found(tmp_path: Path) -> None:
    class Half:
        url = "half:"

        def close(self) -> None:
            pass

    class HalfHarness(MemoryHarness):
        def open(self, place: Path) -> Backend:  # noqa: ARG002 -- the protocol's parameter
            return Half()  # pyright: ignore[reportReturnType] -- the fault

    with pytest.raises(AssertionError, match="Half should answer all of `Backend`"):
        found("a saga that never was").check(HalfHarness(), tmp_path)
