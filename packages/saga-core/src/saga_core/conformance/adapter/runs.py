"""Scenarios of runs that come to their own end: an answer, or the model's error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saga_core import codec
from saga_core.conformance.adapter.actions import charge, flaky, reserve, wire
from saga_core.conformance.adapter.scenario import ModelFailed, call
from saga_core.conformance.expectation import expect
from saga_core.records import EMPTY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saga_core.conformance.adapter.scenario import Stage

_TOOLS = (charge, reserve, flaky, wire)


def a_run_that_answers_keeps_its_effects(stage: Stage) -> None:
    """Two effects and an answer: both stand, the saga is committed, the model saw both results."""
    played = stage.play([[call(charge, "a", amount=5)], [call(reserve, "b")], "all done"], _TOOLS)
    stage.stand("a", "b")
    stage.are_undone()
    stage.ended("committed")
    expect("all done" in played.answer, f"the run should answer what the model said; it answered {played.answer!r}")
    _expect_results(stage, played.seen)


def a_run_that_fails_is_undone_newest_first(stage: Stage) -> None:
    """Two effects and the model's error: nothing stands, and the error comes out as it was."""
    stage.fail([[call(charge, "a", amount=5)], [call(reserve, "b")], ModelFailed("no answer")], _TOOLS)
    stage.have_landed("a", "b")
    stage.stand()
    stage.are_undone("b", "a")
    stage.ended("rolled_back")


def a_tool_error_that_the_model_repairs_undoes_nothing(stage: Stage) -> None:
    """A tool fails, the model reads why and calls again."""
    turns = [[call(charge, "a", amount=5)], [call(flaky, "b")], [call(flaky, "b")], "all done"]
    played = stage.play(turns, _TOOLS)
    stage.stand("a", "b")
    stage.are_undone()
    stage.ended("committed")
    expect(
        any("stock is being counted" in text for text in played.seen),
        f"the model should be told why the tool failed; it was shown {list(played.seen)}",
    )


def a_refused_call_has_no_effect_and_its_reason_reaches_the_model(stage: Stage) -> None:
    """An irreversible call that nobody approved: the run goes on, and keeps the rest."""
    turns = [[call(charge, "a", amount=5)], [call(wire, "b")], "all done"]
    played = stage.play(turns, _TOOLS)
    stage.have_landed("a")
    stage.stand("a")
    stage.ended("committed")
    shown = [text for text in played.seen if "refused" in text and "irreversible" in text]
    expect(shown, f"the model should be told that the call was refused, and why; it was shown {list(played.seen)}")


def calls_of_one_turn_are_undone_in_reverse_order_of_their_outcomes(stage: Stage) -> None:
    """Three calls at once, then the model's error."""
    turn = [call(charge, "a", amount=5), call(reserve, "b"), call(charge, "c", amount=7)]
    stage.fail([turn, ModelFailed("no answer")], _TOOLS)
    expect(sorted(stage.ledger.landed) == ["a", "b", "c"], f"three should have landed: {stage.ledger.landed}")
    stage.stand()
    steps = sorted(stage.sagas()[0].steps.values(), key=lambda step: step.order, reverse=True)
    order = [codec.thaw(step.result or EMPTY)["item"] for step in steps]
    stage.are_undone(*order)
    stage.ended("rolled_back")


def equal_calls_are_effects_of_their_own(stage: Stage) -> None:
    """The model asks for the same twice: it gets it twice."""
    stage.play([[call(reserve, "a")], [call(reserve, "a")], "all done"], _TOOLS)
    stage.stand("a", "a")
    stage.ended("committed")


def a_failed_run_leaves_alone_what_an_earlier_one_kept(stage: Stage) -> None:
    """One run answers, the next one fails: each has a saga of its own."""
    stage.play([[call(charge, "a", amount=5)], "all done"], _TOOLS)
    stage.fail([[call(charge, "b", amount=5)], ModelFailed("no answer")], _TOOLS)
    stage.have_landed("a", "b")
    stage.stand("a")
    stage.are_undone("b")
    stage.ended("committed", "rolled_back")


def _expect_results(stage: Stage, seen: Sequence[str]) -> None:
    effects = [line["effect"] for line in stage.ledger.lines("land")]
    are_shown = len(seen) == len(effects) and all(effect in text for effect, text in zip(effects, seen, strict=True))
    expect(are_shown, f"the model should be shown the results of {effects}, in order; it was shown {list(seen)}")
