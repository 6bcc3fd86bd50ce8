"""The bytes of a log file: one file header, then frames chained by a running checksum.

Everything here is a function from bytes to values; `parse` holds the one rule that tells a torn tail, which is dropped,
from damage, after which nothing is done in the saga's name.
"""

from __future__ import annotations

import os
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, Protocol
from zlib import crc32

import msgspec

from saga_core import codec
from saga_core.records import ADOPTED_KIND, COMMITTED_KIND, RELEASED_KIND, Adopted, Committed, Released

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = 1
MAGIC = b"sagalog\n"

PART = 0
"""The kind of a frame that holds the beginning, or a middle piece, of a payload too long for one frame."""

PART_SIZE = 1 << 20
"""Bytes of payload that one frame holds at the most when it is written."""

_FILE = Struct("<8sHHI16s26s16s36sQ16s8sI10x")
_HEAD = Struct("<2sHIIIQ")
_CRC = Struct("<I")
_SUMS = Struct("<II")
_pack_head = _HEAD.pack
_pack_sums = _SUMS.pack

FILE_HEADER = _FILE.size + _CRC.size
"""Bytes of the file header; 10 of them are spare."""

FRAME_HEADER = _HEAD.size + _SUMS.size
"""Bytes of a frame's header, its two checksums included: what a frame takes beside its payload."""

_FORWARD = {
    COMMITTED_KIND: codec.encode(Committed(0))[:2],
    RELEASED_KIND: codec.encode(Released(0, 0, 1, 1))[:2],
}
"""How the records begin behind which a saga only goes forward."""
_MARK = b"\xc1"  # the one byte that msgpack never writes


class Identity(NamedTuple):
    """Which file of a disk it is.

    Attributes:
        inode: Its number, which another file gets once this one is deleted.
        generation: What tells the two apart; 0 where the file system does not say.
    """

    inode: int
    generation: int


class FileHeader(NamedTuple):
    """What a log says of itself.

    Attributes:
        saga: The saga's id.
        store: The random id of the store, 32 hex digits.
        boot: The boot in which the file was made.
        inode: The inode on which it was made.
        salt: Random bytes that seed every checksum of the file, so that no foreign frame fits.
        key: The name of an encrypted log's key; empty for a plain one.
        check: Tells the right key from a wrong one.
        generation: The generation of the inode; 0 where the file system did not say.
    """

    saga: str
    store: str
    boot: str
    inode: int
    salt: bytes
    key: str = ""
    check: bytes = b""
    generation: int = 0

    def is_at(self, identity: Identity) -> bool:
        """Tell whether this is the file that the header was made for, and no copy."""
        return self.inode == identity.inode and self.generation in {0, identity.generation}

    def pack(self) -> bytes:
        """Return the file header's bytes."""
        data = _FILE.pack(
            MAGIC,
            VERSION,
            FILE_HEADER,
            0,
            self.salt,
            self.saga.encode(),
            bytes.fromhex(self.store),
            self.boot.encode(),
            self.inode,
            self.key.encode(),
            self.check,
            self.generation,
        )
        return data + _CRC.pack(crc32(data))


def new_salt() -> bytes:
    """Return a fresh file's salt."""
    return os.urandom(16)


class Seal(NamedTuple):
    """What a file's salt gives to each of its frames."""

    mark: bytes
    seed: int


def seal_of(salt: bytes) -> Seal:
    """Return the marks of a file's frames."""
    return Seal(_MARK + salt[:1], crc32(salt))


def build(seal: Seal, crc: int, kind: int, epoch: int, seq: int, synced: int, payload: bytes) -> tuple[bytes, int]:
    """Return a frame and the running checksum behind it.

    A frame has two checksums: its head's own, so that what it says can be believed where its payload cannot, and the
    running one over its payload, seeded by the one before it and by its head's.

    Args:
        seal: The file's seal.
        crc: The running checksum so far; `seal.seed` before the first frame.
        kind: The record's kind.
        epoch: The owner's epoch.
        seq: The frame's number in the file, from 0, without gaps.
        synced: The file offset known to be durable now.
        payload: The encoded record.
    """
    mark, seed = seal
    head = _pack_head(mark, kind, len(payload), epoch, seq, synced)
    own = crc32(head, seed)
    crc = crc32(payload, crc ^ own)
    return head + _pack_sums(own, crc) + payload, crc


