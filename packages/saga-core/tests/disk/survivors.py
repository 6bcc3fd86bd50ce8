"""What the platter may hold after a loss of power: every combination, or a choice of them where they are many."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from .content import Doubt, doubt, outcome, picks
from .machine import Machine, apply, go_on, restart

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from .content import Content, Pick
    from .machine import Moment

_FEW_NAMES = 5


class Survivor(NamedTuple):
    """One of the states in which a machine may come back.

    Attributes:
        names: Which of the changes of names in doubt survived, in order.
        files: The outcome of each file in doubt, by inode.
        written: After a kill, how many bytes of the write it fell into were taken; None after a loss of power.
    """

    names: tuple[bool, ...]
    files: tuple[tuple[int, Pick], ...]
    written: int | None = None

    @property
    def text(self) -> str:
        """The state as `parse` reads it."""
        if self.written is not None:
            return f"killed:{self.written}"
        names = "".join("01"[taken] for taken in self.names)
        files = ",".join(f"{number}={'.'.join(map(str, pick))}" for number, pick in self.files)
        return f"lost:{names}:{files}"


def parse(text: str) -> Survivor:
    """Return the state of a text."""
    kind, _, rest = text.partition(":")
    if kind == "killed":
        return Survivor((), (), int(rest))
    names, _, files = rest.partition(":")
    found: list[tuple[int, Pick]] = []
    for part in files.split(",") if files else []:
        number, _, pick = part.partition("=")
        found.append((int(number), tuple(int(index) for index in pick.split("."))))
    return Survivor(tuple(name == "1" for name in names), tuple(found))


class Doubts:
    """The doubts about contents, found once each."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Content, Doubt]] = {}

    def about(self, content: Content) -> Doubt:
        """Return what a file may be."""
        held = self._found.get(id(content))
        if held is None:
            held = self._found[id(content)] = (content, doubt(content))
        return held[1]


def losses(moment: Moment, doubts: Doubts, limit: int, dice: random.Random) -> Iterator[Survivor]:
    """Yield states after a loss of power, at most about so many; all of them if they are fewer."""
    if not limit:
        return
    doubted = [renaming.inode for renaming in moment.renamings if renaming.state != "proven"]
    chosen = list(dict.fromkeys(_in_order(names, doubted) for names in _names(len(doubted), limit, dice)))
    each = max(2, limit // len(chosen))
    for names in chosen:
        reached = _reached(_folders(moment, names), moment)
        found = {number: doubts.about(moment.files[number]) for number in reached}
        uncertain = {number: one for number, one in found.items() if not one.is_certain}
        yield from (Survivor(names, tuple(files.items())) for files in _joint(uncertain, each, dice))


def _names(count: int, limit: int, dice: random.Random) -> list[tuple[bool, ...]]:
    if count <= _FEW_NAMES and 2**count <= max(limit, 2):
        return list(itertools.product((True, False), repeat=count))
    chosen = dict.fromkeys(tuple(index < kept for index in range(count)) for kept in range(count + 1))
    for _ in range(count):
        chosen[tuple(dice.random() < 0.5 for _ in range(count))] = None
    return list(chosen)


def _in_order(names: tuple[bool, ...], inodes: list[int]) -> tuple[bool, ...]:
    """Drop what comes behind a change of the same inode that is dropped: file systems keep these in order."""
    stopped: set[int] = set()
    taken: list[bool] = []
    for is_taken, inode in zip(names, inodes, strict=True):
        if not is_taken:
            stopped.add(inode)
        taken.append(inode not in stopped)
    return tuple(taken)


def _joint(found: dict[int, Doubt], limit: int, dice: random.Random) -> Iterator[dict[int, Pick]]:
    lists = {number: picks(one, limit, dice) for number, one in found.items()}
    total = 1
    for held in lists.values():
        total *= len(held)
    if total <= limit:
        for files in itertools.product(*lists.values()):
            yield dict(zip(lists, files, strict=True))
        return
    nothing = {number: (0,) * len(held[0]) for number, held in lists.items()}
    for number, held in lists.items():
        for pick in dice.sample(held, min(len(held), max(1, limit // (2 * len(lists))))):
            yield nothing | {number: pick}
    for _ in range(limit // 2):
        yield {number: dice.choice(held) for number, held in lists.items()}


def _folders(moment: Moment, names: tuple[bool, ...]) -> dict[int, dict[str, int]]:
    folders = {number: dict(held) for number, held in moment.proven.items()}
    if len(names) != sum(renaming.state != "proven" for renaming in moment.renamings):
        raise ValueError("the case was found with other code: the names in doubt are others here")
    taken = iter(names)
    for renaming in moment.renamings:
        if renaming.state == "proven" or next(taken):
            apply(renaming, folders)
    return folders


def _reached(folders: dict[int, dict[str, int]], moment: Moment) -> list[int]:
    found: dict[int, None] = {}
    ahead = [1]
    while ahead:
        for number in folders.get(ahead.pop(), {}).values():
            if number in moment.files:
                found[number] = None
            else:
                ahead.append(number)
    return list(found)


def kills(moment: Moment) -> Iterator[Survivor]:
    """Yield the states after a kill: behind the call, and within it if it was a write."""
    yield Survivor((), (), -1)
    if moment.torn is not None:
        size = len(moment.torn[2])
        for written in sorted({1, size // 2, size - 1} - {0, size}):
            yield Survivor((), (), written)


def revive(moment: Moment, before: Moment, survivor: Survivor, doubts: Doubts) -> Machine:
    """Return the machine as it comes back.

    Args:
        moment: When it stopped.
        before: The moment ahead of that one: a kill in mid-write goes on from there.
        survivor: What survived.
        doubts: The doubts about files.
    """
    if survivor.written is None:
        folders = _folders(moment, survivor.names)
        chosen = dict(survivor.files)
        files: dict[int, bytes] = {}
        for number in _reached(folders, moment):
            found = doubts.about(moment.files[number])
            files[number] = outcome(found, chosen.get(number, (0,) * (1 + len(found.sectors))))
        return restart("boot-2" if moment.boot == "boot-1" else "boot-3", files, folders, moment.keys)
    if survivor.written < 0 or moment.torn is None:
        return go_on(moment.boot, moment)
    machine = go_on(moment.boot, before)
    number, at, data = moment.torn
    machine.files[number].write(at, data[: survivor.written], machine.now)
    return machine


def image(machine: Machine) -> int:
    """Return a number that tells one platter from another."""
    parts: list[object] = [machine.boot, tuple(machine.keys.items())]
    for number, names in sorted(machine.folders.items()):
        parts.append((number, tuple(sorted(names.items()))))
    for number, file in sorted(machine.files.items()):
        parts.append((number, file.look() if file.changes else bytes(file.data)))
    return hash(tuple(parts))
