"""The tool that is measured, bare and as an action of each tier."""

from __future__ import annotations

from typing import Any

from saga_core import Attempt, Call, Compensation, Landed, compensable, inverse

ARGUMENTS: dict[str, Any] = {"customer": "cus_9f31c", "amount": 42_00, "currency": "eur", "memo": "invoice 2231"}


async def tool(customer: str, amount: int, currency: str, memo: str) -> dict[str, Any]:
    """Charge an amount."""
    return {"id": "ch_2c41", "amount": amount, "currency": currency}


def tool_now(customer: str, amount: int, currency: str, memo: str) -> dict[str, Any]:
    """Charge an amount."""
    return {"id": "ch_2c41", "amount": amount, "currency": currency}


async def long_tool(customer: str, amount: int, currency: str, memo: str) -> dict[str, Any]:
    """Charge an amount, and tell how long the memo was."""
    return {"id": "ch_2c41", "letters": len(memo)}


@inverse("benchmark.refund", keyed=True)
def refund(charge_id: str) -> None:
    """Undo nothing: the runs succeed."""


def _undo(call: Call[dict[str, Any]]) -> Compensation:
    return refund.bind(call.result["id"])


process_step = compensable("benchmark.process", undo=_undo, tier="process")(tool)
process_step_now = compensable("benchmark.process_now", undo=_undo, tier="process")(tool_now)
power_step = compensable("benchmark.power", undo=_undo)(tool)
long_step = compensable("benchmark.long", undo=_undo, tier="process")(long_tool)


@power_step.probe
def landed(attempt: Attempt) -> Landed[dict[str, Any]]:
    """Say that it landed: an action without a probe waits for its outcome's sync too."""
    return Landed({"id": "ch_2c41", "amount": attempt.args["amount"], "currency": attempt.args["currency"]})
