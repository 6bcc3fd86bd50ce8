"""A fuse in a process that is to die: it names the moments of a run, and acts at one of them."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any, Literal

from saga_core.stores.file import FileStore
from saga_core.stores.log import FileLog
from saga_core.stores.system import System

from .. import ledger  # noqa: TID252 -- scripts and tests find the one ledger beside them

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from saga_core.records import Record
    from saga_core.stores.file import Place

Act = Literal["kill", "interrupt", "pause", "hold"]
"""`kill`: SIGKILL, now. `interrupt`: SIGINT to itself. `pause`: say so on stdout and wait for a line on stdin.
`hold`: ask the ledger something; it holds the answer back if it was told to."""


def replace(owner: type, **parts: Any) -> None:
    """Put something else in the place of a class's parts."""
    for name, part in parts.items():
        setattr(owner, name, part)


class Fuse:
    """What to do at which moment.

    Attributes:
        moments: Every moment that was passed, in order.
        disk: Where to keep the size of each log, by inode, as it was last brought to the disk; for a loss of power.
    """

    def __init__(self) -> None:
        self.moments: list[str] = []
        self.disk: Path | None = None
        self._at = ""
        self._act: Act = "kill"
        self._then = ""
        self._counts: dict[str, int] = {}
        self._torn_to: int | None = None

    def light(self, at: str, act: Act = "kill", then: str = "") -> None:
        """Act at a moment, such as `write 2 before`, and be killed at another one behind it."""
        self._at = at
        self._act = act
        self._then = then

    def count(self, event: str) -> str:
        """Return the event with its number, counted from 1 in this process."""
        number = self._counts[event] = self._counts.get(event, 0) + 1
        return f"{event} {number}"

    def pass_by(self, moment: str) -> None:
        """Note the moment, and act if it is the one."""
        self.moments.append(moment)
        if moment == self._at:
            self._at, act, self._act = self._then, self._act, "kill"
            self._do(act)

    def around(self, event: str, work: Callable[[], Any]) -> Any:
        """Do the work between its two moments."""
        named = self.count(event)
        self.pass_by(f"{named} before")
        result = work()
        self.pass_by(f"{named} after")
        return result

    def _do(self, act: Act) -> None:
        match act:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "interrupt":
                os.kill(os.getpid(), signal.SIGINT)
            case "hold":
                ledger.find(int(os.environ["LEDGER_PORT"]), "nothing", seconds=60.0)
            case "pause":
                sys.stdout.write(f"{self.moments[-1]}\n")
                sys.stdout.flush()
                sys.stdin.readline()

    def watch_logs(self) -> None:
        """Make moments of each record written, each barrier waited for, keys taken and the move to `done/`.

        Syncs of the committer's thread come when they come; only those that a caller waits for are counted. A write is
        also torn: `write 3 torn at 20` is killed with 20 bytes of the frame in the file.
        """
        append, sync, put_away, take_key = FileLog.append, FileLog.sync, FileStore.put_away, FileStore.take_key
        pwrite, sync_data = System.pwrite, System.sync_data

        def watched_append(log: FileLog, record: Record) -> int:
            named = self.count("write")
            self.pass_by(f"{named} before")
            if self._at.startswith(f"{named} torn at "):
                self._torn_to = int(self._at.rpartition(" ")[2])
            end = append(log, record)
            self.pass_by(f"{named} after")
            self.moments[-1] += f" ({type(record).__name__}, ends at {end})"
            return end

        def watched_sync(log: FileLog, position: int) -> None:
            if threading.current_thread().name == "saga-committer":
                sync(log, position)
            else:
                self.around("sync", lambda: sync(log, position))

        def watched_put_away(store: FileStore, saga: str, source: Place) -> None:
            self.around("move", lambda: put_away(store, saga, source))

        def watched_take_key(store: FileStore, key: str, saga: str, generation: int) -> bool:
            return self.around("key", lambda: take_key(store, key, saga, generation))

        def torn_pwrite(descriptor: int, data: bytes, offset: int) -> int:
            if self._torn_to is not None:
                pwrite(descriptor, data[: self._torn_to], offset)
                os.kill(os.getpid(), signal.SIGKILL)
            return pwrite(descriptor, data, offset)

        def watched_sync_data(descriptor: int) -> None:
            status = os.fstat(descriptor)
            sync_data(descriptor)
            path = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 -- nothing else is loaded to watch it
            if self.disk is not None and path.endswith(".log"):  # a journal's inode may be a log's later
                with (self.disk / str(status.st_ino)).open("a", encoding="ascii") as file:
                    file.write(f"{status.st_size}\n")  # one write: a kill leaves it whole, or the one before

        replace(FileLog, append=watched_append, sync=watched_sync)
        replace(FileStore, put_away=watched_put_away, take_key=watched_take_key)
        replace(System, pwrite=staticmethod(torn_pwrite), sync_data=staticmethod(watched_sync_data))

    def watch_system(self) -> None:
        """Make a moment of every call of the operating system that could change something."""
        for name in ("open", "pwrite", "truncate", "flock", "mkdir", "rename", "link", "unlink", "sync_data", "close"):
            replace(System, **{name: staticmethod(self._watched_call(getattr(System, name)))})

    def _watched_call(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any) -> Any:
            self.pass_by(self.count("call"))
            return call(*args)

        return watched


FUSE = Fuse()
"""The one of this process."""
