"""What the scripts here are told, as JSON in their one argument."""

from __future__ import annotations

from typing import Literal

import msgspec

Plan = Literal[
    "failing",
    "committing",
    "half",
    "failing_async",
    "committing_async",
    "half_async",
    "storm",
    "resume",
    "forking",
    "retrying",
    "parallel_async",
    "suspending",
    "straying",
    "idle",
    "nested",
    "contending",
    "relieved",
    "holding",
    "holding_async",
    "unholding",
]

KEPT: dict[str, frozenset[int]] = {
    "failing": frozenset(),
    "committing": frozenset({1, 2}),
    "half": frozenset({1}),
    "resume": frozenset({1, 2}),
    "forking": frozenset({1}),
    "parallel": frozenset(),
    "straying": frozenset(),
    "nested": frozenset(),
    "relieved": frozenset(),
    "holding": frozenset({1, 2, 3}),
    "unholding": frozenset(),
}
"""Which of a plan's charges stand once it has committed."""


class VictimOrders(msgspec.Struct, frozen=True):
    """Attributes:
    store: The store's directory.
    plan: What to do; `half` loses its savepoint and commits the rest.
    base: Ten times it, plus one and two, are the amounts charged: they tell whose charge it is.
    remote: Which of the bank's actions.
    at: The moment at which the fuse acts, and `act` how.
    then: The moment behind that at which it is killed.
    key: The saga's key.
    system: Count calls of the operating system too.
    faults: What to break first.
    disk: Where to keep what is on the disk of each log.
    limit: The most bytes that a file of this process may have.
    user: The user to become.
    unwind: Seconds for which the end undoes in the caller's sight.
    if_settled: What to do where the saga of the key is committed.
    stray: What a commit does with a stray.
    caught: Go on living after an interrupt, until stdin ends.
    """

    store: str
    plan: Plan = "failing"
    base: int = 1
    remote: str = "probed"
    at: str = ""
    act: Literal["kill", "interrupt", "pause", "hold"] = "kill"
    then: str = ""
    key: str | None = None
    system: bool = False
    faults: tuple[str, ...] = ()
    disk: str = ""
    limit: int = 0
    user: int = 0
    unwind: float = 30.0
    if_settled: Literal["raise", "return"] = "raise"
    stray: Literal["undo", "case"] = "undo"
    caught: bool = False


class RescuerOrders(msgspec.Struct, frozen=True):
    """Attributes:
    store: The store's directory.
    watch: Seconds for which passes are repeated, as long as something waits or is owned.
    stays: Repeat them for all of that time.
    wait: Seconds to stay with a saga in one pass.
    grace: Seconds that a saga with a key is left alone.
    is_held: Say `ready` on stdout and wait for a line on stdin before the first pass.
    at: The moment at which it is killed, or interrupted and goes on with another pass.
    act: Which of the two.
    limit: The most bytes that a file of this process may have.
    lacks: What of the bank is not there: `actions`, `inverses` or `everything`.
    faults: What to break first.
    """

    store: str
    watch: float = 0.0
    stays: bool = False
    wait: float = 5.0
    grace: float = 0.0
    is_held: bool = False
    at: str = ""
    act: Literal["kill", "interrupt"] = "kill"
    limit: int = 0
    lacks: Literal["", "actions", "inverses", "everything"] = ""
    faults: tuple[str, ...] = ()


class Told(msgspec.Struct, frozen=True):
    """What a victim says when it ends by itself."""

    saga: str
    state: str
    error: str
    moments: list[str]
    results: list[str]


class FoundOne(msgspec.Struct, frozen=True):
    """What a rescuer found about one saga in one pass."""

    saga: str
    outcome: str
    words: str
    cases: tuple[str, ...] = ()


class Rescued(msgspec.Struct, frozen=True):
    """What a rescuer says at its end: each pass, and the moments that it passed."""

    passes: list[list[FoundOne]]
    moments: list[str]
