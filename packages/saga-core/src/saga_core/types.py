"""Aliases of the public surface, for annotations in users' code."""

from collections.abc import Callable, Coroutine
from typing import Any, Literal, TypeAlias, TypeVar

T = TypeVar("T")

Co: TypeAlias = Coroutine[Any, Any, T]
Reversibility: TypeAlias = Literal["read_only", "reversible", "compensable", "irreversible"]
SagaState: TypeAlias = Literal[
    "running", "suspended", "committing", "committed", "unwinding", "rolled_back", "left_in_place", "needs_human"
]
StepState: TypeAlias = Literal[
    "refused",
    "awaiting_approval",
    "held",
    "intended",
    "in_doubt",
    "applied",
    "not_landed",
    "undoing",
    "undo_in_doubt",
    "undo_pending",
    "undone",
    "undo_failed",
    "conflict",
    "left_in_place",
]
NoEffect: TypeAlias = type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool]
Money: TypeAlias = tuple[str, str | None]
Tier: TypeAlias = Literal["process", "power"]
