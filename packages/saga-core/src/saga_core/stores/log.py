"""One saga's file in the hands of its owner."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from saga_core import codec, frame
from saga_core.errors import SagaError, SagaForked, StoreError
from saga_core.records import Adopted, Record, kind_of
from saga_core.stores import fork

if TYPE_CHECKING:
    from collections.abc import Callable

    from saga_core.frame import FileHeader, Parsed
    from saga_core.stores.file import FileStore

_encode = codec.encode
_build = frame.build
_kinds: dict[type[Record], int] = {}


class FileLog:
    """A locked file, its end, and those bytes of it that are not proven to be on disk.

    One lock guards all fields. An append holds it throughout; a sync holds it to begin and to end, and whoever closes
    the descriptor waits for the sync in flight.
    """

    def __init__(self, store: FileStore, saga: str, descriptor: int, header: FileHeader) -> None:
        """Take over the locked descriptor of a file that holds nothing but `header`."""
        self.saga = saga
        self._store = store
        self._system = store.system
        self._pwrite = store.system.pwrite
        self._descriptor = descriptor
        self._header = header.pack()
        self._seal = frame.seal_of(header.salt)
        self._entry = store.entries.add()
        self._renew_locks()
        self._end = len(self._header)
        self._crc = self._seal.seed
        self._epoch = 1
        self._seq = 0
        self._is_ready = True
        self._is_given_up = False
        self._is_forked = False
        self._is_soon = False
        self._asked_at = 0.0
        self._asked_end = 0
        self._lost: str | None = None
        self._durable = 0
        self._unproven = [self._header]
        self._must_rewrite = False
        self._failure: tuple[int, BaseException] | None = None

    def _renew_locks(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._is_syncing = False
        self._round = 0
        self._target = 0

    def resume(self, data: bytes, found: Parsed) -> None:
        """Stand behind the last good frame of a file that another owner left.

        What stands behind it is cut off by the first append, not before. What its writer did not prove to be on disk is
        written again before the next sync: a failed sync of his may have marked pages clean that never got there.
        """
        self._is_ready = False
        self._must_rewrite = True
        self._seq = len(found.frames)
        if found.header is None:
            self._end = 0
            self._unproven = []
            return
        self._end = found.good_end
        self._crc = found.crc
        self._durable = found.synced
        self._unproven = [data[found.synced : found.good_end]]
        if found.frames:
            self._epoch = found.frames[-1].epoch
        if found.synced:
            self._entry = 0  # the first sync of a file proves its directory entry

    @property
    def durable(self) -> int:
        return self._durable

    def append(self, record: Record) -> int:
        payload = _encode(record)
        kind = _kinds.get(type(record))
        if kind is None:
            kind = _kinds[type(record)] = kind_of(record)
        with self._lock:
            if not self._is_ready:
                self._make_ready()
            if isinstance(record, Adopted):
                self._epoch = record.epoch
            start = self._end
            data, crc = _build(self._seal, self._crc, kind, self._epoch, self._seq, self._durable, payload)
            try:
                written = self._pwrite(self._descriptor, data, start)
                if written != len(data):
                    self._system.write_all(self._descriptor, data[written:], start + written)
            except BaseException as error:
                self._end_write(error, data, crc)
                raise
            self._seq += 1
            self._crc = crc
            self._unproven.append(data)
            self._end = end = start + len(data)
            return end

    def _make_ready(self) -> None:
        """Cut off what stands behind the last good frame; write a missing file header."""
        self._refuse_unusable("nothing was written")
        try:
            self._system.truncate(self._descriptor, self._end)
            if self._end == 0:
                self._system.write_all(self._descriptor, self._header, 0)
                self._unproven.append(self._header)
                self._end = len(self._header)
        except OSError as error:
            raise self._error(f"could not be written: {error.strerror}", "the record is not in the log") from error
        self._is_ready = True

    def _end_write(self, error: BaseException, data: bytes, crc: int) -> None:
        """Leave either the whole frame, when an interrupt came behind the write, or nothing of it."""
        try:
            if self._system.fstat(self._descriptor).st_size == self._end + len(data):
                self._seq += 1
                self._crc = crc
                self._unproven.append(data)
                self._end += len(data)
            else:
                self._system.truncate(self._descriptor, self._end)
        except OSError:
            self._is_ready = False
        if isinstance(error, OSError):
            raise self._error(f"could not be written: {error.strerror}", "the record is not in the log") from error

    def sync(self, position: int) -> None:
        leads = False
        target = count = 0
        problem: BaseException | None = None
        try:
            with self._changed:
                if self._is_proven_by_others(position):
                    return
                leads = self._is_syncing = True
                self._round += 1
                self._target = target = self._end
                count = len(self._unproven)
                start = self._durable
                again = b"".join(self._unproven) if self._must_rewrite else b""
            self._prove(start, again)
        except OSError as error:
            problem = error
            raise self._error(f"could not be synced: {error.strerror}", "its newest records may be lost") from error
        except BaseException as error:
            problem = error
            raise
        finally:
            if leads:
                self._end_sync(target, count, problem)

    def _is_proven_by_others(self, position: int) -> bool:
        """Wait while a sync runs; return whether the position is on disk then, else it is this caller's turn.

        Raises:
            StoreError: The sync that covered the position failed, or the log cannot be synced any more.
        """
        while self._durable < position:
            self._refuse_unusable("its newest records may be lost")
            if not self._is_syncing:
                return False
            joined = self._round
            is_covered = position <= self._target
            while self._is_syncing and self._round == joined:
                self._changed.wait()
            if is_covered and self._durable < position and self._failure and self._failure[0] >= joined:
                cause = self._failure[1]
                raise self._error("could not be synced", "its newest records may be lost") from cause
        return True

    def _prove(self, start: int, again: bytes) -> None:
        """Bring the file to the disk: a sync proves only what was written after the last good one."""
        if again:
            self._system.write_all(self._descriptor, again, start)
        self._system.sync_data(self._descriptor)
        if self._entry:
            self._store.entries.prove(self._entry)
        if self._system.fstat(self._descriptor).st_nlink == 0:
            self._lost = "was deleted while the saga ran"
            raise self._error(self._lost, "its records are in no file any more")

    def _end_sync(self, target: int, count: int, problem: BaseException | None) -> None:
        with self._changed:
            self._is_syncing = False
            if problem is None:
                del self._unproven[:count]
                self._durable = target
                self._must_rewrite = False
                self._entry = 0
            else:
                self._must_rewrite = True
                self._failure = (self._round, problem)
                if self._lost:
                    self._is_ready = False
            self._changed.notify_all()

    def sync_later(self, position: int, done: Callable[[BaseException | None], None]) -> None:
        self._store.committer.sync_later(self, position, done)

    def sync_soon(self) -> None:
        if not self._is_soon:
            self._asked_at, self._asked_end = time.monotonic(), self._end
            self._is_soon = True
            self._store.committer.sync_soon(self)

    @property
    def is_behind(self) -> bool:
        """Something was written that is not on disk."""
        return self._durable < self._end

    def asked_at(self, now: float) -> float:
        """Return when the oldest request was made that no ordinary sync has served; what came behind it counts anew."""
        if self._durable >= self._asked_end:
            self._asked_at, self._asked_end = now, self._end
        return self._asked_at

    def catch_up(self) -> None:
        """Serve `sync_soon`: bring everything written so far to the disk, if the log is still in use."""
        self._is_soon = False
        end = self._end
        if self._durable < end and not self._is_given_up:
            self.sync(end)

    def release(self) -> None:
        with self._changed:
            self._is_given_up = True
            self._is_ready = False
            while self._is_syncing:
                self._changed.wait()
            descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            self._store.let_go(self.saga)
            fork.close(descriptor)

    def settle(self) -> None:
        if not self._is_given_up:
            self._store.put_away(self.saga)
        self.release()

    def die_in_child(self) -> None:
        """Forget the parent's descriptor, which is closed here already."""
        self._renew_locks()
        self._descriptor = -1
        self._is_ready = False
        self._is_given_up = self._is_forked = True

    def _refuse_unusable(self, world: str) -> None:
        if self._is_forked:
            raise SagaForked(
                f"the log of saga {self.saga} belongs to the parent process",
                saga_id=self.saga,
                world=world,
                next="open a new scope in the child",
            )
        if self._lost:
            raise self._error(self._lost, world)
        if self._is_given_up:
            raise self._error("was given up", world)

    def _error(self, what: str, world: str) -> SagaError:
        return StoreError(
            f"the log of saga {self.saga} {what}",
            saga_id=self.saga,
            world=world,
            next="make room or repair the disk under the store; `saga recover` goes on from the file",
        )
