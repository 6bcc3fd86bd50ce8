"""The store of one machine: a saga is a file."""

from __future__ import annotations

import errno
import logging
import os
import resource
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from saga_core import frame
from saga_core.clock import SYSTEM as CLOCK
from saga_core.errors import LogDamaged, StoreError, StoreFull
from saga_core.ids import is_saga_id, start_date
from saga_core.stores import drafts, fork, history, lock, place, replay
from saga_core.stores.archive import Archive
from saga_core.stores.boot import boot_id
from saga_core.stores.committer import Committer
from saga_core.stores.control import Control
from saga_core.stores.log import FileLog
from saga_core.stores.names import Names
from saga_core.stores.replay import Logs
from saga_core.stores.reserve import FULL, Reserve
from saga_core.stores.system import System

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from saga_core.stores.committer import Done, Wanted
    from saga_core.stores.encryption import Cipher, Encryption
    from saga_core.stores.history import History
    from saga_core.stores.permits import Permits
    from saga_core.stores.store import Log, Reading
    from saga_core.stores.tombstone import Tombstone

Place: TypeAlias = Literal["open", "suspended", "cases"]
"""Where an unsettled saga's file lies: among those that recovery looks at, or where it waits for somebody."""

_PLACES: tuple[Place, ...] = ("open", "suspended", "cases")

_logger = logging.getLogger("saga_core.store")
_FULL = FULL | {errno.EMFILE, errno.ENFILE}
_SUFFIX = ".log"
_stores: dict[str, FileStore] = {}


def open_file_store(path: str, encryption: Encryption | None = None) -> FileStore:
    """Return this process's one store of a directory, made if it is missing.

    Raises:
        StoreError: The place cannot be used, or is open here with other keys.
    """
    real = os.path.realpath(path)
    store = _stores.get(real)
    if store is None or not store.is_in_place():
        fresh = FileStore(real, System(), encryption or from_environment())
        with fork.gate:
            if _stores.get(real) is store:
                _stores[real] = fresh
            store = _stores[real]
    if encryption is not None and store.encryption is not encryption:
        raise StoreError(
            f"the store {real} is open in this process, with other keys or without",
            world="nothing was opened",
            next="open it once, with encryption=..., before anything else uses it",
        )
    return store


def from_environment() -> Encryption | None:
    """Return the encryption that SAGA_ENCRYPTION names, None if it is not set."""
    if not os.environ.get("SAGA_ENCRYPTION"):
        return None
    from saga_core.stores import encryption  # noqa: PLC0415 -- only who encrypts loads it

    return encryption.from_environment()


