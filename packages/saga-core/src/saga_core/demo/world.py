"""What a demo is played on: a world that can be made as new, called, and asked what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

AMOUNT = 42_000
"""What the scripted charge takes, in cents."""


class Scripted(NamedTuple):
    """One call of the script.

    Attributes:
        words: The call as an agent would write it.
        directly: Makes it without any saga.
        recorded: Makes it through its action; called inside a scope, without a running event loop.
    """

    words: str
    directly: Callable[[], object]
    recorded: Callable[[], object]


class Holdings(NamedTuple):
    """What a world holds.

    Attributes:
        net: What stands charged, in cents: charges less refunds.
        charges: How many charges it has seen.
        refunds: How many refunds it has seen.
        lead: The Lead's status, "New" at first.
        rows_restored: Every row is as `prepare` left it.
        wires: How many wires were sent.
    """

    net: int
    charges: int
    refunds: int
    lead: str
    rows_restored: bool
    wires: int


class World(Protocol):
    """What the demo changes. Whatever its actions need to find it stands in `os.environ` from `prepare` on.

    Attributes:
        title: What it is made of, in one sentence.
        imports: The module that declares its actions, as `saga recover --import` takes it.
        agent: The command of a process that makes the calls inside a `saga_scope` in the store that SAGA_STORE names.
    """

    title: str
    imports: str
    agent: Sequence[str]

    def prepare(self) -> None:
        """Make the world as new: no charge, no wire, a Lead whose status is "New", rows as they were."""
        ...

    def calls(self) -> Sequence[Scripted]:
        """Return the script: it sets the Lead's status to "Won", changes rows, and last charges `AMOUNT` cents."""
        ...

    def wire(self) -> Scripted:
        """Return the call of an irreversible action."""
        ...

    def withhold_answer(self) -> None:
        """Let the next charge land and its answer never come."""
        ...

    def has_charged(self, within: timedelta) -> bool:
        """Return whether that charge has landed; wait for it so long at the most."""
        ...

    def read_back(self) -> Holdings:
        """Return what the world holds now, asked of each part of it."""
        ...
