"""The tool that is measured, and its two ways to be declared."""

from typing import Any

from saga_core import Call, Compensation, compensable, inverse

CALLS = 30
"""Tool calls in one run."""


@inverse("benchmark.refund", keyed=True)
def refund(charge_id: str) -> None:
    """Undo nothing: the runs succeed."""


def _undo(call: Call[Any]) -> Compensation:
    return refund.bind(call.result)


@compensable("benchmark.charge", undo=_undo)
async def charge(amount: int) -> str:
    """Charge an amount."""
    return f"ch_{amount}"


@compensable("benchmark.charge_sync", undo=_undo)
def charge_sync(amount: int) -> str:
    """Charge an amount."""
    return f"ch_{amount}"
