import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from saga_core import Store, open_store
from saga_core.adapter import Session

from ..engine.world import Tools, World, declare  # noqa: TID252

_stores = itertools.count(1)


class Door:
    """The door with one kind of its verbs: `do` calls a verb or its twin, `charge` a tool in a body."""

    def __init__(self, form: str, store: Store, tools: Tools) -> None:
        self.is_sync = form == "sync"
        self.store = store
        self.tools = tools

    def open(self, **terms: Any) -> Session:
        """Open a session in the store, or in the scope that is open here."""
        if self.is_sync:
            return Session.open_sync("door", **terms)
        return asyncio.run(Session.open("door", **terms))

    def begin(self, **terms: Any) -> Session:
        """Open a session of a saga of its own."""
        return self.open(store=self.store, **terms)

    def do(self, session: Session, verb: str, *args: Any, **kwargs: Any) -> Any:
        """Call a verb of the session."""
        if self.is_sync:
            return getattr(session, verb + "_sync")(*args, **kwargs)
        return asyncio.run(getattr(session, verb)(*args, **kwargs))

    def charge(self, session: Session, place: str | None, item: str) -> dict[str, Any]:
        """Charge for an item in a body."""
        with session.body(place):
            return self.call(item)

    def call(self, item: str) -> dict[str, Any]:
        """Charge for an item in what is ambient."""
        return self.tools.charge_now(item) if self.is_sync else asyncio.run(self.tools.charge(item))

    @property
    def action(self) -> Any:
        """The action that `charge` calls."""
        return self.tools.charge_now if self.is_sync else self.tools.charge


@pytest.fixture
def world() -> Iterator[World]:
    """A ledger in which, whatever a test does, nothing is given back that was not made, and nothing twice."""
    found = World()
    yield found
    assert found.violations == []


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store of either kind."""
    found = open_store("memory:" if request.param == "memory" else f"file:{tmp_path / 'store'}")
    yield found
    found.close()


@pytest.fixture(params=["sync", "async"])
def door(request: pytest.FixtureRequest, store: Store, world: World) -> Door:
    """Both kinds of verbs, over both kinds of stores."""
    return Door(request.param, store, declare(world))
