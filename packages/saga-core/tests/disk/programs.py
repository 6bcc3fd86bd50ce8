"""Small programs over a store: each is run whole, with a fault at each of its calls, and crashed behind each."""

from __future__ import annotations

import itertools
import os
import random
from typing import TYPE_CHECKING, NamedTuple

from saga_core import records
from saga_core.stores.boot import boot_id

from .actor import Actor
from .survivors import Doubts, Survivor, revive

if TYPE_CHECKING:
    from collections.abc import Callable

    from saga_core.records import Record

    from .stage import Stage
    from .witness import Witness

SAGAS = tuple(f"01JQ000000000000000000000{letter}" for letter in "ABC")
"""The sagas of the programs; they began on one day."""

OTHER_DAY = "01K1000000000000000000000D"


class Play:
    """A run of a program: its actors, and records that differ from each other."""

    def __init__(self, stage: Stage, witness: Witness) -> None:
        self.stage = stage
        self.witness = witness
        self._actors: list[Actor] = []
        self._number = 0

    def actor(self, process: str) -> Actor:
        """Return a process with the store open, if it can be opened."""
        actor = Actor(self.stage, self.witness, process)
        self._actors.append(actor)
        actor.open()
        return actor

    def idle(self, process: str) -> Actor:
        """Return a process that has not opened the store yet."""
        actor = Actor(self.stage, self.witness, process)
        self._actors.append(actor)
        return actor

    def cut_power(self) -> None:
        """Restart the machine with what its syncs have proven, and every name."""
        machine = self.stage.machine
        moment = machine.look()
        names = tuple(True for renaming in moment.renamings if renaming.state != "proven")
        machine.come_back_as(revive(moment, moment, Survivor(names, ()), Doubts()))
        self.stage.use(machine)
        self.witness.lose_power()

    def began(self, saga: str) -> Record:
        """Return a saga's first record."""
        return records.Began(saga, "pay", None, self._next(), 2, boot_id(), os.getpid(), "here", {})

    def noted(self, size: int = 10) -> Record:
        """Return a record of about so many bytes."""
        return records.Noted(self._next(), {"text": "x" * size})

    def committed(self) -> Record:
        return records.Committed(self._next())

    def rolled_back(self) -> Record:
        return records.RolledBack(self._next())

    def suspended(self) -> Record:
        return records.Suspended(self._next(), "waits")

    def end(self) -> None:
        """Have every process end in order."""
        for actor in self._actors:
            actor.end()

    def _next(self) -> int:
        self._number += 1
        return self._number


class Program(NamedTuple):
    """What a play does.

    Attributes:
        name: Its name.
        act: What is done.
        is_on_empty_disk: There is no store yet.
        is_alone: One process does it all: it knows which of its syncs failed.
        defers: Work in the background waits until the program lets it run.
    """

    name: str
    act: Callable[[Play], None]
    is_on_empty_disk: bool = False
    is_alone: bool = False
    defers: bool = False


def opening(play: Play) -> None:
    """Two processes open a store that is not there yet."""
    first = play.actor("a")
    second = play.actor("b")
    second.create(SAGAS[0])
    second.append(SAGAS[0], play.began(SAGAS[0]))
    second.sync(SAGAS[0])
    first.create(SAGAS[1])


def one_saga(play: Play) -> None:
    """A saga from its beginning to its end, as the engine writes it."""
    actor = play.actor("a")
    (saga, *_) = SAGAS
    actor.create(saga)
    actor.append(saga, play.began(saga), play.noted())
    actor.sync(saga)
    actor.append(saga, play.noted(), play.noted())
    actor.sync(saga)
    actor.append(saga, play.committed())
    actor.sync(saga)
    actor.settle(saga)


def long_records(play: Play) -> None:
    """Records of several sectors, and appends behind the last barrier."""
    actor = play.actor("a")
    (saga, *_) = SAGAS
    actor.create(saga)
    actor.append(saga, play.began(saga), play.noted(700))
    actor.sync(saga)
    actor.append(saga, play.noted(1300), play.noted())
    actor.sync(saga)
    actor.append(saga, play.noted(600), play.noted(), play.noted())


def suspended(play: Play) -> None:
    """A saga that waits, and goes on in another process."""
    actor = play.actor("a")
    (saga, *_) = SAGAS
    actor.create(saga)
    actor.append(saga, play.began(saga), play.noted(), play.suspended())
    actor.sync(saga)
    actor.park(saga, "suspended")
    actor.end()
    other = play.actor("b")
    if other.adopt(saga, 500):
        other.append(saga, play.noted())
        other.sync(saga)
        other.append(saga, play.rolled_back())
        other.sync(saga)
        other.settle(saga)


def two_sagas(play: Play) -> None:
    """Two sagas at once in one process."""
    actor = play.actor("a")
    one, two, *_ = SAGAS
    actor.create(one)
    actor.append(one, play.began(one))
    actor.create(two)
    actor.append(two, play.began(two), play.noted(400))
    actor.append(one, play.noted())
    actor.sync(one)
    actor.append(one, play.noted())
    actor.sync(two)
    actor.append(two, play.committed())
    actor.sync(two, one)
    actor.settle(two)
    actor.append(one, play.noted())
    actor.sync(one)


def two_processes(play: Play) -> None:
    """Two processes with a saga each; one of them is killed, and the other takes its saga over."""
    first, second = play.actor("a"), play.actor("b")
    one, two, *_ = SAGAS
    first.create(one)
    first.append(one, play.began(one), play.noted())
    second.create(two)
    second.append(two, play.began(two))
    second.sync(two)
    first.sync(one)
    first.append(one, play.noted(300))
    first.die()
    second.append(two, play.noted())
    if second.adopt(one, 500):
        second.append(one, play.rolled_back())
        second.sync(one, two)
        second.settle(one)


