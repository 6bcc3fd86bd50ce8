"""Each fault of an adapter is found by the scenario that is there for it."""

from pathlib import Path

import pytest

from saga_core.conformance.adapter import SCENARIOS, Form, Scenario

from . import controls
from .reference import Reference

_BOTH: tuple[Form, ...] = ("sync", "async")

_FAULTS: list[tuple[type[Reference], str, tuple[Form, ...], str]] = [
    (controls.WithoutBody, "a run that answers keeps its effects", _BOTH, "should stand in the world"),
    (controls.WithoutDrain, "a thread that lands after its run timed out is undone", ("async",), "undone last"),
    (controls.EndingAside, "a thread that lands after its run timed out is undone", ("async",), "still worked"),
    (controls.CommittingFailures, "a run that fails is undone newest first", _BOTH, "one note"),
    (controls.CommittingBreaks, "an effect that is cancelled before its answer is undone", ("async",), "stand"),
    (controls.CommittingBreaks, "calls of one turn are all undone when the run is cancelled", ("async",), "stand"),
    (controls.CommittingBreaks, "a stream that is broken off is undone", ("stream",), "stand"),
    (controls.GoingOn, "a stream that is broken off is undone", ("stream",), "stand"),
    (controls.SwallowingErrors, "a run that fails is undone newest first", _BOTH, "the run answered"),
    (controls.SwallowingErrors, "an effect that is cancelled before its answer", ("async",), "CancelledError should"),
    (controls.ReplacingErrors, "a run that fails is undone newest first", _BOTH, "the very object"),
    (controls.WithoutNote, "a run that fails is undone newest first", _BOTH, "one note"),
    (controls.HidingReasons, "a refused call has no effect", _BOTH, "refused, and why"),
    (controls.UndoingAtToolErrors, "a tool error that the model repairs", _BOTH, "should stand"),
    (controls.OldestFirst, "a run that fails is undone newest first", _BOTH, "in this order"),
    (controls.OldestFirst, "calls of one turn are undone in reverse order", _BOTH, "in this order"),
    (controls.UndoingTwice, "a run that fails is undone newest first", _BOTH, "undone under two keys"),
    (controls.ForgettingTheScope, "a run that answered is undone when the scope", _BOTH, "stand"),
    (controls.ForgettingTheScope, "a run that answered is kept with the scope", _BOTH, "should be the scope's"),
    (controls.UndoingTheWholeScope, "a failed run undoes its own part of the scope", _BOTH, "before. should stand"),
    (controls.Forgetful, "a run killed before its second effect", ("sync",), "should stand in the world"),
    (controls.Forgetful, "a run killed after its second effect", ("async",), "should stand in the world"),
    (controls.NamingAllCallsAlike, "equal calls are effects of their own", _BOTH, "should stand"),
    (controls.OneSagaForAll, "a failed run leaves alone what an earlier one kept", _BOTH, "should|very object"),
]


def found(claim: str, form: Form) -> Scenario:
    (scenario,) = [one for one in SCENARIOS if one.name.startswith(claim) and one.form == form]
    return scenario


@pytest.mark.parametrize(
    ("faulty", "scenario", "words"),
    [
        pytest.param(kind, found(claim, form), words, id=f"{kind.__name__}, {form}: {claim}")
        for kind, claim, forms, words in _FAULTS
        for form in forms
    ],
)
def test_a_faulty_adapter_is_found(faulty: type[Reference], scenario: Scenario, words: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=words):
        scenario.check(faulty(), tmp_path)


def test_every_scenario_finds_a_fault() -> None:
    sharp = {found(claim, form).name for _, claim, forms, _ in _FAULTS for form in forms}
    assert [scenario.name for scenario in SCENARIOS if scenario.name not in sharp] == []


def test_a_form_that_a_harness_does_not_have_is_not_passed_over_in_silence(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="does not say that it plays the form 'stream'"):
        found("a stream that is broken off", "stream").check(controls.WithoutStreams(), tmp_path)
