"""Two processes at once: one acts between any two calls of the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .programs import SAGAS, Play, Program
from .simdisk import WouldWait

if TYPE_CHECKING:
    from collections.abc import Callable

    from .actor import Actor

    Race = Callable[[Play], tuple[Callable[[], object], Callable[[], object], Actor]]

(_SAGA, _OTHER, *_) = SAGAS


def _left(play: Play, *, syncs: bool = True) -> None:
    actor = play.actor("a")
    actor.create(_SAGA)
    actor.append(_SAGA, play.began(_SAGA), play.noted())
    if syncs:
        actor.sync(_SAGA)
    actor.append(_SAGA, play.noted())
    actor.die()


def settled_meanwhile(play: Play) -> tuple[Callable[[], object], Callable[[], object], Actor]:
    """One claims a saga while its owner settles it."""
    owner, other = play.actor("a"), play.actor("b")
    owner.create(_SAGA)
    owner.append(_SAGA, play.began(_SAGA), play.rolled_back())
    owner.sync(_SAGA)
    return lambda: other.adopt(_SAGA, 500), lambda: owner.settle(_SAGA), owner


def parked_meanwhile(play: Play) -> tuple[Callable[[], object], Callable[[], object], Actor]:
    """One claims a saga while its owner parks it."""
    owner, other = play.actor("a"), play.actor("b")
    owner.create(_SAGA)
    owner.append(_SAGA, play.began(_SAGA), play.suspended())
    owner.sync(_SAGA)
    return lambda: other.adopt(_SAGA, 500), lambda: owner.park(_SAGA, "suspended"), owner


def two_recoverers(play: Play) -> tuple[Callable[[], object], Callable[[], object], Actor]:
    """Two take over what a killed process left."""
    _left(play)
    one, other = play.actor("b"), play.actor("c")
    return lambda: _end(play, one, 500), lambda: _end(play, other, 600), other


def two_tidiers(play: Play) -> tuple[Callable[[], object], Callable[[], object], Actor]:
    """Two retire what a killed process left to its journals, and one of them goes on with its saga."""
    _left(play)
    one, other = play.actor("b"), play.actor("c")

    def both() -> None:
        other.tidy()
        _end(play, other, 600)

    return one.tidy, both, other


def two_openers(play: Play) -> tuple[Callable[[], object], Callable[[], object], Actor]:
    """Two open a store whose machine has lost power, and replay its journals."""
    _left(play)
    play.cut_power()
    one, other = play.idle("b"), play.idle("c")

    def both() -> None:
        other.open()
        _end(play, other, 600)

    return one.open, both, other


def _end(play: Play, actor: Actor, number: int) -> None:
    if actor.adopt(_SAGA, number):
        actor.append(_SAGA, play.rolled_back())
        actor.sync(_SAGA)
        actor.settle(_SAGA)


RACES = {
    race.__name__: race for race in (settled_meanwhile, parked_meanwhile, two_recoverers, two_tidiers, two_openers)
}


def race_program(name: str) -> Program:
    """Return the race of a name and the number of the call ahead of which the second process acts: `race-NAME-7`."""
    kind, number = name.removeprefix("race-").rsplit("-", 1)

    def act(play: Play) -> None:
        mine, theirs, other = RACES[kind](play)
        machine = play.stage.machine

        def intrude() -> None:
            try:
                theirs()
            except WouldWait:
                other.die()

        machine.before[machine.calls + int(number)] = intrude
        mine()

    return Program(name, act)


def calls_of(play: Play, kind: str) -> int:
    """Return how many calls the first process of a race makes, undisturbed."""
    mine, _, _ = RACES[kind](play)
    before = play.stage.machine.calls
    mine()
    return play.stage.machine.calls - before
