"""A pack: the settled logs of one day in one file, which is never changed once it bears its name.

Layout; integers are little-endian, checksums CRC-32 (u32):

    header   64 bytes: `sagapack`, version (u16), size of the header (u16), 4 zero bytes, the store's id (16 bytes),
             28 zero bytes, checksum of the 60 bytes before
    bodies   the bytes of each log as its file had them, one behind the other, without gaps; among them the
             tombstones: msgpack `[at, by]`, nanoseconds since 1970 and text, or nil
    index    an entry of 52 bytes a saga, sorted by saga: its id (26 letters), kind (u16; 0: a log, 1: a tombstone),
             offset and length of its body (u64 each), checksum of its body, checksum of the 48 bytes before
    trailer  32 bytes: `sagapend`, offset of the index (u64), number of entries (u64), checksum of the index,
             checksum of the 28 bytes before

Entries have one size, so that a saga is found by halving the index on disk: nobody has to hold a million of them to
find one. A reader checks what it takes: header, trailer, each entry that it looks at, the body. No inode is needed: a
pack that was copied is still this store's. What stands inside a body is the log's own business.
"""

from __future__ import annotations

import os
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, Self
from zlib import crc32

from saga_core.errors import LogDamaged

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from saga_core.stores.system import System

VERSION = 1
SUFFIX = ".pack"
LOG, TOMBSTONE = 0, 1

_HEADER = Struct("<8sHHI16s28x")
_ENTRY = Struct("<26sHQQI")
_TRAILER = Struct("<8sQQI")
_CRC = Struct("<I")
_MAGIC, _END = b"sagapack", b"sagapend"
_HEADER_SIZE, _ENTRY_SIZE, _TRAILER_SIZE = (part.size + _CRC.size for part in (_HEADER, _ENTRY, _TRAILER))
_AT_ONCE = 4096
_BUFFER = 1 << 20


class Entry(NamedTuple):
    """What the index says of one saga."""

    saga: str
    kind: int
    offset: int
    length: int
    crc: int


def _sealed(data: bytes) -> bytes:
    return data + _CRC.pack(crc32(data))


def _is_sealed(data: bytes) -> bool:
    return _CRC.unpack_from(data, len(data) - _CRC.size)[0] == crc32(data[: -_CRC.size])


