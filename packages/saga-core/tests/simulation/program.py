"""Random programs: steps one after the other and side by side, savepoints, tools whose errors are swallowed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from saga_core import SagaError, saga_scope

from .remote import Declined, Lost
from .tools import ACTIONS

if TYPE_CHECKING:
    import random

    from saga_core import Saga

End = Literal["return", "raise", "rollback", "suspend"]
_LEAST, _MOST = 1, 4
_SUSPENDING: tuple[End, ...] = ("suspend",)


class Failed(Exception):
    """The program went wrong by itself."""


@dataclass(frozen=True)
class Step:
    """A call, at a named position or the next; a model may try it again, and go on behind its error."""

    action: str
    place: str
    is_placed: bool
    is_repeated: bool
    is_swallowed: bool


@dataclass(frozen=True)
class Beside:
    """Parts that run at the same time."""

    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Inner:
    """A savepoint, which may fail although its parts did not."""

    parts: tuple[Part, ...]
    fails: bool


@dataclass(frozen=True)
class Thought:
    """Time in which nothing is called."""

    seconds: float


Part = Step | Beside | Inner | Thought


@dataclass(frozen=True)
class Program:
    """What an agent does, and how it ends."""

    parts: tuple[Part, ...]
    end: End
    key: str | None
    stray: Literal["undo", "case"]


def draw_program(draw: random.Random) -> Program:
    """Draw a program."""
    key = draw.choice([None, None, "the key"])
    ends: list[End] = ["return", "return", "raise", "raise", "rollback", *(_SUSPENDING if key else ())]
    parts = _parts(draw, "", draw.randint(_LEAST, _MOST), 0)
    return Program(parts, draw.choice(ends), key, draw.choice(["undo", "undo", "case"]))


def _parts(draw: random.Random, path: str, count: int, depth: int) -> tuple[Part, ...]:
    return tuple(_part(draw, f"{path}{index}", depth) for index in range(1, count + 1))


def _part(draw: random.Random, path: str, depth: int) -> Part:
    kind = draw.random()
    if kind < 0.15 and depth < 2:
        return Beside(_parts(draw, path + "b", 2, depth + 1))
    if kind < 0.3 and depth < 2:
        return Inner(_parts(draw, path + "i", draw.randint(1, 2), depth + 1), draw.random() < 0.5)
    if kind < 0.4:
        return Thought(draw.uniform(0.0, 3.0))
    return Step(draw.choice(list(ACTIONS)), path, draw.random() < 0.7, draw.random() < 0.4, draw.random() < 0.5)


async def play(saga: Saga, parts: tuple[Part, ...]) -> None:
    """Do the parts in order."""
    for part in parts:
        match part:
            case Thought(seconds):
                await asyncio.sleep(seconds)
            case Beside(inside):
                await asyncio.gather(*(play(saga, (one,)) for one in inside))
            case Inner(inside, fails):
                await _inner(saga, inside, fails=fails)
            case Step():
                await _step(saga, part)


async def _step(saga: Saga, step: Step) -> None:
    action = ACTIONS[step.action]
    call = action.at(step.place) if step.is_placed else action
    item = f"{saga.id} {step.place}"
    try:
        try:
            await call(item)
        except (Lost, TimeoutError):
            if not step.is_repeated:
                raise
            await call(item)
    except (Lost, Declined, TimeoutError, SagaError):
        if not step.is_swallowed:
            raise


async def _inner(saga: Saga, parts: tuple[Part, ...], *, fails: bool) -> None:
    try:
        async with saga_scope("inner"):
            await play(saga, parts)
            if fails:
                raise Failed
    except Failed:
        return
