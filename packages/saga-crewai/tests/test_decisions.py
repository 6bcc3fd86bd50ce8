"""A run that was decided to be undone: nothing goes on, and CrewAI cannot make a success of it."""

import threading
from pathlib import Path
from typing import Any

import pytest
from crewai import Crew
from crewai.hooks.dispatch import HookAborted, InterceptionPoint, get_hooks, get_scoped_hooks, scoped_hooks
from crewai.tools.tool_failure import ToolExecutionFailedError
from crews import World, calls, charge, clerk, crew, give_up, send_wire, task, write

from saga_core import Call, Compensation, compensable, inverse
from saga_crewai import crew_saga
from saga_crewai.errors import SagaFailed
from saga_crewai.testing import ScriptedLLM, Turn

GIVE_UP: list[Turn] = [[("give_up", {"why": "the stock is empty"})]]


def no_hooks() -> bool:
    return not any(get_hooks(point) or get_scoped_hooks(point) for point in InterceptionPoint)


def test_a_tool_that_rolls_back_stops_the_crew(world: World, *, native: bool) -> None:
    team, model = crew([*calls("ann"), *GIVE_UP, *calls("bob"), "done"], native=native, tools=(charge, give_up))
    with pytest.raises(SagaFailed, match="the stock is empty") as caught, crew_saga("settle") as saga:
        team.kickoff()
    assert world.lines == ["charge ann", "refund ann"]
    assert len(model.asked) == 2
    assert isinstance(caught.value.__cause__, HookAborted)
    assert caught.value.report == saga.report
    assert "Undone, so no longer in effect: step 1 shop.charge" in caught.value.world
    assert no_hooks()


def test_a_crew_that_answers_although_it_was_rolled_back_has_failed(world: World, *, native: bool) -> None:
    team, _ = crew([*calls("ann"), *GIVE_UP, "done"], native=native, tools=(charge, give_up))
    team.agents[0].tools[1].result_as_answer = True
    with pytest.raises(SagaFailed, match="the stock is empty"), crew_saga("settle"):
        assert team.kickoff().raw == "given up"
    assert world.stands == []


def test_calls_beside_a_decision_are_refused_or_undone(world: World) -> None:
    charges = [("charge", {"customer": customer}) for customer in ("ann", "bob")]
    turn = [("give_up", {"why": "the stock is empty"}), *charges]
    team, model = crew([turn, "done"], tools=(charge, give_up))
    with pytest.raises(SagaFailed), crew_saga("settle"):
        team.kickoff()
    assert world.stands == []
    assert len(model.asked) == 1


def test_the_users_own_decision_after_the_run_is_no_failure(world: World) -> None:
    team, _ = crew([*calls("ann"), "done"])
    with crew_saga("settle") as saga:
        team.kickoff()
        saga.rollback("it was a rehearsal")
    assert world.lines == ["charge ann", "refund ann"]


def test_a_failure_that_is_to_be_raised_comes_out_as_crewai_raises_it(world: World, *, native: bool) -> None:
    turns: list[Turn] = [*calls("ann"), [("send_wire", {"iban": "DE02"})], "done"]
    team, _ = crew(turns, native=native, tools=(charge, send_wire))
    team.agents[0].tool_failure_policy = "raise"
    with pytest.raises(ToolExecutionFailedError, match="irreversible") as caught, crew_saga("settle"):
        team.kickoff()
    assert "1 of 1 effects undone" in "".join(caught.value.__notes__)
    assert world.stands == []


def test_a_failure_that_delegation_swallows_stops_the_crew_all_the_same(world: World, *, native: bool) -> None:
    turns: list[Turn] = [*calls("ann"), [("send_wire", {"iban": "DE02"})], *calls("bob"), "paid"]
    worker = clerk(ScriptedLLM(turns, native=native), (charge, send_wire), tool_failure_policy="raise")
    handing: list[Turn] = [
        [("delegate_work_to_coworker", {"task": "pay", "context": "now", "coworker": "clerk"})],
        "done",
    ]
    boss = clerk(ScriptedLLM(handing, native=native), (), allow_delegation=True)
    boss.role = "boss"
    team: Any = Crew(agents=[boss, worker], tasks=[task(boss)])
    with pytest.raises(SagaFailed, match=r"send_wire.*irreversible"), crew_saga("settle"):
        team.kickoff()
    assert world.lines == ["charge ann", "refund ann"]
    assert len(boss.llm.asked) == 1


def test_an_outcome_that_the_store_cannot_take_stops_the_crew(world: World, tmp_path: Path) -> None:
    @inverse("decisions.unpay")
    def unpay() -> None:
        write("refund ann")

    @compensable("decisions.pay")
    def pay() -> str:
        """Pay, and lose the log meanwhile."""
        write("charge ann")
        (log,) = (tmp_path / "saga" / "open").glob("*.log")
        log.unlink()
        return "paid"

    @pay.undo
    def pay_undo(call: Call[str]) -> Compensation:
        return unpay.bind()

    team, model = crew([[("pay", {})], *calls("bob"), "done"], tools=(pay, charge))
    with pytest.raises(SagaFailed, match="could not be written"), crew_saga("settle"):
        team.kickoff()
    assert world.lines == ["charge ann"]
    assert len(model.asked) == 1


def test_crews_outside_are_not_touched_while_a_scope_is_stopped(world: World) -> None:
    answers: list[str] = []

    def elsewhere() -> None:
        other, _ = crew(["all is well"])
        answers.append(other.kickoff().raw)

    team, _ = crew([*GIVE_UP, "done"], tools=(give_up,))
    with pytest.raises(SagaFailed), crew_saga("settle"):
        with pytest.raises(HookAborted):
            team.kickoff()
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    elsewhere()
    assert answers == ["all is well"] * 2
    assert no_hooks()


def test_hooks_that_stand_around_a_scope_are_called_inside_it(world: World) -> None:
    heard: list[str] = []

    def hear(_: Any) -> None:
        heard.append("asked")

    team, _ = crew([*calls("ann"), "done"])
    with scoped_hooks({InterceptionPoint.PRE_MODEL_CALL: [hear]}):
        with crew_saga("settle"):
            team.kickoff()
        assert get_scoped_hooks(InterceptionPoint.EXECUTION_START) == []
    assert heard == ["asked", "asked"]
