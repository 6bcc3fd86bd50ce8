"""One open scope: the root of a saga, or a savepoint inside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saga_core.view import is_within

if TYPE_CHECKING:
    from saga_core.engine.session import Session


class Node:
    """A scope as the engine holds it.

    Attributes:
        path: Where it is: empty for the root, `1`, `1.2` for savepoints.
        place: For one run of a tool's body, the framework's name of it, which its positions begin with.
        newest: The number of the newest step that was recorded before this program began.
        decision: `rollback` or `suspend` with the reason, once somebody decided.
        is_cancelled: The block was cancelled on its way to the commit.
        outer: The scope that was ambient when this one opened, its parent or another saga's.
        stays_closed: Once it is over, what is still called in it is refused, instead of taken by the scope around it.
        is_left_early: It was left while a scope opened after it was still ambient.
    """

    __slots__ = (
        "_children",
        "_closed",
        "_ordinals",
        "_stem",
        "decision",
        "is_cancelled",
        "is_left_early",
        "is_over",
        "is_undone",
        "newest",
        "outer",
        "parent",
        "path",
        "place",
        "session",
        "stays_closed",
    )

    def __init__(
        self, session: Session, parent: Node | None, path: str, *, outer: Node | None = None, place: str | None = None
    ) -> None:
        self.session = session
        self.parent = parent
        self.path = path
        self.outer = outer
        self.place = place
        self.newest = session.newest
        self.is_left_early = False
        self.stays_closed = False
        self.decision: tuple[str, str] | None = None
        self._closed: str | None = None
        self.is_cancelled = False
        self.is_over = False
        self.is_undone = False
        self._ordinals: dict[str, int] = {}
        self._children = 0
        self._stem = f"{path}/" if place is None else f"{path}/{place}/"

    @property
    def closed(self) -> str | None:
        """Why no step starts here any more, in words; None while steps may."""
        return self._closed

    @closed.setter
    def closed(self, why: str | None) -> None:
        self._closed = why
        self.session.is_wary = True

    @property
    def scope(self) -> Node:
        """The scope itself: a body's is the one that it runs in."""
        return self if self.place is None or self.parent is None else self.parent.scope

    def outside(self) -> Node | None:
        """Return what is ambient again once this scope is left: the nearest outer one not left before it."""
        while self.outer is not None and self.outer.is_left_early:
            self.outer = self.outer.outer
        return self.outer

    def next_path(self) -> str:
        """Return the path of the next savepoint in here."""
        with self.session.lock:
            self._children += 1
            name = str(self._children) if self.place is None else f"{self.place}-{self._children}"
            return f"{self.path}.{name}" if self.path else name

    def position(self, action: str, label: str | None) -> str:
        """Return the position of a call: its label's, or the action's next in here; under the session's lock."""
        if label is not None:
            return f"{self._stem}{action}@{label}"
        ordinal = self._ordinals[action] = self._ordinals.get(action, 0) + 1
        return f"{self._stem}{action}#{ordinal}"

    def next_position(self, action: str) -> str:
        """Return the position that the next unnamed call of the action would take."""
        return f"{self._stem}{action}#{self._ordinals.get(action, 0) + 1}"

    def give_back(self, action: str, position: str) -> None:
        """Free an unnamed call's position at which nothing was recorded, if no later one is taken yet."""
        with self.session.lock:
            ordinal = self._ordinals.get(action, 0)
            if position == f"{self._stem}{action}#{ordinal}":
                self._ordinals[action] = ordinal - 1

    def cancel(self) -> None:
        """Have the ending unwind, if it has not written the commit yet."""
        with self.session.lock:
            self.is_cancelled = True

    def why_closed(self) -> str | None:
        """Return why no step starts here, looking outwards too."""
        node: Node | None = self
        while node is not None:
            if node._closed is not None:  # noqa: SLF001 -- of its own class
                return node._closed  # noqa: SLF001
            node = node.parent
        return None

    def holds(self, path: str) -> bool:
        """Tell whether a scope path is this one or inside it."""
        return is_within(path, self.path)
