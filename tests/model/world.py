"""The state of the model: the log in cache and on disk, what flies and what landed, and what somebody was told."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .record import Record

    Spec = tuple[str, tuple[str, ...]]


class Effect(NamedTuple):
    """One attempt at the remote.

    Attributes:
        flies: The request is on its way.
        landed: It took effect.
        undos: The keys of the undos on their way.
        undone: How often it was effectively undone.
    """

    name: str
    flies: bool = False
    landed: bool = False
    undos: tuple[str, ...] = ()
    undone: int = 0

    @property
    def is_settled(self) -> bool:
        """Nothing of it is on its way."""
        return not self.flies and not self.undos


class Thread(NamedTuple):
    """A part of the running process: what it executes, and what it was answered so far.

    Attributes:
        waits: The numbers of the threads that it has to wait for.
        got: What those of them returned that have ended.
    """

    number: int
    spec: Spec
    history: tuple[object, ...] = ()
    waits: tuple[int, ...] = ()
    got: tuple[bool, ...] = ()


class World(NamedTuple):
    """Everything.

    Attributes:
        log: The records in the page cache.
        synced: How many of them are on the disk.
        effects: What was ever sent.
        heard: The keys under which the remote has undone something.
        threads: The running process; none when it ended or died.
        crashes: How many more there may be.
        losses: How many more answers may get lost.
        told: What somebody was told of the saga's end.
        kept: The effects that the end they were told of keeps.
        wrong: What must never happen, and did.
    """

    log: tuple[Record, ...] = ()
    synced: int = 0
    effects: tuple[Effect, ...] = ()
    heard: frozenset[str] = frozenset()
    threads: tuple[Thread, ...] = ()
    crashes: int = 2
    losses: int = 2
    told: str = ""
    kept: frozenset[str] = frozenset()
    wrong: str = ""

    def effect(self, name: str) -> Effect:
        """Return an attempt at the remote."""
        return next((one for one in self.effects if one.name == name), Effect(name))

    def with_effect(self, effect: Effect) -> World:
        """Return the world with that attempt as it is now."""
        others = tuple(one for one in self.effects if one.name != effect.name)
        return self._replace(effects=tuple(sorted((*others, effect))))
