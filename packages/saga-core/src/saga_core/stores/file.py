"""The store of one machine: a saga is a file."""

from __future__ import annotations

import errno
import logging
import os
import resource
from typing import TYPE_CHECKING

from saga_core import frame
from saga_core.clock import SYSTEM as CLOCK
from saga_core.errors import LogDamaged, StoreError, StoreFull
from saga_core.frame import FileHeader
from saga_core.ids import is_saga_id, start_date
from saga_core.stores import fork, history, lock, place
from saga_core.stores.committer import Committer
from saga_core.stores.control import Control
from saga_core.stores.log import FileLog
from saga_core.stores.system import System, boot_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from saga_core.stores.history import History
    from saga_core.stores.store import Log, Reading

_logger = logging.getLogger("saga_core.store")
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE})
_stores: dict[str, FileStore] = {}


def open_file_store(path: str) -> FileStore:
    """Return this process's one store of a directory, made if it is missing.

    Raises:
        StoreError: The place cannot be used.
    """
    real = os.path.realpath(path)
    with fork.gate:
        store = _stores.get(real)
        if store is None or not store.is_in_place():
            if not _stores:
                fork.on_fork(_die_in_child)
            store = _stores[real] = FileStore(real, System())
    return store


def _die_in_child() -> None:
    for store in _stores.values():
        store.die_in_child()


