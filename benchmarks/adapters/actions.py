"""The tool that is measured, and its two ways to be declared."""

from typing import Any

from saga_core import Attempt, Call, Compensation, Landed, compensable, inverse

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


@charge.probe
async def landed(attempt: Attempt) -> Landed[str]:
    """Say that it landed: an action without a probe waits for its outcome's sync too."""
    return Landed(f"ch_{attempt.args['amount']}")


@compensable("benchmark.charge_sync", undo=_undo)
def charge_sync(amount: int) -> str:
    """Charge an amount."""
    return f"ch_{amount}"


@charge_sync.probe
def landed_sync(attempt: Attempt) -> Landed[str]:
    """Say that it landed."""
    return Landed(f"ch_{attempt.args['amount']}")
