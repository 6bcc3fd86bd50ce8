"""What the model is told about a call that was not made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import ToolMessage

from saga_core import GateRefused, StepInDoubt, StepMismatch
from saga_core.adapter import words_of
from saga_core.errors import BadArguments

if TYPE_CHECKING:
    from collections.abc import Mapping

    from saga_core import SagaError

REFUSALS = (GateRefused, StepInDoubt, StepMismatch, BadArguments)
"""Errors that say that a call was not made: the model can do something else, so the run goes on."""


def answer(call: Mapping[str, Any], error: SagaError) -> ToolMessage:
    """Return the reason as the tool's result."""
    return ToolMessage(words_of(error), name=call["name"], tool_call_id=call["id"] or "", status="error")
