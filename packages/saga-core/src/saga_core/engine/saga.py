"""The handle of an open scope, and the innermost one of a context."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from saga_core.codec import words
from saga_core.engine.context import AMBIENT
from saga_core.errors import NoActiveSaga, ScopeMisuse
from saga_core.secrets import mask

if TYPE_CHECKING:
    from typing import ParamSpec, TypeVar

    from saga_core.declaration import Declaration
    from saga_core.engine.action import Action, AsyncAction
    from saga_core.engine.node import Node
    from saga_core.report import Report
    from saga_core.types import Co

    P = ParamSpec("P")
    T = TypeVar("T")


class Saga:
    """The handle of one open scope; usable from any thread or task. No method does I/O.

    Attributes:
        id: The saga's id.
        name: The name given to the scope.
        key: The key under which the saga is found again.
    """

    def __init__(self, node: Node, name: str) -> None:
        self._node = node
        self.id = node.session.saga_id
        self.name = name
        self.key = node.session.key

    def __repr__(self) -> str:
        return f"<saga {self.name!r} {self.id} {self._node.session.view.state}>"

    @property
    def report(self) -> Report:
        """What became of the saga so far; complete once the scope has ended and nothing is left to settle."""
        return self._node.session.report()

    @overload
    def run(self, action: AsyncAction[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Co[T]: ...
    @overload
    def run(self, action: Action[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    def run(self, action: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call an action inside this saga."""
        return action(self, *args, **kwargs)

    def rollback(self, reason: str) -> None:
        """Decide that the scope unwinds when it ends; later steps raise `SagaClosed`."""
        self._decide("rollback", reason)

    def suspend(self, reason: str) -> None:
        """Decide that the saga waits, owned by nobody, once the scope has ended; found again by its key."""
        if self._node.scope.parent is not None:
            raise ScopeMisuse(
                "a savepoint cannot be suspended on its own",
                saga_id=self.id,
                world="nothing changed",
                next="suspend the outermost scope's saga",
            )
        if self.key is None:
            raise ScopeMisuse(
                "a saga without a key could not be found again",
                saga_id=self.id,
                world="nothing changed",
                next="open the scope with key=",
            )
        self._decide("suspend", reason)

    def _decide(self, kind: str, reason: str) -> None:
        reason = mask(words(reason))
        scope = self._node.scope
        if scope.decision is None or kind == "rollback":
            scope.decision = (kind, reason)
        scope.closed = f"{kind} was decided: {reason}"
        scope.session.tell()


def node_of(saga: Saga) -> Node:
    """Return the engine's side of a handle."""
    return saga._node  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] -- the handle's own module


def name_of(node: Node) -> str:
    """Return the scope's name; the saga's where a replay opens a scope that is not recorded."""
    scope = node.session.view.scopes.get(node.path)
    return node.session.name if scope is None else scope.name


def current_saga() -> Saga | None:
    """Return the innermost open scope's saga of this context, None outside."""
    node = ambient_node()
    return None if node is None else Saga(node, name_of(node))


def ambient_node() -> Node | None:
    """Return the innermost scope of this context that takes steps.

    A savepoint that was kept belongs to the scope around it; one that was undone, or an adapter's, stays closed.
    """
    node = AMBIENT.get()
    while node is not None and node.is_over and node.parent is not None and not (node.is_undone or node.stays_closed):
        node = node.parent
    return node


def place(declared: Declaration, args: tuple[Any, ...]) -> tuple[Node | None, tuple[Any, ...]]:
    """Return the scope that a call of an action belongs to, and its arguments without the handle.

    Raises:
        NoActiveSaga: It belongs to none, and the action is not to be called outside.
    """
    if args and isinstance(args[0], Saga):
        return node_of(args[0]), args[1:]
    node = ambient_node()
    if node is None and declared.outside == "refuse":
        raise NoActiveSaga(
            f"{declared.name!r} was called outside a scope: it was not called",
            world="nothing was called",
            next='wrap the call: `async with saga_scope(): ...` (or `with`), or declare outside="allow"',
        )
    return node, args
