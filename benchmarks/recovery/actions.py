"""An action without a probe, whose outcome is on disk before it returns, and the ledger that its undo writes."""

from __future__ import annotations

from saga_core import Call, Compensation, compensable, inverse

UNDONE: list[str] = []
"""The charges that this process has given back."""


@inverse("benchmark.give_back", keyed=True)
def give_back(charge_id: str) -> None:
    """Give a charge back."""
    UNDONE.append(charge_id)


def _undo(call: Call[str]) -> Compensation:
    return give_back.bind(call.result)


@compensable("benchmark.take", undo=_undo)
async def take(number: int) -> str:
    """Charge."""
    return f"ch_{number}"
