"""What this package raises beside the errors of saga_core."""

from __future__ import annotations

from saga_core import SagaError

__all__ = ["SagaFailed"]


class SagaFailed(SagaError):
    """The crew was stopped, or hid a failure: what it had done was unwound, and `report` tells the rest."""

    code = "SG710"
