"""A machine with one disk, in memory: inodes, names, descriptors, locks, and what survives when it stops.

It keeps a moment behind each call that changed something, so that one run of a program yields every crash of it. A
descriptor belongs to a process; killing one closes its descriptors and leaves the page cache.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from .content import Change, Content

if TYPE_CHECKING:
    from collections.abc import Callable

FaultKind = Literal["eio", "enospc", "full", "short", "eintr", "interrupt_before", "interrupt_behind"]
"""What may befall a call: an error, half a write (and then a full disk), or an interrupt on one of its two sides."""

FULL = frozenset({"open", "pwrite", "preallocate", "truncate", "mkdir", "rename", "link"})
"""The calls that a full disk can refuse."""

_DEVICE = 7
_ROOT = 1


class Fault(NamedTuple):
    """A fault at the call of a number.

    Attributes:
        kind: Which.
        call: The first call that it befalls.
        times: How many calls of the same name, from that one on.
    """

    kind: FaultKind
    call: int
    times: int = 1


class Renaming(NamedTuple):
    """A change of names that reaches the platter as one: each name of a directory, and the inode it has then.

    Attributes:
        inode: What was named, moved or unlinked.
        names: Directory, name and inode; None where the name is gone.
        state: In doubt, proven by a sync of one of its directories, or in doubt for good after a failed one.
    """

    inode: int
    names: tuple[tuple[int, str, int | None], ...]
    state: Literal["open", "proven", "lost"] = "open"


class Moment(NamedTuple):
    """The machine behind a call.

    Attributes:
        boot: The boot.
        call: How many calls there had been.
        name: The call.
        files: Every file ever made, by inode.
        folders: The directories' names in the cache.
        proven: Their names on the platter.
        renamings: What happened to names since.
        keys: The rows of the control database.
        told: What the program had been promised, as its witness keeps it.
        torn: File, offset and data of a write, if the call was one.
    """

    boot: str
    call: int
    name: str
    files: dict[int, Content]
    folders: dict[int, dict[str, int]]
    proven: dict[int, dict[str, int]]
    renamings: tuple[Renaming, ...]
    keys: dict[tuple[str, int], str]
    told: object
    torn: tuple[int, int, bytes] | None = None


@dataclass
class File:
    """An inode that holds bytes."""

    number: int
    data: bytearray = field(default_factory=bytearray)
    proven: bytes = b""
    changes: list[Change] = field(default_factory=list[Change])
    links: int = 0
    touched: int = 0
    errors: int = 0
    content: Content | None = None

    def write(self, at: int, data: bytes, now: int) -> None:
        """Put bytes into the cache."""
        self.data.extend(bytes(max(0, at + len(data) - len(self.data))))
        self.data[at : at + len(data)] = data
        self._change(Change("write", at, data), now)

    def resize(self, size: int, now: int) -> None:
        """Cut the file, or lengthen it by zeros."""
        if size != len(self.data):
            del self.data[size:]
            self.data.extend(bytes(max(0, size - len(self.data))))
            self._change(Change("size", size), now)

    def sync(self) -> None:
        """Bring the cache to the platter, but for what an earlier sync failed to bring there."""
        if any(change.kind == "failed" for change in self.changes):
            self.changes.append(Change("synced"))
        else:
            self.proven = bytes(self.data)
            self.changes.clear()
        self.content = None

    def fail_sync(self) -> None:
        """Believe the cache to be on the platter although it is not."""
        self.errors += 1
        if self.changes:
            self.changes.append(Change("failed"))
            self.content = None

    def look(self) -> Content:
        """Return the file as it is now."""
        if self.content is None:
            self.content = Content(bytes(self.data), self.proven, tuple(self.changes))
        return self.content

    def _change(self, change: Change, now: int) -> None:
        self.changes.append(change)
        self.touched = now
        self.content = None


@dataclass
class Descriptor:
    """An open file; `errors` are those of its file's syncs that it knows of: each open file is told of each once."""

    process: str
    file: File
    lock: Literal["", "shared", "exclusive"] = ""
    errors: int = 0


