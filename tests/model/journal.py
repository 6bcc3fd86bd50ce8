"""The barrier of the file store: pages, a journal and directory entries, down to what a loss of power leaves.

The protocol's model takes for granted that a barrier makes every earlier frame of a saga durable. Here this is looked
at from below: one saga's file, one journal, and every order in which the kernel, the background syncs, crashes and the
first opener of the next boot can come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

Fault = Literal[
    "journal deleted before its file is synced",
    "journal deleted before the directory is synced",
    "replay deletes the journal before it synced",
    "replay creates no missing file",
    "barrier without the journal's sync",
    "failed journal sync believed at its repeat",
]

FRAMES = 3
"""How many frames the saga writes."""


class Disk(NamedTuple):
    """The kernel's view and the platter's.

    Attributes:
        frames: Frames in the file, in the page cache; None: there is no such file.
        safe: Frames of the file that are on the platter whatever happens.
        is_named: The file's directory entry is on the platter.
        journal: Frames in the journal, in the page cache; None: it is deleted.
        logged: Frames of the journal that are on the platter.
        torn: From which frame on a failed sync left journal pages clean that are not on the platter.
        promised: Frames whose barrier has returned.
        boot: Which boot it is.
        replayed: Behind a restart: the journal was applied to the file.
        crashes: How many more there may be.
        failures: How many more syncs of the journal may fail.
    """

    frames: int | None = None
    safe: int = 0
    is_named: bool = False
    journal: int | None = 0
    logged: int = 0
    torn: int | None = None
    promised: int = 0
    boot: int = 1
    replayed: bool = False
    crashes: int = 2
    failures: int = 1


def states(fault: Fault | None = None) -> set[Disk]:
    """Return every state that the disk can come to."""
    start = Disk()
    seen = {start}
    ahead = [start]
    while ahead:
        for disk in _successors(ahead.pop(), fault):
            if disk not in seen:
                seen.add(disk)
                ahead.append(disk)
    return seen


def lost(disk: Disk) -> bool:
    """Tell whether somebody was promised a frame that an opened store does not find."""
    return (disk.boot == 1 or disk.replayed) and (disk.frames or 0) < disk.promised


def _successors(disk: Disk, fault: Fault | None) -> Iterator[Disk]:
    yield from _owner(disk, fault) if disk.boot == 1 else _opener(disk, fault)
    if disk.frames is not None and disk.safe < disk.frames:  # the kernel writes back when it likes
        yield disk._replace(safe=disk.safe + 1)
    if disk.frames is not None and not disk.is_named:
        yield disk._replace(is_named=True)
    if disk.journal is not None and disk.logged < (disk.journal if disk.torn is None else disk.torn):
        yield disk._replace(logged=disk.logged + 1)
    if disk.crashes:
        yield _without_power(disk)


def _owner(disk: Disk, fault: Fault | None) -> Iterator[Disk]:
    frames = disk.frames or 0
    if frames < FRAMES:
        yield disk._replace(frames=frames + 1)  # the file and its page, before the append returns
    if frames > disk.promised:
        yield from _barrier(disk, frames, fault)
    if disk.journal is not None and disk.frames is not None:
        file_first = fault != "journal deleted before its file is synced"
        name_first = fault != "journal deleted before the directory is synced"
        yield disk._replace(
            safe=frames if file_first else disk.safe,
            is_named=disk.is_named or name_first,
            journal=None,
            logged=0,
            torn=None,
        )


def _barrier(disk: Disk, frames: int, fault: Fault | None) -> Iterator[Disk]:
    """Bring the unproven frames to the disk: to the journal, and where its sync fails, to the file."""
    if disk.journal is None:
        yield disk._replace(journal=0)  # a fresh one
        return
    written = disk._replace(journal=frames)
    if fault == "barrier without the journal's sync":
        yield written._replace(promised=frames)
        return
    if disk.torn is not None:
        if fault == "failed journal sync believed at its repeat":
            yield written._replace(promised=frames)
        yield disk._replace(safe=frames, is_named=True, promised=frames)
        return
    yield written._replace(logged=frames, promised=frames)
    if disk.failures:
        yield written._replace(torn=disk.logged, failures=disk.failures - 1)


def _opener(disk: Disk, fault: Fault | None) -> Iterator[Disk]:
    """Open the store in another boot: apply the journal, sync, delete it; only then is anything claimed."""
    if disk.replayed:
        return
    if disk.journal is None:
        yield disk._replace(replayed=True)
        return
    is_lost = disk.frames is None and fault == "replay creates no missing file"
    extended = disk if is_lost else disk._replace(frames=max(disk.frames or 0, disk.logged))
    yield extended  # a crash can come here: what was applied is in the page cache alone
    if fault == "replay deletes the journal before it synced":
        yield extended._replace(journal=None, logged=0, replayed=True)
    else:
        yield extended._replace(safe=extended.frames or 0, is_named=True, journal=None, logged=0, replayed=True)


def _without_power(disk: Disk) -> Disk:
    """Return the disk behind a loss of power: what the platter holds, and nothing else."""
    frames = disk.safe if disk.is_named else None
    journal = None if disk.journal is None else disk.logged
    return disk._replace(
        frames=frames,
        safe=disk.safe if disk.is_named else 0,
        journal=journal,
        logged=disk.logged if journal is not None else 0,
        torn=None,
        boot=disk.boot + 1,
        replayed=False,
        crashes=disk.crashes - 1,
    )
