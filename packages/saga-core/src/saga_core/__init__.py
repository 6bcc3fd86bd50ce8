"""Undo for AI agents: each call is recorded before it runs, and unwound when the run fails."""

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
from saga_core.declaration import Attempt, Call
from saga_core.engine.action import Action, AsyncAction, compensable, irreversible, read_only, reversible
from saga_core.engine.context import Step, current_step
from saga_core.engine.saga import Saga, current_saga
from saga_core.engine.scope import saga_scope
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
from saga_core.gate import Escalate, Gate, Proposal, Refuse
from saga_core.inverse import Inverse, inverse
from saga_core.report import Report
from saga_core.stores import Store, open_store

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
