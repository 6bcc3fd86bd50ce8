"""Tripwires, before and behind effects, whole and streamed."""

from __future__ import annotations

import asyncio
from typing import Any, Literal, TypeAlias

import pytest
from agents import (
    GuardrailFunctionOutput,
    InputGuardrail,
    InputGuardrailTripwireTriggered,
    OutputGuardrail,
    OutputGuardrailTripwireTriggered,
    ToolGuardrailFunctionOutput,
    ToolOutputGuardrail,
    ToolOutputGuardrailTripwireTriggered,
)

from saga_core.conformance.adapter.actions import charge, flaky, reserve, slow
from saga_core.conformance.adapter.ledger import Ledger
from saga_openai import SagaRunner, saga_tools

from .scripted import QUIET, ScriptedModel, agent

Form: TypeAlias = Literal["whole", "streamed"]


def tripping(when: Any = None) -> Any:
    """Return a guardrail's function that trips, once `when` lets it."""

    async def trip(*_: Any) -> GuardrailFunctionOutput:
        if when is not None:
            await when()
        return GuardrailFunctionOutput(output_info="no", tripwire_triggered=True)

    return trip


async def run(clerk: Any, store: str, *, form: Form) -> None:
    if form == "whole":
        await SagaRunner.run(clerk, "go", store=store, run_config=QUIET)
        return
    async with SagaRunner.stream(clerk, "go", store=store, run_config=QUIET) as result:
        async for _ in result.stream_events():
            pass


both = pytest.mark.parametrize("form", ["whole", "streamed"])


@both
def test_an_effect_that_overtook_the_input_guardrail_is_undone(ledger: Ledger, store: str, form: Form) -> None:
    async def landed() -> None:
        await ledger.until(lambda: bool(ledger.landed))

    guard = InputGuardrail(tripping(landed))
    model = ScriptedModel([("charge", {"item": "a", "amount": 5})], "done")

    async def main() -> None:
        clerk = agent(model, saga_tools(charge), input_guardrails=[guard])
        with pytest.raises(InputGuardrailTripwireTriggered) as raised:
            await run(clerk, store, form=form)
        assert [note.partition(": ")[2][:11] for note in raised.value.__notes__] == ["rolled back"]
        assert (ledger.landed, ledger.standing) == (["a"], [])

    asyncio.run(main())


@both
def test_a_thread_that_lands_after_the_tripwire_is_waited_for_and_undone(
    ledger: Ledger, store: str, form: Form
) -> None:
    async def begun() -> None:
        await ledger.until(lambda: bool(ledger.begun))

    async def main() -> None:
        clerk = agent(
            ScriptedModel([("slow", {"item": "a"})], "done"),
            saga_tools(slow),
            input_guardrails=[InputGuardrail(tripping(begun))],
        )
        task = asyncio.create_task(run(clerk, store, form=form))
        await begun()
        ended, _ = await asyncio.wait({task}, timeout=0.3)
        assert not ended
        ledger.release()
        with pytest.raises(InputGuardrailTripwireTriggered):
            await task
        assert (ledger.landed, ledger.standing) == (["a"], [])

    asyncio.run(main())


@both
def test_the_output_guardrails_tripwire_undoes_all_newest_first(ledger: Ledger, store: str, form: Form) -> None:
    async def main() -> None:
        model = ScriptedModel([("charge", {"item": "a", "amount": 5})], [("reserve", {"item": "b"})], "done")
        clerk = agent(model, saga_tools(charge, reserve), output_guardrails=[OutputGuardrail(tripping())])
        with pytest.raises(OutputGuardrailTripwireTriggered):
            await run(clerk, store, form=form)
        assert (ledger.landed, ledger.undone) == (["a", "b"], ["b", "a"])

    asyncio.run(main())


def test_nothing_is_undone_that_the_swallowed_error_of_a_tool_kept_from_landing(ledger: Ledger, store: str) -> None:
    async def main() -> None:
        model = ScriptedModel([("flaky", {"item": "a"})], "done")
        clerk = agent(model, saga_tools(flaky), output_guardrails=[OutputGuardrail(tripping())])
        with pytest.raises(OutputGuardrailTripwireTriggered):
            await run(clerk, store, form="whole")
        assert any("stock is being counted" in text for text in model.seen)
        assert (ledger.landed, ledger.undone) == ([], [])

    asyncio.run(main())


def test_the_tripwire_of_a_tools_own_output_guardrail_undoes_the_tools_effect(ledger: Ledger, store: str) -> None:
    async def raise_exception(_: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.raise_exception()

    async def main() -> None:
        (tool,) = saga_tools(reserve)
        tool.tool_output_guardrails = [ToolOutputGuardrail(raise_exception)]  # pyright: ignore[reportAttributeAccessIssue] -- a union
        with pytest.raises(ToolOutputGuardrailTripwireTriggered):
            await run(agent(ScriptedModel([("reserve", {"item": "a"})], "done"), [tool]), store, form="whole")
        assert (ledger.landed, ledger.standing) == (["a"], [])

    asyncio.run(main())
