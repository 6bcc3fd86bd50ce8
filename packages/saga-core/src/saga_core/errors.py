"""What this package raises: each error says what happened to the world and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from saga_core.report import Report

CODES: dict[str, type[SagaError]] = {}
"""Every code with the one class that carries it."""


class SagaError(Exception):
    """Base of every error of the suite; never a RuntimeError, always picklable.

    Attributes:
        code: Stable code of the class (`SG1xx` gate, `SG2xx` step, `SG3xx` scope, `SG4xx` store, `SG5xx` declaration,
            `SG6xx` connectors, `SG7xx` adapters).
        saga_id: The saga concerned, if one is.
        world: What happened to the outside world.
        next: What to do now.
        report: The saga's report, where its scope has ended.
    """

    code: ClassVar[str] = "SG000"

    saga_id: str | None
    world: str
    next: str
    report: Report | None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        code = cls.__dict__.get("code")
        if code is None:
            return
        taken = CODES.setdefault(code, cls)
        if taken is not cls and (taken.__module__, taken.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"error code {code} of {cls.__qualname__} belongs to {taken.__qualname__}")

    def __init__(
        self,
        message: str,
        *,
        saga_id: str | None = None,
        world: str = "",
        next: str = "",  # noqa: A002 -- the public attribute's name
        report: Report | None = None,
    ) -> None:
        super().__init__(message)
        self.saga_id = saga_id
        self.world = world
        self.next = next
        self.report = report

    def __str__(self) -> str:
        lines = [f"[{self.code}] {self.args[0]}"]
        for label, value in (("saga", self.saga_id), ("world", self.world), ("next", self.next)):
            if value:
                lines.append(f"  {label:<6} {value}")
        return "\n".join(lines)


class GateRefused(SagaError):
    """A rule said no: the action was not called. `rule` names it, `place` says where it is declared."""

    code = "SG101"
    rule: str = ""
    place: str = ""


class ApprovalPending(SagaError):
    """A person must decide: the action was not called. Leaving the scope with this error suspends the saga."""

    code = "SG102"
    approval_id: str = ""


class ApprovalConflict(SagaError):
    """A decision came too late, or from somebody who may not make it: nothing was decided."""

    code = "SG103"


class NotFound(SagaError):
    """Nothing of this name is in the store."""

    code = "SG104"


class CaseConflict(SagaError):
    """A case was settled before, is claimed by somebody else, or cannot be settled like this: nothing was changed."""

    code = "SG105"


class NoActiveSaga(SagaError):
    """An effectful action was called outside a scope: it was not called. Open one, or declare `outside="allow"`."""

    code = "SG201"


class StepInDoubt(SagaError):
    """The same call is unsettled: it may have landed, so it was not sent again."""

    code = "SG202"


class StepMismatch(SagaError):
    """The recorded step at this position was called with other arguments: nothing was called."""

    code = "SG203"


class OutcomeNotLogged(SagaError):
    """The effect landed but its outcome could not be written: `result` holds what it returned."""

    code = "SG204"
    result: Any = None


class WrongThread(SagaError):
    """A synchronous action was called on an event loop's own thread: it was not called."""

    code = "SG205"


class BadArguments(SagaError):
    """An argument cannot be recorded: the action was not called."""

    code = "SG206"


class SecretRefused(BadArguments):
    """What looks like a secret would have been recorded: the action was not called."""

    code = "SG207"


class SagaClosed(SagaError):
    """The saga takes no further step: the action was not called."""

    code = "SG301"


class SagaBusy(SagaError):
    """Another live owner holds the saga of this key: nothing was done."""

    code = "SG302"


class SagaUnsettled(SagaError):
    """The saga that was named, by its key or its id, waits for recovery or a person: nothing was done."""

    code = "SG303"


class SagaForked(SagaError):
    """The scope belongs to the parent process: the forked child called nothing."""

    code = "SG304"


class RollbackIncomplete(SagaError):
    """An explicit rollback could not prove that everything is undone: see `report`."""

    code = "SG305"


class CommitUnknown(SagaError):
    """The block ended before its commit was proven to be on the disk: until it is, recovery decides from the file."""

    code = "SG306"


class ScopeMisuse(SagaError):
    """A scope was opened in a way that cannot work: nothing was opened."""

    code = "SG307"


class StoreError(SagaError):
    """The log could not be read or written."""

    code = "SG401"


class StoreFull(StoreError):
    """The store has no room for a further saga: nothing was opened."""

    code = "SG402"


class LogDamaged(StoreError):
    """A saga's log is damaged: nothing is done in its name until a person has looked."""

    code = "SG403"


class StoreBusy(StoreError):
    """Another process packs, drops, erases or backs up the store's settled sagas: nothing was changed."""

    code = "SG404"


class DeclarationError(SagaError):
    """An action or inverse cannot be declared like this."""

    code = "SG501"
