"""Undo for AI agents: each call is recorded before it runs, and unwound when the run fails."""

from typing import TYPE_CHECKING

from saga_core.answers import (
    AlreadyUndone,
    Compensation,
    Conflict,
    Landed,
    NotLanded,
    Pending,
    Receipt,
    Unknown,
)
from saga_core.errors import (
    ApprovalPending,
    GateRefused,
    NoActiveSaga,
    RollbackIncomplete,
    SagaBusy,
    SagaClosed,
    SagaError,
    StepInDoubt,
    StepMismatch,
    StoreError,
)
from saga_core.inverse import Inverse, inverse  # not later: the module's import would put it in the function's place

if TYPE_CHECKING:
    from saga_core.declaration import Attempt, Call
    from saga_core.engine.action import Action, AsyncAction, compensable, irreversible, read_only, reversible
    from saga_core.engine.context import Step, current_step
    from saga_core.engine.saga import Saga, current_saga
    from saga_core.engine.scope import saga_scope
    from saga_core.gate import Escalate, Gate, Proposal, Refuse
    from saga_core.report import Report
    from saga_core.stores import Store, open_store
else:
    _LATER = {
        "saga_core.declaration": ("Attempt", "Call"),
        "saga_core.engine.action": ("Action", "AsyncAction", "compensable", "irreversible", "read_only", "reversible"),
        "saga_core.engine.context": ("Step", "current_step"),
        "saga_core.engine.saga": ("Saga", "current_saga"),
        "saga_core.engine.scope": ("saga_scope",),
        "saga_core.gate": ("Escalate", "Gate", "Proposal", "Refuse"),
        "saga_core.report": ("Report",),
        "saga_core.stores": ("Store", "open_store"),
    }

    def __getattr__(name: str) -> object:
        """Import a name's module when the name is first used: `import saga_core` alone is cheap."""
        for module, names in _LATER.items():
            if name in names:
                value = globals()[name] = getattr(__import__(module, fromlist=[name]), name)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "Action",
    "AlreadyUndone",
    "ApprovalPending",
    "AsyncAction",
    "Attempt",
    "Call",
    "Compensation",
    "Conflict",
    "Escalate",
    "Gate",
    "GateRefused",
    "Inverse",
    "Landed",
    "NoActiveSaga",
    "NotLanded",
    "Pending",
    "Proposal",
    "Receipt",
    "Refuse",
    "Report",
    "RollbackIncomplete",
    "Saga",
    "SagaBusy",
    "SagaClosed",
    "SagaError",
    "Step",
    "StepInDoubt",
    "StepMismatch",
    "Store",
    "StoreError",
    "Unknown",
    "compensable",
    "current_saga",
    "current_step",
    "inverse",
    "irreversible",
    "open_store",
    "read_only",
    "reversible",
    "saga_scope",
]
