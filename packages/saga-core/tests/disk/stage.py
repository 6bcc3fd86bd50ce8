"""The stage on which the real store runs over a simulated machine.

What reaches the system past the table of calls is taken in here: the close of a locked descriptor, the boot id, the
type of the file system, the waits for a busy lock, threads, and the control database, which is SQLite's own business:
here it is a table whose commits survive exactly when they returned.
"""

from __future__ import annotations

import io
import logging
import os
import random
import threading
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from saga_core.errors import StoreError
from saga_core.stores import boot, committer, file, fork, journal, lock, log, place, reserve
from saga_core.stores.file import FileStore
from saga_core.stores.memory import MemoryStore

from .machine import Machine
from .simdisk import SimDisk

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from saga_core.stores.encryption import Encryption
    from saga_core.stores.system import System

PLACE = "/sim/store"
"""Where the store lies."""

JOURNAL = 4096
"""Bytes of a journal: a few barriers fill one."""

PART = 500
"""Bytes of payload in a frame: longer records come in parts."""


_PERMITS = MemoryStore().permits
"""Nobody is asked and nothing is metered on the stage."""


class Table:
    """The control database of a machine."""

    def __init__(self, system: System, directory: str) -> None:
        assert isinstance(system, SimDisk)
        assert directory == PLACE
        self._machine = system.machine
        self.permits = _PERMITS

    def key_holder(self, key: str) -> tuple[str, int] | None:
        """Return the saga of a key's highest generation and that generation."""
        self._enter("select")
        newest = max((generation for held, generation in self._machine.keys if held == key), default=0)
        return (self._machine.keys[key, newest], newest) if newest else None

    def take_key(self, key: str, saga: str, generation: int) -> bool:
        """Bind a key's next generation to a saga."""
        held = self.key_holder(key)
        if (held[1] if held else 0) != generation - 1:
            return False
        self._enter("commit")
        self._machine.keys[key, generation] = saga
        self._machine.leave("commit")
        return True

    def close(self) -> None:
        """Keep nothing open."""

    def _enter(self, name: str) -> None:
        try:
            self._machine.enter(name)
        except OSError as error:
            raise StoreError(f"the control database failed: {error.strerror}", world="", next="") from error


def _file_system(_: str) -> str:
    return "ext4"


def _nothing(*_: object) -> None:
    """Register nothing: no store of the stage outlives it."""


class _Patience:
    """A clock on which a wait takes no time."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        self._now += 0.001
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += seconds


class _Thread:
    """A thread that runs when the program says so, or when somebody waits for it; else there is no room for it.

    What a thread without room was to do is done by whoever wanted it.
    """

    def __init__(self, stage: Stage, target: Callable[..., None], args: tuple[Any, ...], name: str) -> None:
        self._stage = stage
        self._target = target
        self._args = args
        self._name = name

    def start(self) -> None:
        if not self._stage.defers or self._name != "saga-retirer":
            raise RuntimeError("can't start new thread")
        self._stage.waiting.append(self)

    def is_alive(self) -> bool:
        return self in self._stage.waiting

    def join(self) -> None:
        if self in self._stage.waiting:
            self._stage.waiting.remove(self)
            self._target(*self._args)


class Stage:
    """What stands on the stage.

    Attributes:
        machine: The machine on which the store's calls land; another one takes its place after a crash.
        encryption: What the stores' logs are encrypted with.
        defers: Work in the background waits until it is let run.
        waiting: That work.
    """

    def __init__(self) -> None:
        self.machine = Machine("")
        self.encryption: Encryption | None = None
        self.defers = False
        self.waiting: list[_Thread] = []

    def use(self, machine: Machine) -> Machine:
        """Put a machine on the stage."""
        self.machine = machine
        self.defers = False
        self.waiting.clear()
        boot.boot_id.cache_clear()
        return machine

    def open(self, process: str) -> FileStore:
        """Return a process's store on the machine.

        Raises:
            StoreError: It cannot be used.
        """
        return FileStore(PLACE, SimDisk(self.machine, process), self.encryption)

    def thread(self, *, target: Callable[..., None], args: tuple[Any, ...] = (), name: str, **_: object) -> _Thread:
        """Make a thread."""
        return _Thread(self, target, args, name)

    def run_waiting(self) -> None:
        """Let what waits in the background run; no interrupt comes there."""
        self.machine.is_calm = True
        while self.waiting:
            self.waiting[0].join()
        self.machine.is_calm = False

    def close(self, descriptor: int) -> None:
        """Close a locked descriptor."""
        fork.descriptors.discard(descriptor)
        self.machine.close(descriptor)

    def boot_file(self, *_: object, **__: object) -> io.StringIO:
        """Return the file that says which boot this is."""
        return io.StringIO(self.machine.boot)


@contextmanager
def stage(seed: int = 0) -> Generator[Stage]:
    """Have the store run on simulated machines inside the block, with random bytes that a seed gives."""
    found = Stage()
    time = _Patience()
    threads: dict[str, Any] = {name: value for name, value in vars(threading).items() if name[0] != "_"}
    patches: list[tuple[Any, str, Any]] = [
        (fork, "close", found.close),
        (boot, "open", found.boot_file),
        (boot, "sys", SimpleNamespace(platform="linux")),
        (place, "file_system", _file_system),
        (file, "Control", Table),
        (lock, "time", time),
        (committer, "time", time),
        (journal, "time", time),
        (committer, "atexit", SimpleNamespace(register=_nothing)),
        *((module, "SIZE", JOURNAL) for module in (committer, journal)),
        (journal, "_AHEAD", 512),
        (reserve, "SIZE", 1024),
        (log, "_PART_SIZE", PART),
        (committer, "threading", SimpleNamespace(**(threads | {"Thread": found.thread}))),
        (os, "urandom", random.Random(seed).randbytes),
    ]
    before = [(target, name, getattr(target, name, None)) for target, name, _ in patches]
    logger = logging.getLogger("saga_core")
    level = logger.level
    for target, name, value in patches:
        setattr(target, name, value)
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield found
    finally:
        logger.setLevel(level)
        for target, name, value in before:
            if value is None:
                delattr(target, name)
            else:
                setattr(target, name, value)
        boot.boot_id.cache_clear()
        fork.descriptors.difference_update([number for number in fork.descriptors if number >= 1_000_000])


def fresh() -> Machine:
    """Return a machine with an empty disk."""
    machine = Machine("boot-1")
    machine.rename_all((1, "sim", machine.make_folder()))
    machine.sync_folder(1, fails=False)
    return machine
