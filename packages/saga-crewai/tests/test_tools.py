"""What a tool made of an action is to CrewAI, and what a failed call is to the model."""

from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from crewai.tools import BaseTool, tool
from crewai.utilities.agent_utils import convert_tools_to_openai_schema
from crews import World, calls, charge, charge_later, crew, look_up, send_wire
from pydantic import BaseModel, Field

from saga_core import Call, Compensation, compensable, inverse, saga_scope
from saga_core.errors import DeclarationError
from saga_crewai import crew_saga, saga_tools


class Receipt(BaseModel):
    """What an order returns."""

    number: int


@dataclass
class Address:
    """Where an order goes."""

    city: str


def order(
    customer: str,
    amount: Annotated[int, Field(description="In cents.", gt=0)],
    address: Address | None = None,
    parts: tuple[str, ...] = (),
) -> Receipt:
    """Order something."""
    assert address is None or isinstance(address, Address)
    return Receipt(number=amount)


@inverse("tools.cancel")
def cancel() -> None:
    """Cancel an order."""


def cancelled(call: Call[Any]) -> Compensation:
    return cancel.bind()


ordered = compensable("tools.order", undo=cancelled)(order)


def test_the_model_is_shown_what_crewais_own_decorator_shows() -> None:
    (ours,) = saga_tools(ordered)
    own: Any = tool(order)
    assert convert_tools_to_openai_schema([ours])[0] == convert_tools_to_openai_schema([own])[0]
    assert ours.formatted_description == own.formatted_description
    assert ours.result_schema is own.result_schema is Receipt
    assert ours.format_output_for_agent(Receipt(number=5)) == '{"number":5}'


def test_a_tool_shows_nobody_the_function_that_would_run_unrecorded() -> None:
    (made,) = saga_tools(ordered)
    assert not hasattr(made, "func")
    assert not hasattr(made.action, "func")


def test_arguments_arrive_in_the_annotated_types(world: World) -> None:
    (made,) = saga_tools(ordered)
    with crew_saga():
        assert made.run(customer="ann", amount=5, address={"city": "Ghent"}, parts=["wheel"]) == Receipt(number=5)


def test_a_checkpoint_finds_the_action_again() -> None:
    class Checkpoint(BaseModel):
        tools: list[BaseTool]

    kept = Checkpoint(tools=list[BaseTool](saga_tools(charge))).model_dump_json()
    (restored,) = Checkpoint.model_validate_json(kept).tools
    assert getattr(restored, "action", None) is charge
    assert restored.args_schema.model_json_schema()["required"] == ["customer"]


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(DeclarationError, match="are named 'charge'"):
        saga_tools(charge, charge)


def test_a_plain_function_is_refused() -> None:
    plain: Any = order
    with pytest.raises(DeclarationError, match="a function is no action"):
        saga_tools(plain)


def test_an_annotation_that_cannot_be_read_is_refused_by_name() -> None:
    def pay(to: object) -> None:
        """Pay."""

    pay.__annotations__["to"] = "Nowhere"
    paid = compensable("tools.pay_nowhere", undo=cancelled)(pay)
    with pytest.raises(DeclarationError, match="Nowhere"):
        saga_tools(paid)


def test_a_call_whose_answer_was_lost_runs_once_and_is_not_made_again(world: World, *, native: bool) -> None:
    lost = calls("ann", amount=13)
    team, model = crew([*lost, *calls("bob"), *lost, "done"], native=native)
    with crew_saga() as saga:
        team.kickoff()
    assert world.lines == ["charge ann", "charge bob"]
    first, _, again = model.seen
    assert "the answer was lost. It may have taken effect all the same" in first
    assert first.endswith("(code: saga_in_doubt)")
    assert again.endswith("(code: saga_in_doubt)")
    assert [step.state for step in saga.report.steps] == ["in_doubt", "applied"]


def test_a_failure_that_had_no_effect_may_be_tried_again(world: World, *, native: bool) -> None:
    declined = calls("ann", amount=7)
    team, model = crew([*declined, *declined, *calls("ann"), "done"], native=native)
    with crew_saga() as saga:
        team.kickoff()
    assert world.lines == ["charge ann"]
    told = "the card was declined. It had no effect. (code: tool_failed)"
    assert model.seen == [told, told, "charged ann"]
    assert saga.report.is_clean


def test_a_refused_call_has_no_effect_and_the_model_reads_why(world: World, *, native: bool) -> None:
    team, model = crew([[("send_wire", {"iban": "DE02"})], "done"], native=native, tools=(send_wire,))
    with crew_saga():
        out = team.kickoff()
    assert world.lines == []
    (told,) = model.seen
    assert "'shop.send_wire' was refused before it ran: irreversible" in told
    assert told.endswith("Nothing was called. (code: saga_refused)")
    (record,) = out.tasks_output[0].tool_failures
    assert (record.failure.code, record.failure.retryable) == ("saga_refused", False)


def test_a_call_outside_a_scope_has_no_effect_and_the_model_reads_why(world: World, *, native: bool) -> None:
    team, model = crew([*calls("ann"), "done"], native=native)
    team.kickoff()
    assert world.lines == []
    (told,) = model.seen
    assert "'shop.charge' was called outside a scope" in told
    assert told.endswith("(code: saga_refused)")


def test_a_plain_scope_records_the_calls_too(world: World, *, native: bool) -> None:
    team, _ = crew([*calls("ann"), "done"], native=native)
    with pytest.raises(ZeroDivisionError), saga_scope():
        team.kickoff()
        _ = 1 / 0
    assert world.lines == ["charge ann", "refund ann"]


def test_asynchronous_actions_are_tools_like_others(world: World, *, native: bool) -> None:
    turns = [
        [("look_up", {"customer": "nobody"})],
        [("look_up", {"customer": "ann"})],
        [("charge_later", {"customer": "ann"})],
        "done",
    ]
    team, model = crew(turns, native=native, tools=(charge_later, look_up))
    with crew_saga():
        team.kickoff()
    assert world.lines == ["charge ann"]
    assert model.seen == [
        "there is no such customer. It had no effect. (code: tool_failed)",
        "ann is a good customer",
        "charged ann",
    ]


def test_crewais_text_protocol_refuses_a_call_made_twice_in_a_row_by_itself(world: World) -> None:
    team, model = crew([*calls("ann", "ann"), "done"], native=False)
    with crew_saga():
        team.kickoff()
    assert world.lines == ["charge ann"]
    assert "I tried reusing the same input" in model.seen[1]


def test_calls_made_twice_through_an_api_are_effects_of_their_own(world: World) -> None:
    team, _ = crew([*calls("ann", "ann"), "done"], cache=True)
    with crew_saga():
        team.kickoff()
    assert world.lines == ["charge ann", "charge ann"]