class Machine:
    """The kernel and its disk.

    Attributes:
        boot: The id of this boot.
        calls: How many calls there were.
        names: The name of each call.
        moments: The machine behind each call that changed it; kept only while `is_watched`.
        fault: What befalls which call.
        is_struck: The fault has befallen one.
        is_calm: No interrupt comes.
        forgives: A directory's sync that fails leaves its names to the next one, as journalling file systems do that
            can go on at all. Else they stay in doubt for good, which only the process that met the error can know.
        before: What another process does ahead of the call of a number; its own calls are not numbered.
        told: What had been promised when the machine came back.
        tell: Returns what the running program has been promised so far.
    """

    def __init__(self, boot: str) -> None:
        self.boot = boot
        self.calls = 0
        self.names: list[str] = []
        self.moments: list[Moment] = []
        self.is_watched = False
        self.fault: Fault | None = None
        self.is_struck = False
        self.is_calm = False
        self.forgives = False
        self.before: dict[int, Callable[[], None]] = {}
        self.told: object = None
        self.tell: Callable[[], object] = lambda: None
        self.files: dict[int, File] = {}
        self.folders: dict[int, dict[str, int]] = {_ROOT: {}}
        self.proven: dict[int, dict[str, int]] = {_ROOT: {}}
        self.renamings: list[Renaming] = []
        self.keys: dict[tuple[str, int], str] = {}
        self.descriptors: dict[int, Descriptor] = {}
        self._names: tuple[dict[int, dict[str, int]], dict[int, dict[str, int]], tuple[Renaming, ...]] | None = None
        self._clock = 1_700_000_000_000_000_000
        self._next = _ROOT
        self._left = 0
        self._is_intruded = False

    @property
    def now(self) -> int:
        """The time, which passes with each call."""
        return self._clock

    def enter(self, name: str) -> FaultKind | None:
        """Number a call, let others come before it, and return the fault that the caller has to play.

        Raises:
            OSError: The fault is one.
            KeyboardInterrupt: An interrupt came ahead of the call.
        """
        self._clock += 1000
        if self._is_intruded:
            return None
        number = self.calls
        self.calls += 1
        self.names.append(name)
        if (intruder := self.before.get(number)) is not None:
            self._is_intruded = True
            try:
                intruder()
            finally:
                self._is_intruded = False
        fault = self.fault
        if fault is None:
            return None
        if number == fault.call:
            self._left = fault.times
        if number < fault.call or not self._left or name != self.names[fault.call]:
            return None
        kind = fault.kind
        if kind == "full":
            kind = "short" if self._left == fault.times else "enospc"
        self._left -= 1
        self.is_struck = True
        match kind:
            case "eio":
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            case "enospc":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            case "eintr":
                raise OSError(errno.EINTR, os.strerror(errno.EINTR))
            case "interrupt_before" if not self.is_calm:
                raise KeyboardInterrupt
            case _:
                return kind

    def leave(self, name: str, fault: FaultKind | None = None, torn: tuple[int, int, bytes] | None = None) -> None:
        """Keep the moment behind a call that changed something.

        Raises:
            KeyboardInterrupt: An interrupt came behind the call.
        """
        if self.is_watched:
            self.mark(name, torn)
        if fault == "interrupt_behind" and not self.is_calm:
            raise KeyboardInterrupt

    def note(self, name: str) -> None:
        """Keep this moment, if they are kept: something changed outside the disk."""
        if self.is_watched:
            self.mark(name)

    def mark(self, name: str, torn: tuple[int, int, bytes] | None = None) -> None:
        """Keep this moment."""
        self.moments.append(self.look(name, torn))

    def look(self, name: str = "", torn: tuple[int, int, bytes] | None = None) -> Moment:
        """Return this moment."""
        return Moment(
            self.boot,
            self.calls,
            name,
            {number: file.look() for number, file in self.files.items()},
            *self._look_at_names(),
            dict(self.keys),
            self.tell(),
            torn,
        )

    def _look_at_names(
        self,
    ) -> tuple[dict[int, dict[str, int]], dict[int, dict[str, int]], tuple[Renaming, ...]]:
        if self._names is None:
            folders = {number: dict(names) for number, names in self.folders.items()}
            proven = {number: dict(names) for number, names in self.proven.items()}
            self._names = (folders, proven, tuple(self.renamings))
        return self._names

    def come_back_as(self, other: Machine) -> None:
        """Stop, and go on with another machine's boot and disk."""
        self.boot = other.boot
        self.files, self.folders, self.proven = other.files, other.folders, other.proven
        self.renamings = other.renamings
        self._names = None
        self.descriptors.clear()

    def file_of(self, descriptor: int) -> File:
        """Return what a descriptor stands for."""
        return self.open_file(descriptor).file

    def open_file(self, descriptor: int) -> Descriptor:
        """Return an open file.

        Raises:
            OSError: It is not open.
        """
        found = self.descriptors.get(descriptor)
        if found is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return found

    def resolve(self, path: str) -> int:
        """Return the inode of a path.

        Raises:
            OSError: There is none.
        """
        at = _ROOT
        for name in path.strip("/").split("/"):
            if not name:
                continue
            folder = self.folders.get(at)
            if folder is None:
                raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            if name not in folder:
                raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            at = folder[name]
        return at

    def folder_of(self, path: str) -> tuple[int, str]:
        """Return the inode of the directory in which a path lies, and its name there.

        Raises:
            OSError: There is no such directory.
        """
        parent = self.resolve(posixpath.dirname(path))
        if parent not in self.folders:
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return parent, posixpath.basename(path)

    def rename_all(self, *names: tuple[int, str, int | None]) -> None:
        """Change names in the cache, as one."""
        self._names = None
        inode = next((number for _, _, number in names if number is not None), 0)
        for folder, name, number in names:
            old = self.folders[folder].pop(name, None)
            if old in self.files:
                self.files[old].links -= 1
                inode = inode or old
            if number is not None:
                self.folders[folder][name] = number
                if number in self.files:
                    self.files[number].links += 1
        self.renamings.append(Renaming(inode, names))

    def make_file(self) -> File:
        """Return a new file without a name."""
        number = self._new_number()
        file = self.files[number] = File(number, touched=self._clock)
        return file

    def make_folder(self) -> int:
        """Return the inode of a new directory without a name."""
        self._names = None
        number = self._new_number()
        self.folders[number] = {}
        self.proven[number] = {}
        return number

    def _new_number(self) -> int:
        self._next += 1
        while self._next in self.files or self._next in self.folders:
            self._next += 1
        return self._next

    def sync_folder(self, number: int, *, fails: bool) -> None:
        """Bring a directory's names to the platter, or fail to."""
        if fails and self.forgives:
            return
        self._names = None
        state: Literal["lost", "proven"] = "lost" if fails else "proven"
        met: set[int] = set()
        for index, renaming in reversed([*enumerate(self.renamings)]):
            if any(folder == number for folder, _, _ in renaming.names):
                met.add(renaming.inode)  # with what befell the same inode before
            if renaming.state == "open" and renaming.inode in met:
                self.renamings[index] = renaming._replace(state=state)
        while self.renamings and self.renamings[0].state == "proven":
            apply(self.renamings.pop(0), self.proven)

    def open_descriptor(self, process: str, file: File) -> int:
        """Return the number of a new open file; no number is used twice, so that a stale one is found out."""
        descriptor = _descriptors.take()
        self.descriptors[descriptor] = Descriptor(process, file, errors=file.errors)
        return descriptor

    def close(self, descriptor: int) -> None:
        """Close an open file, whose lock goes with it.

        Raises:
            OSError: It is not open.
        """
        self.open_file(descriptor)
        del self.descriptors[descriptor]

    def kill(self, process: str) -> None:
        """End a process: its descriptors are closed, and nothing else is done."""
        for descriptor in [number for number, found in self.descriptors.items() if found.process == process]:
            del self.descriptors[descriptor]

    def describe(self, number: int) -> os.stat_result:
        """Return what `stat` says of an inode."""
        file = self.files.get(number)
        if file is None:
            head = (stat.S_IFDIR | 0o700, number, _DEVICE, 2, 0, 0, 0)
            touched = self._clock
        else:
            head = (stat.S_IFREG | 0o600, number, _DEVICE, file.links, 0, 0, len(file.data))
            touched = file.touched
        seconds = touched // 1_000_000_000
        return os.stat_result((*head, seconds, seconds, seconds), {"st_mtime_ns": touched})


