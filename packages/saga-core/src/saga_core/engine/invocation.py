"""One call of an action on its way to becoming a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saga_core import codec
from saga_core.engine.context import STEP, Step
from saga_core.errors import BadArguments, SagaClosed, SagaForked, SecretRefused
from saga_core.records import EMPTY, Intended
from saga_core.secrets import find, may_hold
from saga_core.view import StepView

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from msgspec import Raw

    from saga_core.answers import Compensation
    from saga_core.declaration import Declaration
    from saga_core.engine.io import Io
    from saga_core.engine.node import Node
    from saga_core.engine.session import Session
    from saga_core.types import Tier

_MEND = "pass JSON, or name the argument in hide= if no undo or probe needs it"

_ENCRYPT = "keep it out of what is read, or encrypt the store: what an undo needs may stand in an encrypted log"

NOT_YET = StepView(Intended(0, 0, "", 0, "", "", "", 0, None, EMPTY, EMPTY, EMPTY, "", 0))
"""The step, numbered 0, of a call whose intent is not written."""


class Invocation(Step, eq=False, kw_only=True):
    """Who calls what, where and how; the session's note that the call is under way, and what its effect sees of it.

    Attributes:
        io: The driver of the caller.
        node: The scope.
        declared: The action.
        fn: The function that is the effect.
        label: The position's name, where the caller gave one.
    """

    io: Io
    node: Node
    declared: Declaration
    fn: Callable[..., Any]
    label: str | None

    @property
    def session(self) -> Session:
        """The scope's saga."""
        return self._session

    @property
    def path(self) -> str:
        """Where the call is under way."""
        return self.node.path

    def refuse_closed(self) -> None:
        """Refuse the call where the scope takes no further step.

        Raises:
            SagaForked: The scope is the parent process's.
            SagaClosed: It has ended, was decided, or is latched.
        """
        session = self._session
        if session.is_dead:
            raise SagaForked(
                f"{self.declared.name!r} was called in a forked child, inside a scope of the parent process",
                saga_id=session.saga_id,
                world="nothing was called",
                next="open a scope of its own in the child",
            )
        why = self.node.why_closed() or session.latched
        if why is not None:
            raise SagaClosed(
                f"{self.declared.name!r} was not called: {why}",
                saga_id=session.saga_id,
                world="nothing was called",
                next="open a new scope for further work",
            )

    def freeze(self, arguments: Mapping[str, Any]) -> Raw:
        """Return the arguments as the log will hold them.

        Raises:
            BadArguments: One of them cannot be recorded.
        """
        hidden = self.declared.hidden
        shown = {name: value for name, value in arguments.items() if name not in hidden} if hidden else arguments
        try:
            data = codec.freeze(shown)
            is_flat = codec.SCALARS.issuperset(map(type, shown.values()))
            if not is_flat:
                codec.refuse_unfit(codec.thaw(data))
        except (TypeError, ValueError) as unfit:
            raise self._unfit(f"an argument cannot be recorded: {unfit}", _MEND) from unfit
        if may_hold(data) is not None or self.declared.suspects or not is_flat:
            self._refuse_secret(codec.thaw(data), "argument", "name it in hide=, or pass a reference to the credential")
        return data

    def _refuse_secret(self, value: Any, what: str, mend: str) -> None:
        """Refuse to record what looks like a secret.

        Raises:
            SecretRefused: It does.
        """
        found = find(value)
        if found is not None:
            raise SecretRefused(
                f"{self.declared.name!r} was not called: its {what} would put a secret into the log ({found})",
                saga_id=self.saga_id,
                world="nothing was called and nothing of it was recorded",
                next=mend,
            )

    def freeze_capture(self, read: Any) -> Raw:
        """Return what the capture read as the log will hold it.

        Raises:
            BadArguments: It cannot be recorded.
        """
        try:
            data = codec.freeze(read)
            codec.read_back(read, data)
        except (TypeError, ValueError) as unfit:
            mend = "return JSON from the capture"
            raise self._unfit(f"what its capture read cannot be recorded: {unfit}", mend) from unfit
        if not self._session.is_encrypted:
            self._refuse_secret(codec.thaw(data), "capture", _ENCRYPT)
        return data

    def take_keyed_undo(self, undo: object) -> Compensation:
        """Return the undo that needs no result as it will be read back.

        Raises:
            BadArguments: It cannot be recorded.
        """
        try:
            bound = codec.bound(undo)
        except (TypeError, ValueError) as unfit:
            mend = "return what the inverse's bind returns"
            raise self._unfit(f"its keyed undo cannot be recorded: {unfit}", mend) from unfit
        if not self._session.is_encrypted:
            self._refuse_secret(dict(bound.args), "keyed undo", _ENCRYPT)
        return bound

    def _unfit(self, why: str, mend: str) -> BadArguments:
        return BadArguments(
            f"{self.declared.name!r} was not called: {why}",
            saga_id=self.saga_id,
            world="nothing was called",
            next=mend,
        )

    def is_straight(self, position: str, asked: Raw) -> bool:
        """Tell whether nothing has to be asked or read before the intent: the log knows nothing of the call.

        The rules that every gate has look at nothing but the declaration, which has passed them.
        """
        session = self._session
        view = session.view
        return (
            self.declared.is_simple
            and position not in view.positions
            and len(asked) <= codec.LARGE
            and not ((view.in_doubt or session.unattended) and self.label is None)
            and not (session.is_wary and (self.node.why_closed() or session.latched or session.is_dead))
        )

    def intend(
        self,
        position: str,
        frozen: Raw,
        at: int,
        *,
        attempt: int = 1,
        asked: Raw = EMPTY,
        captured: Raw = EMPTY,
        resource: str | None = None,
        amount: str | None = None,
        currency: str | None = None,
        keyed_undo: Compensation | None = None,
        tier: Tier | None = None,
    ) -> StepView:
        """Write the intent, under the session's lock, and return the step.

        Args:
            position: The step's identity.
            frozen: The arguments.
            at: Now.
            attempt: How often the position was tried, this time included.
            asked: The arguments as they were given, where `frozen` completes them.
            captured: What the capture read.
            resource: What the effect changes.
            amount: The declared amount, in minor units.
            currency: Its currency.
            keyed_undo: The undo that needs no result.
            tier: Where it is another than the declared one.

        Raises:
            StoreError: It could not be written.
        """
        session, declared = self._session, self.declared
        outer = STEP.get()
        parent = outer.number if outer is not None and outer.saga_id == session.saga_id and not outer.is_over else None
        session.newest = number = session.newest + 1
        session.write(
            Intended(
                number,
                at,
                declared.name,
                declared.version,
                declared.reversibility,
                self.node.path,
                position,
                attempt,
                parent,
                frozen,
                asked,
                captured,
                tier or declared.tier,
                declared.lands_for,
                resource,
                amount,
                currency,
                keyed_undo,
            )
        )
        self._view = step = session.view.steps[number]
        return step

    def resend(self, step: StepView) -> None:
        """Be the call that sends a recorded step again."""
        self._view = step
