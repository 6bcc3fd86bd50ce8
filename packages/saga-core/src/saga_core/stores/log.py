"""One saga's file in the hands of its owner."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from saga_core import codec, frame
from saga_core.errors import SagaError, SagaForked, StoreError
from saga_core.records import ADOPTED_KIND, KINDS, Began, Intended, Resent, ScopeOpened
from saga_core.stores import fork
from saga_core.stores.reserve import FULL

if TYPE_CHECKING:
    from saga_core.frame import FileHeader, Parsed
    from saga_core.records import Adopted, Record
    from saga_core.stores.encryption import Cipher
    from saga_core.stores.file import FileStore, Place

_encode = codec.encode
_build = frame.build
_PART_SIZE = frame.PART_SIZE
_BEGINNINGS = frozenset(kind.__struct_config__.tag for kind in (Began, ScopeOpened, Intended, Resent))
_KINDS: dict[type[Any], int] = {kind: number for number, kind in KINDS.items()}


class Unproven(NamedTuple):
    """The frames of a log, from an offset on, that are not proven to be on disk."""

    log: FileLog
    start: int
    frames: list[bytes]
    size: int

    @property
    def data(self) -> bytes:
        """Their bytes."""
        return b"".join(self.frames)


class _Written(NamedTuple):
    """A record's frames, their size, and the running checksum and the next number behind them."""

    frames: list[bytes]
    size: int
    crc: int
    seq: int
    payload: bytes

    @property
    def is_complete(self) -> bool:
        """None of the frames is missing."""
        return self.size == len(self.payload) + len(self.frames) * frame.FRAME_HEADER


