"""The bytes of a journal: copies of frames, each naming the log and the offset that it belongs to.

Everything here is a function from bytes to values. A copy's head knows how much of the journal was on disk when it was
written, as a log's frames do: what is unreadable below that is damage, what is unreadable above it is a torn end.
"""

from __future__ import annotations

import os
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Iterable

VERSION = 1
MAGIC = b"sagajrnl"
SUFFIX = ".j"

_FILE = Struct("<8sHHI")
_HEAD = Struct("<2sHI26sQQI")
_CRC = Struct("<I")
_MARK = b"\xc1"
_COPY, _ERASED = 1, 2
_SALT = 8

JOURNAL_HEADER = _FILE.size
"""Bytes of a journal's header."""

HEADER = _FILE.pack(MAGIC, VERSION, JOURNAL_HEADER, 0)

COPY_HEAD = _HEAD.size + _CRC.size
"""Bytes that a copy takes beside the frames."""


class Name(NamedTuple):
    """A journal's file name, which is needed to read it: no byte inside must be readable to know whose it was.

    Attributes:
        boot: The boot in which it was written: only in another one is it read.
        pid: The process that wrote it.
        salt: Random bytes that seed the checksums of its copies' heads.
    """

    boot: str
    pid: int
    salt: bytes

    def __str__(self) -> str:
        return f"{self.boot}.{self.pid}.{self.salt.hex()}"


def new_name(boot: str) -> Name:
    """Return the name of a fresh journal of this process."""
    return Name(boot, os.getpid(), os.urandom(_SALT))


def name_of(file: str) -> Name | None:
    """Return what a file's name says, without its suffix; None if it is no journal's."""
    boot, _, rest = file.partition(".")
    pid, _, salt = rest.partition(".")
    try:
        return Name(boot, int(pid), bytes.fromhex(salt))
    except ValueError:
        return None


class Copy(NamedTuple):
    """Whole frames of one log, and where in it they stand; at offset 0 the file header comes first."""

    saga: str
    offset: int
    data: bytes


def pack(salt: bytes, synced: int, copies: Iterable[Copy]) -> bytes:
    """Return the bytes of one batch of copies.

    Args:
        salt: The journal's salt.
        synced: The journal offset known to be on disk, at which the batch begins.
        copies: What one sync shall prove.
    """
    mark, seed = _MARK + salt[:1], crc32(salt)
    parts: list[bytes] = []
    for saga, offset, data in copies:
        head = _HEAD.pack(mark, _COPY, len(data), saga.encode(), offset, synced, crc32(data))
        parts += (head, _CRC.pack(crc32(head, seed)), data)
    return b"".join(parts)


class Contents(NamedTuple):
    """What a journal's bytes hold.

    Attributes:
        copies: The readable copies in order.
        damage: What cannot be read although it was on disk, in words; None for a sound journal, with or without a torn
            end.
    """

    copies: list[Copy]
    damage: str | None = None


def parse(salt: bytes, data: bytes) -> Contents:
    """Return what a journal holds.

    Raises:
        ValueError: A newer release wrote it.
    """
    if data.startswith(MAGIC) and len(data) >= JOURNAL_HEADER and _FILE.unpack_from(data)[1] != VERSION:
        raise ValueError(f"journal format version {_FILE.unpack_from(data)[1]} is not known here")
    mark, seed = _MARK + salt[:1], crc32(salt)
    copies: list[Copy] = []
    holes: list[int] = []
    proven, at = 0, JOURNAL_HEADER
    while at < len(data):
        found = _copy_at(data, at, mark, seed)
        if found is not None:
            proven = max(proven, found.synced)  # a head says it although its own copy is torn
            if found.copy is not None:
                copies.append(found.copy)
            if found.behind:
                at = found.behind
                continue
        holes.append(at)
        at = _next_head(data, at + 1, mark, seed)
    lost = [hole for hole in holes if hole < proven]
    words = f"unreadable at offset {lost[0]}, and it was on disk (up to {proven})" if lost else None
    return Contents(copies, words)


class Blank(NamedTuple):
    """What to write so that a copy of an erased saga cannot be read any more.

    Attributes:
        offset: Where the copy stands.
        head: Its head, which says from then on that the rest means nothing; empty for a torn copy.
        size: How many zeros belong behind the head, once that is on disk.
    """

    offset: int
    head: bytes
    size: int


def blanks(salt: bytes, data: bytes, saga: str) -> list[Blank] | None:
    """Return what to write so that no byte of a saga's frames can be read in a journal any more.

    None if the saga may be named where nothing can be read.
    """
    mark, seed = _MARK + salt[:1], crc32(salt)
    blank: list[Blank] = []
    at = JOURNAL_HEADER
    while at < len(data):
        found = _copy_at(data, at, mark, seed)
        behind = (found and found.behind) or _next_head(data, at + 1, mark, seed)
        if found is None:
            if saga.encode() in data[at:behind]:
                return None
        elif found.saga == saga:
            head = b""
            if found.behind:
                _, _, length, name, offset, synced, _ = _HEAD.unpack_from(data, at)
                head = _HEAD.pack(mark, _ERASED, length, name, offset, synced, 0)
                head += _CRC.pack(crc32(head, seed))
            blank.append(Blank(at, head, behind - at - COPY_HEAD))
        at = behind
    return blank


def _is_head(data: bytes, at: int, mark: bytes, seed: int) -> bool:
    if at + COPY_HEAD > len(data) or not data.startswith(mark, at):
        return False
    return _CRC.unpack_from(data, at + _HEAD.size)[0] == crc32(data[at : at + _HEAD.size], seed)


class _Found(NamedTuple):
    """What a believable head says: whose copy it leads, how much was on disk before it, and where the next one is.

    The copy is None and `behind` 0 if it is torn; of an erased saga only the copy is None.
    """

    saga: str
    synced: int
    copy: Copy | None
    behind: int


def _copy_at(data: bytes, at: int, mark: bytes, seed: int) -> _Found | None:
    """Return what stands at an offset; None if no believable head does."""
    if not _is_head(data, at, mark, seed):
        return None
    _, kind, length, name, offset, synced, crc = _HEAD.unpack_from(data, at)
    saga, behind = name.decode(), at + COPY_HEAD + length
    body = data[at + COPY_HEAD : behind]
    if kind == _ERASED and len(body) == length:
        return _Found(saga, synced, None, behind)
    if kind == _COPY and len(body) == length and crc32(body) == crc:
        return _Found(saga, synced, Copy(saga, offset, body), behind)
    return _Found(saga, synced, None, 0)


def _next_head(data: bytes, at: int, mark: bytes, seed: int) -> int:
    """Return the offset of the next valid head, or the end."""
    while (at := data.find(mark, at)) >= 0:
        if _is_head(data, at, mark, seed):
            return at
        at += 1
    return len(data)
