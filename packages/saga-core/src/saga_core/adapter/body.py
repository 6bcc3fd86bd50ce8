"""One run of a tool's body."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saga_core.adapter.place import quoted
from saga_core.engine.context import AMBIENT
from saga_core.engine.node import Node
from saga_core.engine.saga import Saga, name_of

if TYPE_CHECKING:
    from types import TracebackType


class Body:
    """What `Session.body` returns: good for one `with`."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._outer: Node | None = None

    def __enter__(self) -> Saga:
        """Make the session's scope ambient for this thread or task."""
        self._outer = AMBIENT.get()
        AMBIENT.set(self.node)
        return Saga(self.node, name_of(self.node))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Make ambient again what was."""
        outer = self._outer
        while outer is not None and outer.is_left_early:
            outer = outer.outer
        if AMBIENT.get() is self.node:
            AMBIENT.set(outer)
        elif self.node.place is not None:  # a scope opened in here is still ambient: it goes on to what is outside
            self.node.outer = outer
            self.node.is_left_early = True
        if self.node.place is not None:
            self.node.is_over = True


def placed(scope: Node, place: str) -> Node:
    """Return the node of a body in a scope, or in another body: a framework inside a tool counts from one again.

    Raises:
        ValueError: The place is empty.
    """
    own = quoted(place)
    name = own if scope.place is None else f"{scope.place}+{own}"
    return Node(scope.session, scope, scope.path, place=name)
