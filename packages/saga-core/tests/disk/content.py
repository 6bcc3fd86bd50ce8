"""A file's bytes as the page cache has them, and what of them the platter may hold after a loss of power.

The platter takes whole sectors, in any order and at any time; the length goes there by itself. A sync that succeeds
proves what was written since the last one. A sync that fails leaves the pages clean: what it did not bring to the
platter, no later sync brings there, unless it is written again.
"""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

SECTOR = 512
"""Bytes that reach the platter as one."""


class Change(NamedTuple):
    """What happened to a file since it was last wholly on the platter.

    Attributes:
        kind: A write, a new length, a sync that succeeded, or one that failed.
        at: Where a write begins; else the new length.
        data: What was written.
    """

    kind: Literal["write", "size", "synced", "failed"]
    at: int = 0
    data: bytes = b""


class Version(NamedTuple):
    """A value that may be on the platter, and the number of changes after which it was there first."""

    born: int
    value: bytes


class Doubt(NamedTuple):
    """What a file may be after a loss of power.

    Attributes:
        proven: The bytes from which it began.
        changes: How many changes there were.
        sizes: The lengths that it may have, each with the number of changes after which it came.
        sectors: The versions of each sector that is in doubt, or was written; the newest last.
    """

    proven: bytes
    changes: int
    sizes: list[tuple[int, int]]
    sectors: dict[int, list[Version]]

    @property
    def is_certain(self) -> bool:
        """There is but one outcome."""
        return len(self.sizes) == 1 and all(len(versions) == 1 for versions in self.sectors.values())

    @property
    def outcomes(self) -> int:
        """How many outcomes there are; some may be equal."""
        number = len(self.sizes)
        for versions in self.sectors.values():
            number *= len(versions)
        return number


Pick = tuple[int, ...]
"""One outcome of a doubt: the index of its length, then that of each sector's version in the sectors' order."""


class Content(NamedTuple):
    """A file at one moment."""

    cache: bytes
    proven: bytes
    changes: tuple[Change, ...]


def doubt(content: Content) -> Doubt:
    """Return what a file may be on the platter."""
    _, proven, changes = content
    data = bytearray(proven)
    sizes = [(0, len(proven))]
    sectors: dict[int, list[Version]] = {}
    dirty: set[int] = set()
    for number, change in enumerate(changes, 1):
        if change.kind == "failed":
            dirty.clear()
            continue
        if change.kind == "synced":
            for sector in dirty:
                del sectors[sector][:-1]
            dirty.clear()
            del sizes[:-1]
            continue
        before = len(data)
        if change.kind == "write":
            end = change.at + len(change.data)
            data.extend(bytes(max(0, end - before)))
            data[change.at : end] = change.data
            last = end
        else:
            last = max(change.at, before)
            del data[change.at :]
            data.extend(bytes(max(0, change.at - len(data))))
        for sector in range(min(change.at, before) // SECTOR, -(-last // SECTOR)):
            start = sector * SECTOR
            value = bytes(data[start : start + SECTOR]).ljust(SECTOR, b"\0")
            versions = sectors.get(sector)
            if versions is None:
                versions = sectors[sector] = [Version(0, proven[start : start + SECTOR].ljust(SECTOR, b"\0"))]
            if versions[-1].value != value:
                versions.append(Version(number, value))
            dirty.add(sector)
        if len(data) != sizes[-1][1]:
            sizes.append((number, len(data)))
    return Doubt(proven, len(changes), sizes, sectors)


def outcome(found: Doubt, pick: Pick) -> bytes:
    """Return the bytes of one outcome."""
    size = found.sizes[pick[0]][1]
    data = bytearray(found.proven[:size].ljust(size, b"\0"))
    for (sector, versions), index in zip(found.sectors.items(), pick[1:], strict=True):
        start = sector * SECTOR
        part = versions[index].value[: max(0, size - start)]
        data[start : start + len(part)] = part
    return bytes(data)


def picks(found: Doubt, limit: int, dice: random.Random) -> list[Pick]:
    """Return outcomes: all if they are few; else each prefix of the changes, whole and torn, and random ones."""
    if found.outcomes <= limit:
        lengths = [range(len(found.sizes)), *(range(len(versions)) for versions in found.sectors.values())]
        return list(itertools.product(*lengths))
    shapes = list(dict.fromkeys(_shapes(found)))
    chosen = dict.fromkeys([*shapes[:3], *dice.sample(shapes[3:], max(0, min(len(shapes) - 3, limit // 2)))])
    lengths = [len(found.sizes), *(len(versions) for versions in found.sectors.values())]
    while len(chosen) < limit:
        size = dice.choice((lengths[0] - 1, dice.randrange(lengths[0])))
        chosen[(size, *(dice.randrange(length) for length in lengths[1:]))] = None
    return list(chosen)


def _shapes(found: Doubt) -> Iterator[Pick]:
    last = len(found.sizes) - 1
    newest = tuple(len(versions) - 1 for versions in found.sectors.values())
    yield (0, *(0 for _ in newest))
    yield (last, *newest)
    yield (last, *(0 for _ in newest))  # the length without the bytes: zeros
    yield (0, *newest)
    for count in range(1, found.changes + 1):
        whole = _prefix(found, count)
        before = _prefix(found, count - 1)
        yield whole
        for cut in range(1, len(newest)):  # torn: the change's first sectors only, or its last ones
            yield (whole[0], *whole[1 : cut + 1], *before[cut + 1 :])
            yield (whole[0], *before[1 : cut + 1], *whole[cut + 1 :])
        yield (last, *whole[1:])


def _prefix(found: Doubt, count: int) -> Pick:
    size = max((index for index, (born, _) in enumerate(found.sizes) if born <= count), default=0)
    sectors = (
        max((index for index, version in enumerate(versions) if version.born <= count), default=0)
        for versions in found.sectors.values()
    )
    return (size, *sectors)