class _Descriptors:
    """Numbers far above those of the real ones, so that a real close of one fails."""

    def __init__(self) -> None:
        self._next = 1_000_000

    def take(self) -> int:
        self._next += 1
        return self._next


_descriptors = _Descriptors()


def apply(renaming: Renaming, folders: dict[int, dict[str, int]]) -> None:
    """Change names as a renaming did."""
    for folder, name, number in renaming.names:
        names = folders.setdefault(folder, {})
        if number is None:
            names.pop(name, None)
        else:
            names[name] = number


def restart(
    boot: str,
    files: dict[int, bytes],
    folders: dict[int, dict[str, int]],
    keys: dict[tuple[str, int], str],
) -> Machine:
    """Return a machine that found this on its platter; what no name leads to is gone."""
    machine = Machine(boot)
    machine.forgives = True
    machine.keys = dict(keys)
    machine.folders = {}
    machine.proven = {}
    reached = [_ROOT]
    while reached:
        number = reached.pop()
        names = folders.get(number, {})
        machine.folders[number] = dict(names)
        machine.proven[number] = dict(names)
        for inside in names.values():
            if inside not in files:
                if inside not in machine.folders:
                    reached.append(inside)
            elif inside in machine.files:
                machine.files[inside].links += 1
            else:
                data = files[inside]
                machine.files[inside] = File(inside, bytearray(data), data, links=1)
    return machine


def go_on(boot: str, moment: Moment) -> Machine:
    """Return a machine at a moment at which all its processes were killed: the page cache is as it was."""
    machine = Machine(boot)
    machine.forgives = True
    machine.keys = dict(moment.keys)
    machine.folders = {number: dict(names) for number, names in moment.folders.items()}
    machine.proven = {number: dict(names) for number, names in moment.proven.items()}
    machine.renamings = [one._replace(state="open") if one.state == "lost" else one for one in moment.renamings]
    for number, content in moment.files.items():
        machine.files[number] = File(number, bytearray(content.cache), content.proven, list(content.changes))
    for names in machine.folders.values():
        for number in names.values():
            if number in machine.files:
                machine.files[number].links += 1
    return machine