class FileStore:
    """Sagas in a directory: `open/<saga>.log`, then `done/<start date>/<saga>.log`."""

    def __init__(self, path: str, system: System) -> None:
        self.url = f"file:{path}"
        self.system = system
        self.identity = place.prepare(system, path)
        self._path = path
        self._place = _place_of(path)
        self._open = os.path.join(path, "open")
        self._done = os.path.join(path, "done")
        self.entries = place.Entries(system, self._open)
        self.committer = Committer()
        self._control = Control(system, path)
        self._logs: dict[str, FileLog] = {}

    def is_in_place(self) -> bool:
        """Tell whether the directory is still the one that was opened."""
        try:
            return _place_of(self._path) == self._place
        except OSError:
            return False

    def close(self) -> None:
        self.committer.stop()

    def create(self, saga: str) -> Log:
        if not is_saga_id(saga):
            raise StoreError(f"{saga!r} is no saga id", world="nothing was opened")
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if len(fork.descriptors) >= limit // 2:
            raise StoreFull(
                f"{len(fork.descriptors)} logs are open in this process, half of its {limit} descriptors",
                saga_id=saga,
                world="nothing was opened; running sagas go on",
                next="run fewer sagas at once, or raise the limit (ulimit -n)",
            )
        path = self._open_path(saga)
        draft = path + ".new"
        descriptor = -1
        try:
            descriptor = lock.create(self.system, draft)
            header = self._new_header(saga, descriptor)
            self.system.write_all(descriptor, header.pack(), 0)
            if os.path.exists(path):
                raise FileExistsError(errno.EEXIST, "its log exists already")
            self.system.rename(draft, path)
        except BaseException as error:
            if descriptor >= 0:
                self.system.unlink(draft)
                fork.close(descriptor)
            if isinstance(error, OSError):
                raise self._no_log(saga, error) from error
            raise
        log = FileLog(self, saga, descriptor, header)
        self._logs[saga] = log
        return log

    def claim(self, saga: str) -> tuple[Log, Reading] | None:
        if saga in self._logs or not is_saga_id(saga):
            return None
        path = self._open_path(saga)
        try:
            descriptor = lock.take(self.system, path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._no_log(saga, error) from error
        if descriptor is None:
            return None
        try:
            found = history.read(self.system, descriptor, saga, self.identity)
            damage = found.reading.damage or self._twin(saga)
            if damage:
                raise LogDamaged(
                    f"the log of saga {saga} is damaged: {damage}",
                    saga_id=saga,
                    world="nothing was done in its name; its effects stand as they are",
                    next=f"look at {path}, settle its effects by hand; `saga cases` keeps it",
                )
            log = FileLog(self, saga, descriptor, found.parsed.header or self._new_header(saga, descriptor))
            log.resume(found.data, found.parsed)
        except BaseException as error:
            fork.close(descriptor)
            if isinstance(error, OSError):
                raise self._no_log(saga, error) from error
            raise
        self._logs[saga] = log
        return log, found.reading

    def read(self, saga: str) -> Reading | None:
        found = self._find(saga)
        if found is None:
            return None
        reading = found.reading
        if not reading.settled and (twin := self._twin(saga)):
            reading = reading._replace(damage=reading.damage or twin)
        return reading if reading.records or reading.damage else None

    def _find(self, saga: str) -> History | None:
        """Return what the file of a saga says, wherever it lies."""
        if not is_saga_id(saga):
            return None
        for path, settled in ((self._open_path(saga), False), (self._done_path(saga), True)):
            try:
                descriptor = self.system.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise self._no_log(saga, error) from error
            try:
                found = history.read(self.system, descriptor, saga, self.identity, settled=settled)
                if not settled and (found.reading.damage or found.reading.dropped):
                    is_live = self._is_owned(saga)
                    found = history.read(self.system, descriptor, saga, self.identity, live=is_live)
                return found
            except OSError as error:
                raise self._no_log(saga, error) from error
            finally:
                self.system.close(descriptor)
        return None

    def owner(self, saga: str) -> str | None:
        if not is_saga_id(saga) or not self._is_owned(saga):
            return None
        found = self._find(saga)
        record = history.newest_owner(found.reading) if found else None
        if record is None:
            return "a process that has not written yet"
        if record.boot == boot_id():
            age = CLOCK.up() - record.up
        else:
            age = CLOCK.wall() - record.at
        return f"pid {record.pid}, for {max(0, age) // 1_000_000_000} s"

    def _is_owned(self, saga: str) -> bool:
        if saga in self._logs:
            return True
        try:
            return lock.is_held(self.system, self._open_path(saga))
        except FileNotFoundError:
            return False

    def open_sagas(self) -> Iterator[str]:
        return iter(sorted(self._names(self._open)))

    def done_sagas(self) -> Iterator[str]:
        for date in sorted(self.system.listdir(self._done), reverse=True):
            yield from sorted(self._names(os.path.join(self._done, date)), reverse=True)

    def _names(self, directory: str) -> list[str]:
        names = self.system.listdir(directory)
        return [name[:-4] for name in names if name.endswith(".log") and is_saga_id(name[:-4])]

    def key_holder(self, key: str) -> tuple[str, int] | None:
        return self._control.key_holder(key)

    def take_key(self, key: str, saga: str, generation: int) -> bool:
        return self._control.take_key(key, saga, generation)

    def sync_later(self, log: Log, position: int, done: Callable[[BaseException | None], None]) -> None:
        self.committer.sync_later(log, position, done)  # pyright: ignore[reportArgumentType]

    def let_go(self, saga: str) -> None:
        """Forget a log that is being given up; called by the log."""
        self._logs.pop(saga, None)

    def put_away(self, saga: str) -> None:
        """Move a settled saga's file; where that fails it stays, and whoever looks next moves it. Called by the log."""
        path, target = self._open_path(saga), self._done_path(saga)
        try:
            try:
                self.system.rename(path, target)
            except FileNotFoundError:
                self.system.mkdir(os.path.dirname(target), 0o700)
                self.system.rename(path, target)
        except OSError as error:
            _logger.warning("the log of the settled saga %s stays in %s: %s", saga, self._open, error)

    def die_in_child(self) -> None:
        """Begin anew in a forked child: the logs were the parent's."""
        for log in self._logs.values():
            log.die_in_child()
        self._logs = {}
        self.entries.renew()
        self.committer.renew()

    def _new_header(self, saga: str, descriptor: int) -> FileHeader:
        inode = self.system.fstat(descriptor).st_ino
        return FileHeader(saga, self.identity, boot_id(), inode, frame.new_salt())

    def _open_path(self, saga: str) -> str:
        return f"{self._open}/{saga}.log"

    def _done_path(self, saga: str) -> str:
        return f"{self._done}/{start_date(saga)}/{saga}.log"

    def _twin(self, saga: str) -> str | None:
        """Return words if a saga lies among the open ones and the settled ones."""
        if os.path.exists(self._done_path(saga)) and os.path.exists(self._open_path(saga)):
            return "it lies in open/ and in done/: a restored copy, perhaps"
        return None

    def _no_log(self, saga: str, error: OSError) -> StoreError:
        kind = StoreFull if error.errno in _FULL else StoreError
        return kind(
            f"the log of saga {saga} could not be opened in {self._path}: {error.strerror}",
            saga_id=saga,
            world="nothing was called",
            next="make room or repair the disk under the store, or name another one: store=..., SAGA_STORE",
        )


def _place_of(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino
