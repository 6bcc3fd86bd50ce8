"""What a scripted model answers, and what each framework offers to play it."""

import importlib
import itertools
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias, cast

Calls: TypeAlias = Sequence[tuple[str, Mapping[str, Any]]]
Turn: TypeAlias = Calls | str | Exception
"""Calls that are made at once, a final text, or what asking the model raises."""

FRAMEWORKS = ("langgraph", "openai", "crewai")


class Player(Protocol):
    """One framework, set up as its README says."""

    def play(self, turns: Sequence[Turn], store: str) -> list[str]:
        """Run in this thread with synchronous tools and return what the model was shown."""
        ...

    async def play_async(self, turns: Sequence[Turn], store: str) -> list[str]:
        """Run on this loop with asynchronous tools, where the framework has them."""
        ...

    async def play_threads(self, turns: Sequence[Turn], store: str) -> list[str]:
        """Run on this loop with synchronous tools."""
        ...

    async def break_off(self, turns: Sequence[Turn], store: str) -> None:
        """Stream the run and stop listening when the first tool's result is there."""
        ...


def player_of(framework: str) -> Player:
    """Return a framework's player; importing it takes seconds."""
    return cast("Player", importlib.import_module(f"{framework}_player").Player())


class Said:
    """The turns that the model has not taken yet, numbered."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self._turns = zip(itertools.count(), turns, strict=False)
        self._lock = threading.Lock()

    def next(self) -> tuple[int, Calls | str]:
        """Take the next turn."""
        with self._lock:
            number, turn = next(self._turns)
        if isinstance(turn, Exception):
            raise turn
        return number, turn
