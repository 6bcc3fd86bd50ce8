"""Every state that a program can come to, whatever the disk, the network and the crashes do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .network import answers, arrivals
from .protocol import THREADS, Act, Rules
from .record import Record, tell
from .world import Thread, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .record import Story

_REST = Act("rest")


class Crash(NamedTuple):
    """A moment at which the process died, and what was left.

    Attributes:
        how: `kill`: the page cache stays; `power`: a prefix that holds all that was synced.
        before: The world in front of it.
        after: The same behind it, with nobody running.
    """

    how: str
    before: World
    after: World


class Exploration:
    """The states of one program under one set of rules.

    Attributes:
        states: How many there are.
        surviving: Every log that a crash leaves.
        ends: The worlds in which nobody has anything left to do.
        wrong: What must never happen and does, with a world in which it did.
    """

    def __init__(
        self, rules: Rules, *, crashes: int = 2, losses: int = 2, witness: Callable[[Crash], None] | None = None
    ) -> None:
        """Explore.

        Args:
            rules: The program and its rules.
            crashes: How often the process dies at most.
            losses: How many requests and answers get lost at most.
            witness: Is shown every crash.
        """
        self._rules = rules
        self._witness = witness
        self._acts: dict[Any, tuple[Act, Any]] = {}
        self.surviving: set[tuple[Record, ...]] = set()
        self.ends: list[World] = []
        self.wrong: dict[str, World] = {}
        self.states = self._explore(World(threads=(Thread(0, ("run", ("0",))),), crashes=crashes, losses=losses))

    def _explore(self, start: World) -> int:
        seen = {start}
        ahead = [start]
        while ahead:
            world = ahead.pop()
            if world.wrong:
                self.wrong.setdefault(world.wrong, world)
                continue
            successors = list(self._successors(world))
            if not successors:
                self.ends.append(world)
                wrong = wrong_at_rest(world)
                if wrong:
                    self.wrong.setdefault(wrong, world)
            for successor in successors:
                if successor not in seen:
                    seen.add(successor)
                    ahead.append(successor)
        return len(seen)

    def _successors(self, world: World) -> Iterator[World]:
        for effect in world.effects:
            yield from arrivals(world, effect, self._rules.kind)
        for thread in world.threads:
            if not thread.waits:
                yield from self._step(world, thread)
        if not world.threads:
            yield from self._resumption(world)
        if world.crashes:
            yield from self._crash(world)

    def _crash(self, world: World) -> Iterator[World]:
        """The process is killed, or the machine loses its power and comes back with some prefix of the log."""
        dead = world._replace(threads=(), crashes=world.crashes - 1)
        killed = [("kill", dead)] if world.threads else []
        kept = range(world.synced, len(world.log) + 1)
        for how, survivor in (*killed, *(("power", dead._replace(log=world.log[:n], synced=n)) for n in kept)):
            after = _judge_survivors(survivor)
            self.surviving.add(after.log)
            if self._witness is not None:
                self._witness(Crash(how, world, after))
            yield after._replace(threads=(Thread(0, ("recover", ())),))

    def _resumption(self, world: World) -> Iterator[World]:
        """A suspended saga is resumed by another run of its program."""
        runs = sum(record.what == "suspended" for record in world.log)
        if tell(world.log).is_suspended and runs < len(self._rules.program.ends):
            yield world._replace(threads=(Thread(0, ("run", (str(runs),))),), told="", kept=frozenset())

    def _step(self, world: World, thread: Thread) -> Iterator[World]:
        act, result = self._act(thread)
        if act is _REST:
            others = (one for one in world.threads if one.number != thread.number)
            yield world._replace(threads=tuple(_tell_parent(one, thread.number, result) for one in others))
        elif act.what == "become":
            yield _with(world, Thread(thread.number, (act.step, ())))
        elif act.what == "fork":
            first = max(one.number for one in world.threads) + 1
            children = tuple(Thread(first + index, spec) for index, spec in enumerate(act.about))
            after = _with(world, thread._replace(waits=tuple(child.number for child in children)))
            yield after._replace(threads=(*after.threads, *children))
        else:
            for after, answer in answers(world, act, self._rules.kind):
                yield _with(after, thread._replace(history=(*thread.history, answer)))

    def _act(self, thread: Thread) -> tuple[Act, Any]:
        """Return what a thread does next: a pure function of what it executes and was answered."""
        key = (thread.spec, thread.history)
        found = self._acts.get(key)
        if found is None:
            name, arguments = thread.spec
            generator = THREADS[name](self._rules, *arguments)
            try:
                act = next(generator)
                for answer in thread.history:
                    act = generator.send(answer)
                found = (act, None)
            except StopIteration as end:
                found = (_REST, end.value)
            self._acts[key] = found
        return found


def _with(world: World, thread: Thread) -> World:
    return world._replace(threads=tuple(thread if one.number == thread.number else one for one in world.threads))


def _tell_parent(thread: Thread, number: int, result: Any) -> Thread:
    """Give a parent its child's result; with the last one it goes on."""
    if number not in thread.waits:
        return thread
    waits = tuple(one for one in thread.waits if one != number)
    got = tuple(sorted((*thread.got, bool(result))))
    if waits:
        return thread._replace(waits=waits, got=got)
    return thread._replace(waits=(), got=(), history=(*thread.history, got))


def _judge_survivors(world: World) -> World:
    """Hold what survived a crash against the world: an effect without an intent, a told end that is gone."""
    story = tell(world.log)
    known = {record.step for record in world.log if record.what in {"intended", "released", "applied"}}
    if any((one.flies or one.landed) and one.name not in known for one in world.effects):
        return world._replace(wrong="an effect has no intent in the log")
    if world.told and world.told != (story.ended or ("suspended" if story.is_suspended else "")):
        return world._replace(wrong=f"somebody was told {world.told}, and the log forgot it")
    return world


def wrong_at_rest(world: World) -> str:
    """Return what is wrong where nobody has anything left to do; the empty text if nothing is."""
    story = tell(world.log)
    for effect in world.effects:
        step = next((one for one in story.steps if one.name == effect.name), None)
        if step is None:
            return "an effect has no intent in the log"
        is_kept = step.state == "applied" and (story.ended == "committed" or story.is_suspended) and not step.is_stray
        if effect.landed and not effect.undone and not is_kept and not step.is_cased:
            return "an effect stands, and nobody is told"
        if effect.undone and step.state != "undone" and not step.is_cased:
            return "an effect is undone, and the log does not say so"
        if step.state == "applied" and not effect.landed:
            return "an effect is kept that never landed"
    return _wrong_about_holds(story)


def _wrong_about_holds(story: Story) -> str:
    states = {step.state for step in story.steps if step.is_hold}
    is_told = any(step.is_cased for step in story.steps)
    if story.ended == "committed" and states - {"applied", "dropped"} and not is_told:
        return "a held effect of a committed saga is not sent, and nobody is told"
    return "a hold outlives its saga" if story.ended == "rolled_back" and states - {"dropped"} else ""
