"""What probes, inverses and undo factories answer: a closed set of values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import msgspec

if TYPE_CHECKING:
    from datetime import timedelta

T = TypeVar("T")


class Landed(Generic[T]):
    """The effect stands at the remote; `result` is what the call would have returned. Final at once."""

    __slots__ = ("result",)

    def __init__(self, result: T) -> None:
        self.result = result


class NotLanded:
    """The remote knows nothing of the effect. Counts only when asked `lands_within` after the last possible send."""

    __slots__ = ()


class Unknown:
    """The remote could not tell, for `reason`; asked again later, a person decides in the end."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


Probed: TypeAlias = "Landed[T] | NotLanded | Unknown"


class AlreadyUndone:
    """Somebody undid the effect before: counts as undone."""

    __slots__ = ()


class Pending:
    """The undo was accepted and is not settled; observed again after `check_after`.

    Attributes:
        ref: The remote's name of the pending undo.
        check_after: How long to wait before `@inverse.observe` is asked.
    """

    __slots__ = ("check_after", "ref")

    def __init__(self, ref: str, *, check_after: timedelta) -> None:
        self.ref = ref
        self.check_after = check_after


class Conflict:
    """Somebody else changed what the saga wrote: nothing was overwritten, a person decides."""

    __slots__ = ("found", "wrote")

    def __init__(self, *, wrote: object, found: object) -> None:
        self.wrote = wrote
        self.found = found


Undone: TypeAlias = "AlreadyUndone | Pending | Conflict | None"


class Compensation(msgspec.Struct, frozen=True, array_like=True):
    """One inverse bound to JSON arguments; made by `Inverse.bind`."""

    inverse: str
    version: int
    args: Mapping[str, Any]


class Receipt:
    """What a held action returns: staged until commit, not done.

    Attributes:
        id: Names the held step.
        action: The action's registered name.
        text: The same in words that a model can read.
    """

    __slots__ = ("action", "id", "text")

    def __init__(self, id: str, action: str, text: str) -> None:  # noqa: A002 -- the public attribute's name
        self.id = id
        self.action = action
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Receipt) and (self.id, self.action) == (other.id, other.action)

    def __hash__(self) -> int:
        return hash((self.id, self.action))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<receipt {self.id} of {self.action!r}: staged, not done>"