class Frame(NamedTuple):
    """One good record's frame, or frames: the parts are joined.

    Attributes:
        offset: Where the first of them begins.
        kind: The record's kind.
        epoch: The owner's epoch.
        seq: The number of the last of them.
        payload: The encoded record.
    """

    offset: int
    kind: int
    epoch: int
    seq: int
    payload: bytes


class Parsed(NamedTuple):
    """What a file's bytes hold.

    Attributes:
        header: The file header, or None if it is cut: nothing can have happened.
        frames: The good records' frames in order.
        good_end: The offset behind the last of them.
        seq: The number of the frame that comes next.
        tail: The torn bytes behind `good_end`, to be dropped; empty if the log is damaged.
        damage: Where and why nothing may follow from this log, in words; None for a sound one.
        synced: The highest offset that a good frame knew to be durable.
        crc: The running checksum at `good_end`.
    """

    header: FileHeader | None
    frames: list[Frame]
    good_end: int
    seq: int
    tail: bytes
    damage: str | None
    synced: int
    crc: int


class _Head(NamedTuple):
    kind: int
    length: int
    epoch: int
    seq: int
    synced: int
    own: int
    running: int


def _read_header(data: bytes) -> FileHeader | str:
    """Return the file header, or what is wrong with it."""
    magic, version, size, _, salt, saga, store, boot, inode, key, check, generation = _FILE.unpack_from(data)
    if magic != MAGIC:
        return "damaged at offset 0: the file does not begin like a log"
    if version != VERSION or size != FILE_HEADER:
        return f"format version {version} is not known here; a newer release wrote it"
    (crc,) = _CRC.unpack_from(data, _FILE.size)
    if crc != crc32(data[: _FILE.size]):
        return "damaged at offset 0: the file header's checksum is wrong"
    name = key.rstrip(b"\0").decode()
    written_in = boot.rstrip(b"\0").decode()
    return FileHeader(saga.decode(), store.hex(), written_in, inode, salt, name, check if name else b"", generation)


def _head_at(data: bytes, offset: int, seal: Seal) -> _Head | None:
    """Return the frame header at an offset if its salted checksum holds."""
    if offset + FRAME_HEADER > len(data):
        return None
    mark, kind, length, epoch, seq, synced = _HEAD.unpack_from(data, offset)
    if mark != seal.mark:
        return None
    own, running = _SUMS.unpack_from(data, offset + _HEAD.size)
    if own != crc32(data[offset : offset + _HEAD.size], seal.seed):
        return None
    return _Head(kind, length, epoch, seq, synced, own, running)


def _heads_behind(data: bytes, start: int, seal: Seal) -> Iterator[_Head]:
    """Yield every valid frame header at or behind an offset."""
    at = data.find(seal.mark, start)
    while at >= 0:
        head = _head_at(data, at, seal)
        if head is not None and head.synced <= at:
            yield head
        at = data.find(seal.mark, at + 1)


def _is_cut(data: bytes, offset: int, seal: Seal, seq: int) -> bool:
    """Tell whether the bytes from an offset on are the beginning of the one frame that comes next."""
    left = len(data) - offset
    if left < FRAME_HEADER:
        return data[offset : offset + len(seal.mark)] == seal.mark[:left]
    head = _head_at(data, offset, seal)
    return head is not None and head.seq == seq and left < FRAME_HEADER + head.length


def _looks_forward(data: bytes, offset: int, seal: Seal) -> bool:
    """Tell whether a bad frame was a commit record or a released hold: one flaw leaves it recognisable.

    A flaw in the kind leaves a checksum that fits this kind; of an encrypted log, nothing else would tell.
    """
    head = data[offset : offset + _HEAD.size]
    own = data[offset + _HEAD.size : offset + _HEAD.size + _CRC.size]
    payload = data[offset + FRAME_HEADER : offset + FRAME_HEADER + 2]
    for number, start in _FORWARD.items():
        kind = number.to_bytes(2, "little")
        if head[2:4] == kind or payload == start:
            return True
        if own == _CRC.pack(crc32(head[:2] + kind + head[4:], seal.seed)):
            return True
    return False