class Pack:
    """A pack that is open for reading; a context manager.

    Attributes:
        count: How many entries it has.
        size: Its bytes on disk.
    """

    def __init__(self, system: System, path: str, store: str) -> None:
        """Open a pack.

        Args:
            system: The disk.
            path: The file.
            store: The id of the store in which it lies.

        Raises:
            FileNotFoundError: There is none.
            LogDamaged: It is damaged at its ends, of a newer format, or another store's.
        """
        self._system = system
        self.path = path
        self._descriptor = system.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.size = system.fstat(self._descriptor).st_size
            self._index, self.count, self._crc = self._ends(store)
        except BaseException:
            self.close()
            raise

    def _ends(self, store: str) -> tuple[int, int, int]:
        header = self._read(0, _HEADER_SIZE)
        if not header.startswith(_MAGIC):
            raise self._damage("it does not begin like a pack")
        _, version, _, _, identity = _HEADER.unpack_from(header)
        if version != VERSION:
            raise self._damage(f"format version {version} is not known here; a newer release wrote it")
        if not _is_sealed(header):
            raise self._damage("its header's checksum is wrong")
        if identity.hex() != store:
            raise self._damage("it belongs to another store")
        trailer = self._read(self.size - _TRAILER_SIZE, _TRAILER_SIZE)
        end, index, count, crc = _TRAILER.unpack_from(trailer)
        if end != _END or not _is_sealed(trailer) or index + count * _ENTRY_SIZE + _TRAILER_SIZE != self.size:
            raise self._damage("its end is cut or its checksum wrong")
        return index, count, crc

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._system.close(self._descriptor)

    def find(self, saga: str) -> Entry | None:
        """Return the entry of a saga.

        Raises:
            LogDamaged: An entry that was looked at is damaged.
        """
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            entry = self._entry(self._read(self._index + middle * _ENTRY_SIZE, _ENTRY_SIZE), middle)
            if entry.saga == saga:
                return entry
            low, high = (middle + 1, high) if entry.saga < saga else (low, middle)
        return None

    def entries(self, *, newest_first: bool = False) -> Iterator[Entry]:
        """Yield the entries sorted by saga; only some thousands are held at once.

        Raises:
            LogDamaged: The next entry is damaged.
        """
        starts = range(0, self.count, _AT_ONCE)
        for start in reversed(starts) if newest_first else starts:
            many = range(start, min(start + _AT_ONCE, self.count))
            data = self._read(self._index + start * _ENTRY_SIZE, len(many) * _ENTRY_SIZE)
            for number in reversed(many) if newest_first else many:
                at = (number - start) * _ENTRY_SIZE
                yield self._entry(data[at : at + _ENTRY_SIZE], number)

    def body(self, entry: Entry) -> bytes:
        """Return the bytes of a log or of a tombstone.

        Raises:
            LogDamaged: They are not what was packed.
        """
        data = self._read(entry.offset, entry.length)
        if crc32(data) != entry.crc:
            raise self._damage(f"the bytes of saga {entry.saga} have another checksum", entry.saga)
        return data

    def check_index(self) -> None:
        """Read the whole index.

        Raises:
            LogDamaged: It is not what was written.
        """
        running = 0
        for start in range(0, self.count, _AT_ONCE):
            many = min(_AT_ONCE, self.count - start)
            running = crc32(self._read(self._index + start * _ENTRY_SIZE, many * _ENTRY_SIZE), running)
        if running != self._crc:
            raise self._damage("its index has another checksum")

    def _entry(self, data: bytes, number: int) -> Entry:
        if not _is_sealed(data):
            raise self._damage(f"entry {number} of its index has another checksum")
        saga, kind, offset, length, crc = _ENTRY.unpack_from(data)
        return Entry(saga.decode(), kind, offset, length, crc)

    def _read(self, offset: int, length: int) -> bytes:
        if offset < 0 or offset + length > self.size:
            raise self._damage("it is cut")
        parts: list[bytes] = []
        while length and (part := self._system.pread(self._descriptor, min(length, _BUFFER), offset)):
            parts.append(part)
            offset += len(part)
            length -= len(part)
        if length:
            raise self._damage("it is cut")
        return b"".join(parts)

    def _damage(self, what: str, saga: str | None = None) -> LogDamaged:
        return LogDamaged(
            f"the pack {self.path} is damaged: {what}",
            saga_id=saga,
            world="its sagas were settled; nothing is done in their name",
            next="put the file back from a backup; `saga verify` tells what else is damaged",
        )


class Draft:
    """A pack that is being written, under a name that nobody looks for."""

    def __init__(self, system: System, path: str, store: str) -> None:
        """Begin a pack that will lie at `path`.

        Raises:
            OSError: It could not be begun.
        """
        self._system = system
        self._path = path
        self._draft = path + ".new"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._descriptor = system.open(self._draft, flags, 0o600)
        self._held = [_sealed(_HEADER.pack(_MAGIC, VERSION, _HEADER_SIZE, 0, bytes.fromhex(store)))]
        self._held_size = 0
        self._is_finished = False
        self._written = 0
        self._end = _HEADER_SIZE
        self._entries: list[bytes] = []

    def add(self, saga: str, kind: int, body: bytes) -> None:
        """Put a log or a tombstone behind the others.

        Raises:
            OSError: It could not be written.
        """
        self._entries.append(_sealed(_ENTRY.pack(saga.encode(), kind, self._end, len(body), crc32(body))))
        self._put(body)
        self._end += len(body)

    def finish(self) -> None:
        """Give the pack its name; it is on disk at return, and has replaced an older one.

        Raises:
            OSError: That could not be done.
        """
        self._entries.sort()  # an entry begins with its saga's id
        running = 0
        for start in range(0, len(self._entries), _AT_ONCE):
            some = b"".join(self._entries[start : start + _AT_ONCE])
            running = crc32(some, running)
            self._put(some)
        self._put(_sealed(_TRAILER.pack(_END, self._end, len(self._entries), running)))
        self._flush()
        self._system.sync_data(self._descriptor)
        self._system.rename(self._draft, self._path)
        self._is_finished = True
        self._system.sync_dir(os.path.dirname(self._path))

    def close(self) -> None:
        """Close the file, and delete it if it is not finished."""
        self._system.close(self._descriptor)
        if not self._is_finished:
            with suppress(OSError):
                self._system.unlink(self._draft)

    def _put(self, data: bytes) -> None:
        self._held.append(data)
        self._held_size += len(data)
        if self._held_size >= _BUFFER:
            self._flush()

    def _flush(self) -> None:
        data = b"".join(self._held)
        self._system.write_all(self._descriptor, data, self._written)
        self._written += len(data)
        self._held.clear()
        self._held_size = 0
