"""`crew_saga` as a block: where it may stand, and what it leaves."""

import asyncio
import contextvars
from collections.abc import Generator
from typing import Any

import pytest
from crewai.flow.flow import Flow, listen, start
from crewai.hooks.dispatch import InterceptionPoint, get_scoped_hooks
from crews import World, calls, charge, crew

from saga_core import Saga, current_saga, saga_scope
from saga_core.errors import SagaBusy, ScopeMisuse
from saga_crewai import crew_saga


def test_a_plain_with_on_a_loops_thread_is_refused_with_the_way_out() -> None:
    async def main() -> None:
        with pytest.raises(ScopeMisuse, match="async with"), crew_saga():
            raise AssertionError("it opened")

    asyncio.run(main())


def test_a_scope_is_good_for_one_block(world: World) -> None:
    scope = crew_saga()
    with scope:
        pass
    with pytest.raises(ScopeMisuse, match="one block"), scope:
        raise AssertionError("it opened again")


def test_a_scope_inside_another_takes_no_key(world: World) -> None:
    with saga_scope(), pytest.raises(ScopeMisuse, match="savepoint"), crew_saga(key="order-7"):
        raise AssertionError("it opened")


def test_a_first_try_in_a_scope_of_its_own_is_undone_alone(world: World) -> None:
    error = ConnectionError("the model is down")
    first, _ = crew([*calls("ann"), error])
    second, _ = crew([*calls("bob"), "done"])
    with crew_saga("settle") as saga:
        with pytest.raises(ConnectionError), crew_saga("first try"):
            first.kickoff()
        second.kickoff()
    assert world.lines == ["charge ann", "refund ann", "charge bob"]
    assert saga.report.is_clean


def test_a_run_under_a_key_goes_on_where_it_was_suspended(world: World) -> None:
    for customers in (("ann",), ("ann", "bob")):
        team, model = crew([*calls(*customers), "done"])
        with crew_saga("settle", key="order-7") as saga:
            team.kickoff()
            if customers == ("ann",):
                saga.suspend("the rest comes tomorrow")
    assert world.lines == ["charge ann", "charge bob"]
    assert model.seen == ["charged ann", "charged bob"]


def test_two_runs_under_one_key_are_not_made_at_once(world: World) -> None:
    def beside() -> None:
        with pytest.raises(SagaBusy), crew_saga(key="order-7"):
            raise AssertionError("it opened")

    with crew_saga(key="order-7"):
        contextvars.Context().run(beside)


def test_a_flow_and_the_crews_in_it_are_one_saga(world: World) -> None:
    error = ValueError("the mail server is down")

    class Fulfil(Flow[dict[str, Any]]):
        suppress_flow_events = True

        @start()
        def pay(self) -> Any:
            team, _ = crew([*calls("ann"), "done"])
            return team.kickoff().raw

        @listen(pay)
        def ship(self) -> Any:
            return charge("bob")

        @listen(ship)
        def notify(self) -> None:
            raise error

    flow: Any = Fulfil()
    with pytest.raises(ValueError, match="mail server") as caught, crew_saga("fulfil"):
        flow.kickoff()
    assert caught.value is error
    assert world.lines == ["charge ann", "charge bob", "refund bob", "refund ann"]


def test_a_crew_for_each_input_is_one_saga(world: World) -> None:
    team, _ = crew([*calls("ann"), "done", *calls("bob"), "done"])
    with pytest.raises(ZeroDivisionError), crew_saga("settle"):
        team.kickoff_for_each([{"order": 1}, {"order": 2}])
        _ = 1 / 0
    assert world.lines == ["charge ann", "charge bob", "refund bob", "refund ann"]


def test_a_scope_that_is_left_in_another_context_stops_no_later_crew(world: World) -> None:
    def opened() -> Generator[Saga, None, None]:
        with crew_saga("settle") as saga:
            yield saga

    entering, leaving = contextvars.Context(), contextvars.Context()
    scopes = opened()
    entering.run(next, scopes)
    team, _ = crew([*calls("ann"), "done"])
    entering.run(team.kickoff)
    leaving.run(scopes.close)
    later, model = crew([*calls("bob"), "done"])
    assert entering.run(later.kickoff).raw == "done"
    assert entering.run(get_scoped_hooks, InterceptionPoint.PRE_MODEL_CALL) == []
    assert len(model.asked) == 2
    assert world.lines == ["charge ann", "refund ann"]


def test_nothing_is_ambient_after_the_block(world: World) -> None:
    with crew_saga() as saga:
        inside = current_saga()
        assert inside is not None
        assert inside.id == saga.id
    assert current_saga() is None