class FileStore:
    """Sagas in a directory: `open/<saga>.log`, then `done/<start date>/<saga>.log`.

    One that waits for a run to resume it lies in `suspended/`, one that waits for a person in `cases/`: recovery does
    not look at them again and again.
    """

    def __init__(self, path: str, system: System, encryption: Encryption | None = None) -> None:
        """Open a directory by its real path, made if it is missing; with keys, its new logs are encrypted.

        Raises:
            StoreError: It cannot be used.
        """
        self.url = f"file:{path}"
        self.system = system
        self.encryption = encryption
        self.identity = place.prepare(system, path)
        self._path = path
        self._stat = self._looked(path)
        self._done = os.path.join(path, "done")
        self.control = Control(system, path)
        self.archive = Archive(system, self._done, self.identity, encryption)
        self.reserve = Reserve(system, os.path.join(path, "reserve"))
        self.names = Names(system, os.path.join(path, "open"))
        self._journals = Logs(
            system, os.path.join(path, "journals"), self.path_of, self.archive.is_gone, self._open_path
        )
        self._logs: dict[str, FileLog] = {}
        self._dates: set[str] = set()
        self._unreliable: frozenset[tuple[str, int]] = frozenset()
        self._replay()
        self.committer = Committer(self._journals)
        fork.watch(self)

    def _looked(self, path: str) -> os.stat_result:
        try:
            return self.system.stat(path)
        except OSError as error:
            raise StoreError(
                f"no store can be used at {path}: {error.strerror}",
                world="nothing was opened",
                next="look at the disk under it",
            ) from error

    def _replay(self) -> None:
        try:
            replay.replay(self._journals)
            self._unreliable = replay.unreliable(self._journals)
        except OSError as error:
            raise StoreError(
                f"the journals in {self._path} cannot be replayed after the restart of the machine: {error.strerror}",
                world="nothing was opened; the newest records of its sagas are in the journals",
                next="make room or repair the disk, or open it as a user who may write there",
            ) from error

    def is_in_place(self) -> bool:
        """Tell whether the directory is still the one that was opened."""
        try:
            return os.path.samestat(self.system.stat(self._path), self._stat)
        except OSError:
            return False

    def close(self) -> None:
        self.committer.stop()
        self.control.close()

    def create(self, saga: str) -> FileLog:
        if not is_saga_id(saga):
            raise StoreError(f"{saga!r} is no saga id", world="nothing was opened", next="take ids.new_saga_id()")
        self._refuse_when_full(saga)
        path = self._open_path(saga)
        draft = path + drafts.SUFFIX
        descriptor = -1
        try:
            if self.system.exists(path):
                raise FileExistsError(errno.EEXIST, "its log exists")
            self.reserve.hold()
            descriptor = lock.create(self.system, draft)
            header, cipher = self._new_header(saga, descriptor)
            self.system.write_all(descriptor, header.pack(), 0)
            self.system.rename(draft, path)  # whoever finds the file finds it locked and with its header
        except BaseException as error:
            if descriptor >= 0:
                with suppress(OSError):
                    self.system.unlink(draft)
                fork.close(descriptor)
            if isinstance(error, OSError):
                raise self._no_log(saga, error) from error
            raise
        log = self._logs[saga] = FileLog(self, saga, descriptor, header, cipher=cipher)
        return log

    def _refuse_when_full(self, saga: str) -> None:
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        taken = len(fork.descriptors)
        if limit != resource.RLIM_INFINITY and taken >= limit // 2:
            raise StoreFull(
                f"{taken} logs are open in this process, half of its {limit} file descriptors",
                saga_id=saga,
                world="nothing was opened; the running sagas go on",
                next="run fewer sagas at once, or raise the limit (ulimit -n)",
            )

    def claim(self, saga: str) -> tuple[FileLog, Reading] | None:
        if saga in self._logs or not is_saga_id(saga):
            return None
        for where in _PLACES:
            path = self._path_in(where, saga)
            try:
                descriptor = lock.take(self.system, path)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise self._no_log(saga, error) from error
            return None if descriptor is None else self._claimed(saga, path, descriptor, where)
        return None

    def _claimed(self, saga: str, path: str, descriptor: int, where: Place) -> tuple[FileLog, Reading]:
        try:
            found = self._history(descriptor, saga, live=False, settled=False)
            damage = found.reading.damage or self._twin_of(saga)
            if damage:
                raise LogDamaged(
                    f"the log of saga {saga} cannot be trusted: {damage}",
                    saga_id=saga,
                    world="nothing was done in its name; its effects stand as they are",
                    next=f"a person must settle its effects: {path} is kept as it is",
                )
            header, cipher = found.parsed.header, found.cipher
            if header is None:
                header, cipher = self._new_header(saga, descriptor)
            log = FileLog(self, saga, descriptor, header, place=where, cipher=cipher)
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
        if found is None or (found.reading.settled and self._is_erased(saga)):
            return self._in_archive(saga)
        reading = found.reading
        if not reading.settled and not reading.damage and (twin := self._twin_of(saga)):
            reading = reading.damaged(twin)
        if reading.records or reading.damage:
            return reading
        # A free file without records is left from a power cut: whoever recovers claims it and puts it away.
        return None if reading.settled or self._is_owned(saga) else reading

    def _is_erased(self, saga: str) -> bool:
        try:
            return self.archive.is_erased(saga)
        except OSError as error:
            raise self._no_log(saga, error) from error

    def _in_archive(self, saga: str) -> Reading | None:
        try:
            return self.archive.read(saga) if is_saga_id(saga) else None
        except OSError as error:
            raise self._no_log(saga, error) from error

    def tombstone(self, saga: str) -> Tombstone | None:
        try:
            return self.archive.tombstone(saga) if is_saga_id(saga) else None
        except OSError as error:
            raise self._no_log(saga, error) from error

    def _find(self, saga: str) -> History | None:
        """Return what the file of a saga says, in whichever place it lies."""
        if not is_saga_id(saga):
            return None
        while (path := self._where(saga)) is not None:
            try:
                descriptor = self.system.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue  # it was moved meanwhile
            except OSError as error:
                raise self._no_log(saga, error) from error
            settled = path == self._done_path(saga)
            try:
                found = self._history(descriptor, saga, live=False, settled=settled)
                if not settled and (found.reading.damage or found.reading.dropped):
                    # Asked before the file is read again: an owner that ended is not blamed.
                    live = self._is_owned(saga)
                    found = self._history(descriptor, saga, live=live, settled=False)
            except OSError as error:
                raise self._no_log(saga, error) from error
            else:
                return found
            finally:
                self.system.close(descriptor)
        return None

    def _history(self, descriptor: int, saga: str, *, live: bool, settled: bool) -> History:
        found = history.read(
            self.system, descriptor, saga, self.identity, live=live, settled=settled, encryption=self.encryption
        )
        return found if settled else history.doubted(found, self._unreliable)

    def owner(self, saga: str) -> str | None:
        if not is_saga_id(saga) or not self._is_owned(saga):
            return None
        found = self._find(saga)
        record = history.newest_owner(found.reading) if found else None
        if record is None:
            return "a process that has not written yet"
        age = CLOCK.up() - record.up if record.boot == boot_id() else CLOCK.wall() - record.at
        return f"pid {record.pid}, for {max(0, age) // 1_000_000_000} s"

    def _is_owned(self, saga: str) -> bool:
        if saga in self._logs:
            return True
        for where in _PLACES:
            try:
                return lock.is_held(self.system, self._path_in(where, saga))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise self._no_log(saga, error) from error
        return False

    def open_sagas(self) -> Iterator[str]:
        return iter(self._sagas_of(*_PLACES))

    def due_sagas(self) -> Iterator[str]:
        return iter(self._sagas_of("open"))

    def parked_sagas(self, place: Literal["suspended", "cases"]) -> Iterator[str]:
        return iter(self._sagas_of(place))

    def _sagas_of(self, *places: Place) -> list[str]:
        return sorted({saga for where in places for saga in self._sagas_in(os.path.join(self._path, where))})

    def done_sagas(self) -> Iterator[str]:
        return self.archive.sagas()

    def erased_sagas(self) -> Iterator[str]:
        return self.archive.erased()

    def _sagas_in(self, directory: str) -> list[str]:
        names = (name.removesuffix(_SUFFIX) for name in self._names_in(directory) if name.endswith(_SUFFIX))
        return [name for name in names if is_saga_id(name)]

    def _names_in(self, directory: str) -> list[str]:
        try:
            return self.system.listdir(directory)
        except NotADirectoryError:
            return []
        except OSError as error:
            raise StoreError(
                f"the store cannot be listed: {directory}: {error.strerror}",
                world="nothing was done",
                next="look at the disk; if the store was deleted, its sagas' effects stand as they were",
            ) from error

    @property
    def permits(self) -> Permits:
        return self.control.permits

    def key_holder(self, key: str) -> tuple[str, int] | None:
        return self.control.key_holder(key)

    def take_key(self, key: str, saga: str, generation: int) -> bool:
        return self.control.take_key(key, saga, generation)

    def let_go(self, saga: str) -> None:
        """Forget a log that is being given up; called by the log."""
        self._logs.pop(saga, None)

    def move(self, saga: str, source: Place, target: Place) -> None:
        """Move an unsettled saga's file from one place to another.

        Raises:
            OSError: It stays where it is.
        """
        self.system.rename(self._path_in(source, saga), self._path_in(target, saga))

    def put(self, saga: str, source: Place, target: Place) -> None:
        """Move it where it can be moved; where it stays, recovery looks at it more often than it had to."""
        try:
            if source != target:
                self.move(saga, source, target)
        except OSError as error:
            _logger.warning(
                "the log of saga %s stays in %s: %s", saga, os.path.join(self._path, source), error.strerror
            )

    def put_away(self, saga: str, source: Place) -> None:
        """Move a settled saga's file; where that fails it stays, and the next who looks moves it. Called by the log."""
        path, target = self._path_in(source, saga), self._done_path(saga)
        try:
            self._rename_away(path, target)
        except OSError as error:
            _logger.warning("the log of saga %s is settled and stays in %s: %s", saga, self._path, error.strerror)

    def _rename_away(self, path: str, target: str) -> None:
        date = os.path.dirname(target)
        if date in self._dates:
            with suppress(FileNotFoundError):  # the day was packed, and its directory removed
                self.system.rename(path, target)
                return
        with suppress(FileExistsError):
            self.system.mkdir(date, 0o700)
        self.system.sync_dir(self._done)  # first: a log must not be moved to where no name on disk leads
        self._dates.add(date)
        self.system.rename(path, target)

    def tidy(self) -> None:
        """Bring to the disk what processes that are gone left to their journals, and delete these and their drafts."""
        try:
            replay.retire_dead(self._journals)
            for name in ("open", "journals"):
                drafts.clear(self.system, os.path.join(self._path, name))
        except OSError as error:
            _logger.warning("what dead processes left in %s stays: %s", self._path, error.strerror)

    def journals_with(self, saga: str) -> list[str]:
        """Return the journals that still hold records of a saga when this process's own and the dead ones are gone.

        Raises:
            OSError: This process's own has to stay.
        """
        if not self.committer.end_journal():
            raise OSError(errno.EIO, "a log that the journal holds could not be synced")
        self.tidy()
        return replay.naming(self._journals, saga)

    def sync_later(self, wanted: Sequence[tuple[Log, int]], done: Done) -> None:
        self.committer.sync_later(cast("Sequence[Wanted]", wanted), done)

    def die_in_child(self) -> None:
        """Begin anew in a forked child: the logs are the parent's."""
        for log in self._logs.values():
            log.die_in_child()
        self._logs = {}
        self.names.renew_lock()
        self.reserve.renew_lock()
        self.control.die_in_child()
        self.committer.renew()

    def _new_header(self, saga: str, descriptor: int) -> tuple[frame.FileHeader, Cipher | None]:
        inode, generation = self.system.identity(descriptor)
        header = frame.FileHeader(saga, self.identity, boot_id(), inode, frame.new_salt(), generation=generation)
        if self.encryption is None:
            return header, None
        cipher = self.encryption.cipher(self.encryption.current, header.salt, saga)
        return header._replace(key=self.encryption.current, check=cipher.check), cipher

    def _path_in(self, where: Place, saga: str) -> str:
        return f"{self._path}/{where}/{saga}{_SUFFIX}"

    def _open_path(self, saga: str) -> str:
        return self._path_in("open", saga)

    def _done_path(self, saga: str) -> str:
        return f"{self._done}/{start_date(saga)}/{saga}{_SUFFIX}"

    def path_of(self, saga: str) -> str | None:
        """Return where the file of a saga lies, settled or not; None if it has none."""
        paths = [*(self._path_in(where, saga) for where in _PLACES), self._done_path(saga)]
        for path in paths * 2:  # twice: it can have been moved to a place that was looked at already
            if self.system.exists(path):
                return path
        return None

    def _where(self, saga: str) -> str | None:
        try:
            return self.path_of(saga)
        except OSError as error:
            raise self._no_log(saga, error) from error

    def _twin_of(self, saga: str) -> str | None:
        try:
            return self._twin(saga)
        except OSError as error:
            raise self._no_log(saga, error) from error

    def _twin(self, saga: str) -> str | None:
        """Return words if a saga's log lies in two places; one that is just being moved is one file in both."""
        found: dict[int, str] = {}
        for path in [self._done_path(saga), *(self._path_in(where, saga) for where in reversed(_PLACES))]:
            with suppress(FileNotFoundError, NotADirectoryError):
                found.setdefault(self.system.stat(path).st_ino, os.path.relpath(os.path.dirname(path), self._path))
        if self.archive.holds(saga):
            found[0] = "done"  # packed or erased
        if len(found) > 1:
            return f"it lies in {' and in '.join(sorted(set(found.values())))}: a restored copy, perhaps"
        return None

    def _no_log(self, saga: str, error: OSError) -> StoreError:
        kind = StoreFull if error.errno in _FULL else StoreError
        return kind(
            f"the log of saga {saga} could not be opened in {self._path}: {error.strerror}",
            saga_id=saga,
            world="nothing was called",
            next="make room or repair the disk under the store, or name another one: store=..., SAGA_STORE",
        )
