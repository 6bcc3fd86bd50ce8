"""How a crew can fail, and that the world is then where it was."""

import asyncio
from typing import Any

import pytest
from crews import World, calls, crew

from saga_crewai import crew_saga


def test_a_crew_that_ends_well_keeps_what_it_did(world: World, *, native: bool) -> None:
    team, model = crew([*calls("ann", "bob"), "done"], native=native)
    with crew_saga("settle") as saga:
        assert team.kickoff().raw == "done"
    assert world.lines == ["charge ann", "charge bob"]
    assert saga.report.is_clean
    assert model.seen == ["charged ann", "charged bob"]


def test_a_model_that_fails_after_two_effects_has_them_undone(world: World, *, native: bool) -> None:
    error = ConnectionError("the model is down")
    team, _ = crew([*calls("ann", "bob"), error], native=native)
    with pytest.raises(ConnectionError) as caught, crew_saga("settle"):
        team.kickoff()
    assert caught.value is error
    assert "2 of 2 effects undone" in "".join(error.__notes__)
    assert world.lines == ["charge ann", "charge bob", "refund bob", "refund ann"]


@pytest.mark.parametrize("how", ["kickoff_async", "akickoff"])
def test_an_asynchronous_crew_that_fails_has_its_effects_undone(world: World, *, native: bool, how: str) -> None:
    error = ConnectionError("the model is down")
    team, _ = crew([*calls("ann", "bob"), error], native=native)

    async def main() -> Any:
        async with crew_saga("settle"):
            await getattr(team, how)()

    with pytest.raises(ConnectionError) as caught:
        asyncio.run(main())
    assert caught.value is error
    assert world.stands == []


def test_a_tool_error_that_the_model_repairs_rolls_nothing_back(world: World, *, native: bool) -> None:
    team, model = crew([*calls("ann", amount=7), *calls("ann"), "done"], native=native)
    with crew_saga("settle"):
        team.kickoff()
    assert world.lines == ["charge ann"]
    assert model.seen == ["the card was declined. It had no effect. (code: tool_failed)", "charged ann"]
