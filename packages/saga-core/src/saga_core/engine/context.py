"""Where a call stands: the innermost open scope and the running step of this context."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import msgspec

from saga_core.errors import NoActiveSaga

if TYPE_CHECKING:
    from datetime import datetime

    from saga_core.engine.node import Node
    from saga_core.engine.session import Session
    from saga_core.view import StepView

AMBIENT: ContextVar[Node | None] = ContextVar("saga_scope", default=None)
STEP: ContextVar[Step | None] = ContextVar("saga_step", default=None)


class Step(msgspec.Struct, eq=False):
    """The running step, as its effect or its inverse sees it.

    Attributes:
        deadline: When the declared timeout of the effect ends.
    """

    _session: Session
    _view: StepView
    _purpose: str
    deadline: datetime | None = None
    is_over: bool = False

    def __repr__(self) -> str:
        return f"<step {self.number} {self.action!r} of saga {self.saga_id}>"

    @property
    def saga_id(self) -> str:
        """The saga."""
        return self._session.saga_id

    @property
    def number(self) -> int:
        """The step's number within the saga."""
        return self._view.number

    @property
    def action(self) -> str:
        """The action's registered name."""
        return self._view.action

    @property
    def position(self) -> str:
        """The step's identity within the saga."""
        return self._view.position

    @property
    def attempt(self) -> int:
        """Counts from 1; rises only after a proof that the one before did not land or was undone."""
        return self._view.attempt

    @property
    def key(self) -> str:
        """The idempotency key of this attempt, to be sent to the remote: 32 hex digits, the same in every process."""
        return self._session.key_of(self._view.position, self._purpose, self._view.attempt)

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