def taken_over(play: Play) -> None:
    """A process is killed with bytes that no sync has proven; the next one is killed, too, and a third goes on."""
    (saga, *_) = SAGAS
    first = play.actor("a")
    first.create(saga)
    first.append(saga, play.began(saga), play.noted())
    first.sync(saga)
    first.append(saga, play.noted(500), play.noted())
    first.die()
    second = play.actor("b")
    if second.adopt(saga, 500):
        second.append(saga, play.noted())
    second.die()
    third = play.actor("c")
    if third.adopt(saga, 501):
        third.append(saga, play.rolled_back())
        third.sync(saga)
        third.settle(saga)


def keyed(play: Play) -> None:
    """A key is taken by a saga, and its next generation by another one."""
    actor = play.actor("a")
    one, two, *_ = SAGAS
    actor.create(one)
    actor.append(one, play.began(one))
    actor.sync(one)
    actor.take_key("order-7", one, 1)
    actor.append(one, play.committed())
    actor.sync(one)
    actor.settle(one)
    actor.create(two)
    actor.append(two, play.began(two))
    actor.sync(two)
    actor.take_key("order-7", two, 2)


def two_days(play: Play) -> None:
    """Sagas of two days are put away, into directories that are not there yet."""
    actor = play.actor("a")
    for saga in (SAGAS[0], OTHER_DAY):
        actor.create(saga)
        actor.append(saga, play.began(saga), play.rolled_back())
        actor.sync(saga)
        actor.settle(saga)


def journals(play: Play) -> None:
    """Barriers enough to fill several journals, while the first ones wait to be retired."""
    actor = play.actor("a")
    one, two, *_ = SAGAS
    actor.create(one)
    actor.append(one, play.began(one))
    actor.sync(one)
    actor.create(two)
    actor.append(two, play.began(two), play.noted(600))
    for _ in range(3):
        actor.append(one, play.noted(900))
        actor.sync(two, one)
    play.stage.run_waiting()
    actor.append(two, play.noted(1200))
    actor.sync(two)
    actor.append(one, play.committed())
    actor.sync(one)
    actor.settle(one)
    play.stage.run_waiting()


def left_journals(play: Play) -> None:
    """A process is killed beside its journals, which wait to be retired; others go on, and tidy up."""
    one, two, *_ = SAGAS
    first = play.actor("a")
    first.create(one)
    first.append(one, play.began(one), play.noted(900))
    first.sync(one)
    first.append(one, play.noted(900))
    first.sync(one)
    first.append(one, play.noted(900))
    first.sync(one)
    first.append(one, play.noted(100))
    first.die()
    second = play.actor("b")
    if second.adopt(one, 500):
        second.append(one, play.noted(500))
        second.sync(one)
    second.tidy()
    second.create(two)
    second.append(two, play.began(two))
    second.sync(two, one)
    second.die()
    third = play.actor("c")
    third.tidy()
    if third.adopt(one, 501):
        third.append(one, play.rolled_back())
        third.sync(one)
        third.settle(one)


def handed_over(play: Play) -> None:
    """A process gives a saga up while its journals wait to be retired; they are when the next owner goes on."""
    one, two, *_ = SAGAS
    first = play.actor("a")
    first.create(one)
    first.append(one, play.began(one), play.noted(900))
    first.sync(one)
    first.create(two)
    first.append(two, play.began(two), play.noted(1300))
    first.sync(two)
    first.append(two, play.noted(1300))
    first.sync(two)
    first.release(one)
    second = play.actor("b")
    if second.adopt(one, 500):
        second.append(one, play.noted(300))
        second.sync(one)
    play.stage.run_waiting()
    second.end()


PROGRAMS = (
    Program("opening", opening, is_on_empty_disk=True),
    *(Program(act.__name__, act, is_alone=True) for act in (one_saga, long_records, two_sagas, keyed, two_days)),
    *(Program(act.__name__, act) for act in (suspended, two_processes, taken_over)),
    Program("journals", journals, defers=True),
    Program("left_journals", left_journals, defers=True),
    Program("handed_over", handed_over, defers=True),
)


def random_program(seed: int) -> Program:
    """Return a program whose steps a seed gives."""

    def act(play: Play) -> None:
        dice = random.Random(seed)
        names = (f"process {number}" for number in itertools.count(1))
        actors = [play.actor(next(names))]
        begun: list[str] = []
        for _ in range(dice.randrange(8, 22)):
            actor = dice.choice(actors)
            saga = dice.choice(SAGAS)
            match dice.randrange(14):
                case 0 | 1 if saga not in begun:
                    begun.append(saga)
                    actor.create(saga)
                    actor.append(saga, play.began(saga))
                case 2 | 3 | 4:
                    actor.append(saga, play.noted(dice.choice((5, 40, 400, 900))))
                case 5 | 6 | 7:
                    actor.sync(saga)
                case 8:
                    actor.append(saga, play.rolled_back())
                    actor.sync(saga)
                    actor.settle(saga)
                case 9:
                    actor.die()
                    actors.remove(actor)
                    actors.append(play.actor(next(names)))
                case 10 if len(actors) < 3:
                    actors.append(play.actor(next(names)))
                case 11 if dice.random() < 0.5:
                    actor.tidy()
                    play.stage.run_waiting()
                case 12:
                    actor.park(saga, "suspended")
                case _:
                    actor.adopt(saga, dice.randrange(500, 1000))

    return Program(f"random-{seed}", act, defers=bool(seed % 2))
