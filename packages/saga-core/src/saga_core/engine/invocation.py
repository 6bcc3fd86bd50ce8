"""One call of an action on its way to becoming a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saga_core import codec
from saga_core.errors import BadArguments, SagaClosed, SagaForked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from msgspec import Raw

    from saga_core.declaration import Declaration
    from saga_core.engine.io import Io
    from saga_core.engine.node import Node
    from saga_core.engine.session import Flight

_PLAIN = frozenset({str, int, bool, type(None)})


class Invocation:
    """Who calls what, where and how.

    Attributes:
        io: The driver of the caller.
        node: The scope.
        session: The scope's saga.
        declared: The action.
        fn: The function that is the effect.
        label: The position's name, where the caller gave one.
        flight: The session's note that this call is under way.
    """

    __slots__ = ("declared", "flight", "fn", "io", "label", "node", "session")

    def __init__(
        self, io: Io, node: Node, declared: Declaration, fn: Callable[..., Any], label: str | None, flight: Flight
    ) -> None:
        self.io = io
        self.node = node
        self.session = node.session
        self.declared = declared
        self.fn = fn
        self.label = label
        self.flight = flight

    def refuse_closed(self) -> None:
        """Refuse the call where the scope takes no further step.

        Raises:
            SagaForked: The scope is the parent process's.
            SagaClosed: It has ended, was decided, or is latched.
        """
        session = self.session
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
        shown = {name: value for name, value in arguments.items() if name not in self.declared.hidden}
        is_plain = all(type(value) in _PLAIN for value in shown.values())
        return self.frozen(
            shown,
            "an argument",
            "pass JSON, or name the argument in hide= if no undo or probe needs it",
            is_checked=is_plain,
        )

    def frozen(self, value: Any, what: str, mend: str, *, is_checked: bool = False) -> Raw:
        """Return a value's bytes.

        Raises:
            BadArguments: It cannot be recorded.
        """
        try:
            data = codec.freeze(value)
            if not is_checked:
                codec.refuse_unfit(codec.thaw(data))
        except (TypeError, ValueError) as unfit:
            raise BadArguments(
                f"{self.declared.name!r} was not called: {what} cannot be recorded: {unfit}",
                saga_id=self.session.saga_id,
                world="nothing was called",
                next=mend,
            ) from unfit
        return data
