"""Random sessions: whatever an adapter asks of the door, the world is what a simple model of it says."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from saga_core import open_store
from saga_core.adapter import Session

from ..engine.world import World, declare  # noqa: TID252


@dataclass
class Model:
    """What should stand: each call that was made, newest last, with its place and whether it stands."""

    calls: list[tuple[str, bool]] = field(default_factory=list[tuple[str, bool]])

    @property
    def standing(self) -> list[str]:
        return [place for place, stands in self.calls if stands]

    @property
    def places(self) -> list[str]:
        return [place for place, _ in self.calls]

    def call(self, place: str) -> None:
        if place not in self.standing:
            self.calls.append((place, True))

    def undo(self, since: int, within: str = "") -> None:
        self.calls = [
            (place, stands and not (number >= since and place.startswith(within)))
            for number, (place, stands) in enumerate(self.calls)
        ]


class Play:
    """One random session, and the model beside it."""

    def __init__(self, seed: int) -> None:
        self.chance, self.world, self.model = random.Random(seed), World(), Model()
        self.charge = declare(self.world).charge_now
        self.store = open_store("memory:")
        self.session = Session.open_sync(store=self.store, key="order")

    def call(self, scope: Session, place: str) -> None:
        with scope.body(place):
            self.charge(place)
        self.model.call(place)

    def call_somewhere(self) -> None:
        self.call(self.session, f"call-{self.chance.randint(1, 6)}")

    def unwind(self) -> None:
        if self.model.calls:
            since = self.chance.choice(self.model.places)
            self.session.unwind_sync("another branch", since=since)
            self.model.undo(self.model.places.index(since))

    def suspend(self) -> None:
        self.session.suspend_sync("waits")
        self.session = Session.open_sync(store=self.store, key="order")

    def part(self) -> None:
        node = f"node-{self.chance.randint(1, 2)}"
        part = self.session.savepoint("part", place=node)
        for number in range(self.chance.randint(1, 3)):
            self.call(part, f"{node}:{number}")
            if self.chance.random() < 0.3:
                self.call_somewhere()
        if self.chance.random() < 0.2:
            part.unwind_sync("a branch of the part", since=f"{node}:0")
            self.model.undo(self.model.places.index(f"{node}:0"), f"{node}:")
        if self.chance.random() < 0.4:
            part.end_sync(ValueError("the part failed"))
            self.model.undo(0, f"{node}:")
        else:
            part.end_sync()

    def end(self) -> None:
        if self.chance.random() < 0.5:
            self.session.end_sync(ValueError("the run failed"))
            self.model.undo(0)
        else:
            self.session.commit_sync()


@pytest.mark.parametrize("seed", range(60))
def test_the_world_is_what_the_session_was_asked_for(seed: int) -> None:
    play = Play(seed)
    acts = (play.call_somewhere, play.call_somewhere, play.unwind, play.part, play.part, play.suspend)
    for act in (*play.chance.choices(acts, k=play.chance.randint(1, 14)), play.end):
        act()
        assert play.world.standing == play.model.standing
    assert play.world.violations == []
    assert play.session.report.is_clean
