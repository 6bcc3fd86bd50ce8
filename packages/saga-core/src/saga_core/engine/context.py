"""Where a call stands: the innermost open scope and the running step of this context."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from saga_core.errors import NoActiveSaga

if TYPE_CHECKING:
    from datetime import datetime

    from saga_core.engine.node import Node
    from saga_core.engine.session import Session

AMBIENT: ContextVar[Node | None] = ContextVar("saga_scope", default=None)
STEP: ContextVar[Step | None] = ContextVar("saga_step", default=None)


class Step:
    """The running step, as its effect or its inverse sees it.

    Attributes:
        saga_id: The saga.
        action: The action's registered name.
        key: The idempotency key of this attempt, 32 hex digits: the same in every process.
        attempt: Counts from 1; rises only after a proof that the one before did not land or was undone.
        position: The step's identity within the saga.
        deadline: When the declared timeout of the effect ends.
    """

    __slots__ = (
        "_key",
        "_purpose",
        "_session",
        "action",
        "attempt",
        "deadline",
        "is_over",
        "number",
        "position",
        "saga_id",
    )

    def __init__(
        self,
        session: Session,
        number: int,
        action: str,
        position: str,
        attempt: int,
        purpose: str,
        *,
        key: str | None = None,
        deadline: datetime | None = None,
    ) -> None:
        self._session = session
        self._key = key
        self._purpose = purpose
        self.saga_id = session.saga_id
        self.number = number
        self.action = action
        self.position = position
        self.attempt = attempt
        self.deadline = deadline
        self.is_over = False

    @property
    def key(self) -> str:
        """The idempotency key of this attempt, to be sent to the remote."""
        if self._key is None:
            self._key = self._session.key_of(self.position, self._purpose, self.attempt)
        return self._key

    async def note(self, **facts: Any) -> None:
        """Log facts learned in mid-effect; durable within the step's tier before this returns.

        Raises:
            BadArguments: A fact is not JSON.
            StoreError: It could not be written: stop here, the effect's next part must not run.
        """
        position = self._session.note(self.number, facts)
        await self._session.wait_durable(self.number, position)

    def note_sync(self, **facts: Any) -> None:
        """Do as `note` does, from synchronous code."""
        position = self._session.note(self.number, facts)
        self._session.sync_durable(self.number, position)


def current_step() -> Step:
    """Return the step whose effect or inverse is running here.

    Raises:
        NoActiveSaga: None is.
    """
    step = STEP.get()
    if step is None or step.is_over:
        raise NoActiveSaga(
            "no step is running here",
            next="call current_step() inside the function of an action or an inverse",
        )
    return step
