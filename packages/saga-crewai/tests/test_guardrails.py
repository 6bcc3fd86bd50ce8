"""Tasks whose guardrail trips."""

from typing import Any

import pytest
from crewai import Crew
from crews import World, calls, clerk, task

from saga_crewai import crew_saga
from saga_crewai.testing import ScriptedLLM, Turn


def guarded(turns: list[Turn], guardrail: Any, *, native: bool) -> Any:
    agent = clerk(ScriptedLLM(turns, native=native))
    return Crew(agents=[agent], tasks=[task(agent, guardrail=guardrail, guardrail_max_retries=1)])


def is_good(output: Any) -> tuple[bool, Any]:
    return output.raw == "good", output.raw


def test_a_guardrail_that_trips_for_good_after_two_effects_has_them_undone(world: World, *, native: bool) -> None:
    team = guarded([*calls("ann", "bob"), "bad"], is_good, native=native)
    with pytest.raises(Exception, match="guardrail") as caught, crew_saga("settle"):
        team.kickoff()
    assert world.lines == ["charge ann", "charge bob", "refund bob", "refund ann"]
    assert "2 of 2 effects undone" in "".join(caught.value.__notes__)


def test_a_guardrail_that_trips_once_undoes_nothing(world: World, *, native: bool) -> None:
    team = guarded([*calls("ann"), "bad", *calls("bob"), "good"], is_good, native=native)
    with crew_saga("settle"):
        assert team.kickoff().raw == "good"
    assert world.lines == ["charge ann", "charge bob"]


def test_an_error_of_a_guardrail_comes_out_unchanged_and_all_is_undone(world: World, *, native: bool) -> None:
    error = LookupError("the rules are missing")

    def broken(output: Any) -> tuple[bool, Any]:
        raise error

    team = guarded([*calls("ann"), "good"], broken, native=native)
    with pytest.raises(LookupError) as caught, crew_saga("settle"):
        team.kickoff()
    assert caught.value is error
    assert world.stands == []