def _judge_tail(
    data: bytes, record: tuple[int, int], bad: tuple[int, int], seal: Seal, *, synced: int, same_boot: bool, live: bool
) -> str | None:
    """Return why what stands behind the last whole record is damage, or None if it is a torn tail.

    Args:
        data: The whole file.
        record: Where the record begins of which something is missing, and the number of its first frame.
        bad: Where its first frame is that is not good, and the number that belongs there.
        seal: The file's seal.
        synced: The highest offset that a good frame knew to be durable.
        same_boot: The last owner's boot is the running one.
        live: The file has an owner.
    """
    offset, seq = record
    behind = list(_heads_behind(data, offset, seal))
    synced = max([synced, *(head.synced for head in behind)])
    if offset < synced:
        return f"damaged at offset {offset}: record {seq} is unreadable, and it was on disk (up to {synced})"
    if live:
        return None
    if same_boot:
        if _is_cut(data, bad[0], seal, bad[1]):
            return None
        return f"damaged at offset {offset}: record {seq} is unreadable, and the machine has not restarted since"
    if _looks_forward(data, offset, seal) or any(head.kind in _FORWARD for head in behind):
        return f"damaged at offset {offset}: record {seq} is unreadable, and a commit or a released hold stands there"
    return None


def header_of(data: bytes) -> FileHeader | None:
    """Return a file's header; None if it is cut or unreadable."""
    header = _read_header(data) if len(data) >= FILE_HEADER else None
    return header if isinstance(header, FileHeader) else None


class Unsealed(Protocol):
    """What opens the payloads of an encrypted log."""

    def open(self, kind: int, epoch: int, sealed: bytes) -> bytes:
        """Return a payload.

        Raises:
            ValueError: It was altered.
        """
        ...


def parse(data: bytes, *, boot: str, live: bool = False, cipher: Unsealed | None = None) -> Parsed:
    """Return the good frames of a file and what stands behind them.

    A bad frame below an offset that any valid header of the file knows to be on disk is damage. Above it, bytes
    written in the boot `boot` can only end in one cut frame, that of a process killed in mid-write; anything else is
    damage. Bytes of an earlier boot are a torn tail, unless a commit record is among them.

    Args:
        data: The whole file.
        boot: The boot that is running now.
        live: The file has an owner who may be writing: a bad end above what is on disk is "being written".
        cipher: Opens the payloads of an encrypted log; without it they stay as they are, and an adoption among them is
            not seen.
    """
    if len(data) < FILE_HEADER:
        return Parsed(None, [], 0, 0, data, None, 0, 0)
    header = _read_header(data)
    if isinstance(header, str):
        return Parsed(None, [], 0, 0, b"", header, 0, 0)
    seal = seal_of(header.salt)
    frames: list[Frame] = []
    parts: list[bytes] = []
    begin = offset = FILE_HEADER  # of the record, and of the frame
    crc = good_crc = seal.seed
    seq = good_seq = 0
    epoch, synced, written_in = 0, 0, header.boot
    damage: str | None = None
    while (head := _head_at(data, offset, seal)) is not None:
        end = offset + FRAME_HEADER + head.length
        parts.append(data[offset + FRAME_HEADER : end])
        if end > len(data) or crc32(parts[-1], crc ^ head.own) != head.running:
            break
        if head.seq != seq or head.epoch < epoch or head.synced > offset:
            damage = f"damaged at offset {offset}: record {head.seq} stands where {seq} belongs"
            break
        offset, crc, seq, epoch, synced = end, head.running, seq + 1, head.epoch, max(synced, head.synced)
        if head.kind == PART:
            continue
        try:
            payload, adopted_in = _opened(header, head, b"".join(parts), cipher)
        except ValueError as unfit:
            damage = f"damaged at offset {begin}: record {head.seq} {unfit}"
            break
        written_in = adopted_in or written_in
        frames.append(Frame(begin, head.kind, head.epoch, head.seq, payload))
        parts.clear()
        begin, good_crc, good_seq = offset, crc, seq
    if damage is None and begin < len(data):
        same_boot = written_in == boot
        damage = _judge_tail(
            data, (begin, good_seq), (offset, seq), seal, synced=synced, same_boot=same_boot, live=live
        )
    return Parsed(header, frames, begin, good_seq, b"" if damage else data[begin:], damage, synced, good_crc)


def _opened(header: FileHeader, head: _Head, payload: bytes, cipher: Unsealed | None) -> tuple[bytes, str | None]:
    """Return a record's payload in the clear, and the boot in which it was adopted, if that is what it tells."""
    if header.key and cipher is None:
        return payload, None
    if cipher is not None:
        try:
            payload = cipher.open(head.kind, head.epoch, payload)
        except ValueError as altered:
            raise ValueError(f"was altered: {altered}") from None
    if head.kind != ADOPTED_KIND:
        return payload, None
    try:
        record = codec.decode(payload)
    except msgspec.DecodeError:
        raise ValueError("cannot be decoded") from None
    return payload, record.boot if isinstance(record, Adopted) else None