class FileLog:
    """A locked file, its end, and those bytes of it that are not proven to be on disk.

    One lock guards all fields. An append holds it throughout; a sync holds it to begin and to end, and whoever closes
    the descriptor waits for the sync in flight.
    """

    def __init__(
        self,
        store: FileStore,
        saga: str,
        descriptor: int,
        header: FileHeader,
        *,
        place: Place = "open",
        cipher: Cipher | None = None,
    ) -> None:
        """Take over the locked descriptor of a file that holds nothing but `header`; `cipher` seals its records."""
        self.saga = saga
        self.store = store
        self.place: Place = place
        self._system = store.system
        self._pwrite = store.system.pwrite
        self._descriptor = descriptor
        self._header = header.pack()
        self._seal = frame.seal_of(header.salt)
        self._name = store.names.add()
        self._renew_locks()
        self.end = len(self._header)
        self.durable = 0
        self.is_given_up = False
        self.is_adopted = False
        self._crc = self._seal.seed
        self._epoch = 1
        self._seq = 0
        self._is_ready = True
        self._is_forked = False
        self._lost: str | None = None
        self._unproven = [self._header]
        self._must_rewrite = False
        self._cipher = cipher

    def _renew_locks(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._is_syncing = False

    def resume(self, data: bytes, found: Parsed) -> None:
        """Stand behind the last good frame of a file that another owner left.

        What stands behind it is cut off by the first append, not before. What its writer did not prove to be on disk is
        written again before the next sync: a failed sync of his may have marked pages clean that never got there.
        """
        self.is_adopted = True
        self._is_ready = False
        self._must_rewrite = True
        self._seq = found.seq
        if found.header is None:
            self.end = 0
            self._unproven = []
            return
        self.end = found.good_end
        self._crc = found.crc
        self.durable = found.synced
        self._unproven = [data[found.synced : found.good_end]]
        if found.frames:
            self._epoch = found.frames[-1].epoch

    def append(self, record: Record) -> int:
        payload = _encode(record)
        kind = _KINDS[type(record)]
        with self._lock:
            if not self._is_ready:
                self._make_ready()
            if kind == ADOPTED_KIND:
                self._epoch = cast("Adopted", record).epoch
            if self._cipher is not None:
                payload = self._cipher.seal(kind, self._epoch, payload)
            if len(payload) > _PART_SIZE:
                return self._append_parts(kind, payload)
            start, seq = self.end, self._seq
            data, crc = _build(self._seal, self._crc, kind, self._epoch, seq, self.durable, payload)
            size = len(data)
            try:
                written = self._pwrite(self._descriptor, data, start)
                if written != size:
                    self._system.write_all(self._descriptor, data[written:], start + written)
            except BaseException as error:
                if kind in _BEGINNINGS or not self._is_written_from_reserve(error, data):
                    self._end_write(error, _Written([data], size, crc, seq + 1, payload))
                    raise
            self._seq = seq + 1
            self._crc = crc
            self._unproven.append(data)
            self.end = end = start + size
            if self._cipher is not None:
                self._cipher.went(payload)
            return end

    def _append_parts(self, kind: int, payload: bytes) -> int:
        """Write a record that is too long for one frame."""
        whole = _Written([], 0, self._crc, self._seq, payload)
        try:
            for start in range(0, len(payload), _PART_SIZE):
                part = payload[start : start + _PART_SIZE]
                is_last = start + _PART_SIZE >= len(payload)
                data, crc = _build(
                    self._seal, whole.crc, kind if is_last else frame.PART, self._epoch, whole.seq, self.durable, part
                )
                self._system.write_all(self._descriptor, data, self.end + whole.size)
                whole = _Written([*whole.frames, data], whole.size + len(data), crc, whole.seq + 1, payload)
        except BaseException as error:
            self._end_write(error, whole)
            raise
        self._take(whole)
        return self.end

    def _take(self, written: _Written) -> None:
        """Stand behind a record that is in the file."""
        self._seq, self._crc = written.seq, written.crc
        self._unproven += written.frames
        self.end += written.size
        if self._cipher is not None:
            self._cipher.went(written.payload)

    def _is_written_from_reserve(self, error: BaseException, data: bytes) -> bool:
        """Write a record that ends something, where the disk is full, into the room that was kept for that."""
        if not isinstance(error, OSError) or error.errno not in FULL or not self.store.reserve.give_up():
            return False
        try:
            self._system.write_all(self._descriptor, data, self.end)
        except OSError:
            return False
        return True

    def _make_ready(self) -> None:
        """Cut off what stands behind the last good frame, write a missing file header, come back from being parked."""
        self._refuse_unusable("nothing was written")
        try:
            self._system.truncate(self._descriptor, self.end)
            if self.end == 0:
                self._system.write_all(self._descriptor, self._header, 0)
                self._unproven.append(self._header)
                self.end = len(self._header)
            if self.place != "open":
                self.store.move(self.saga, self.place, "open")
                self.place = "open"
                self._name = self.store.names.add()
        except OSError as error:
            raise self._error(f"could not be written: {error.strerror}", "the record is not in the log") from error
        self._is_ready = True

    def _end_write(self, error: BaseException, written: _Written) -> None:
        """Leave either the whole record, when an interrupt came behind the write, or nothing of it."""
        try:
            size = self._system.fstat(self._descriptor).st_size
            if written.is_complete and size == self.end + written.size:
                self._take(written)
            else:
                self._system.truncate(self._descriptor, self.end)
        except OSError:
            self._is_ready = False
        if isinstance(error, OSError):
            raise self._error(f"could not be written: {error.strerror}", "the record is not in the log") from error

    def sync(self, position: int) -> None:
        if self.durable < position:
            self.store.committer.sync(self, position)

    def sync_soon(self) -> None:
        self.store.committer.sync_soon(self)

    def begin_sync(self) -> Unproven | None:
        """Return what is to be brought to the disk, None if nothing is; the descriptor stays open until `end_sync`.

        Raises:
            SagaError: The log cannot be synced any more.
        """
        with self._lock:
            self._refuse_unusable("its newest records may be lost")
            try:
                is_deleted = self._system.fstat(self._descriptor).st_nlink == 0
            except OSError as error:
                raise self._error(f"could not be synced: {error.strerror}", "its newest records may be lost") from error
            if is_deleted:
                self._lost = "was deleted while the saga ran"
                self._is_ready = False
                raise self._error(self._lost, "its records are in no file any more")
            if self.durable >= self.end:
                return None
            self._is_syncing = True
            return Unproven(self, self.durable, self._unproven[:], self.end - self.durable)

    def sync_file(self, unproven: Unproven) -> None:
        """Bring the file itself to the disk: a sync proves only what was written after the last good one.

        Raises:
            OSError: That is not proven.
        """
        if self._must_rewrite:
            self._system.write_all(self._descriptor, unproven.data, unproven.start)
        self._must_rewrite = True
        self._system.sync_data(self._descriptor)
        if self._name:
            self.store.names.prove(self._name)
        self._must_rewrite = False
        self._name = 0

    def end_sync(self, unproven: Unproven, *, is_proven: bool) -> None:
        """Take note of what is on disk now."""
        with self._changed:
            self._is_syncing = False
            if is_proven:
                del self._unproven[: len(unproven.frames)]
                self.durable = unproven.start + unproven.size
            self._changed.notify_all()

    def park(self, place: Place) -> None:
        if not self.is_given_up:
            self.store.put(self.saga, self.place, place)
        self.release()

    def release(self) -> None:
        with self._changed:
            self.is_given_up = True
            self._is_ready = False
            while self._is_syncing:
                self._changed.wait()
            descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            self.store.let_go(self.saga)
            fork.close(descriptor)

    def settle(self) -> None:
        if not self.is_given_up:
            self.store.put_away(self.saga, self.place)
        self.release()

    def die_in_child(self) -> None:
        """Forget the parent's descriptor, which is closed here already."""
        self._renew_locks()
        self._descriptor = -1
        self._is_ready = False
        self.is_given_up = self._is_forked = True

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
        if self.is_given_up:
            raise self._error("was given up", world)

    def _error(self, what: str, world: str) -> SagaError:
        return StoreError(
            f"the log of saga {self.saga} {what}",
            saga_id=self.saga,
            world=world,
            next="make room or repair the disk under the store; `saga recover` goes on from the file",
        )
