"""An independent reader of a store, made from docs/explanation/log-format.md alone: it imports nothing of the project.

`python -m reader.read_log DIRECTORY [NAME=HEXKEY ...]`, in the folder above, prints what each saga's log holds. It
reads only: journals that another boot left are replayed in memory, and it does not ask who owns a log.
"""

from __future__ import annotations

import os
import re
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias
from zlib import crc32

from .value import Record, Unreadable, Value, unpack

Keys: TypeAlias = Mapping[str, bytes]
Open: TypeAlias = Callable[[bytes, int, int], bytes]

_BEGAN, _ADOPTED, _COMMITTED, _RELEASED = 1, 2, 17, 27
_NEWEST = 29
_PLACES = ("open", "suspended", "cases")
_SAGA = re.compile("[0-9A-HJKMNP-TV-Z]{26}")
_FILE = struct.Struct("<8sHHI16s26s16s36sQ16s8sI10sI")
_HEAD = struct.Struct("<2sHIIIQII")
_COPY = struct.Struct("<2sHI26sQQII")
_ENTRY = struct.Struct("<26sHQQII")


# A log


@dataclass(frozen=True)
class Header:
    """The header of a log file."""

    salt: bytes
    saga: str
    store: str
    boot: str
    inode: int
    key: str
    check: bytes
    generation: int


@dataclass(frozen=True)
class Head:
    """The head of a frame."""

    at: int
    kind: int
    length: int
    epoch: int
    number: int
    synced: int
    own: int
    running: int

    @property
    def end(self) -> int:
        """The offset behind the frame."""
        return self.at + _HEAD.size + self.length


@dataclass
class Log:
    """What a log's bytes say.

    Attributes:
        records: The good records in order.
        size: How many bytes there are.
        end: The offset behind the last of them.
        damage: Why nothing may be done in the log's name; None for a sound one.
        ends: The offset behind each record.
    """

    size: int
    records: list[Record] = field(default_factory=list[Record])
    end: int = 0
    damage: str | None = None
    header: Header | None = None
    ends: list[int] = field(default_factory=list[int])

    @property
    def torn(self) -> int:
        """How many bytes behind the last record the next owner cuts off."""
        return 0 if self.damage else self.size - self.end

    @property
    def owner(self) -> tuple[str, int] | None:
        """The newest owner: boot and pid."""
        for record in reversed(self.records):
            if record[0] in {_BEGAN, _ADOPTED}:
                boot, pid = record[6:8] if record[0] == _BEGAN else record[4:6]
                assert isinstance(boot, str)
                assert isinstance(pid, int)
                return boot, pid
        return None


def read_header(data: bytes) -> Header:
    """Return a log file's header.

    Raises:
        Unreadable: It is no header of version 1.
    """
    if len(data) < _FILE.size:
        raise Unreadable("its header is cut")
    magic, version, size, _, salt, saga, store, boot, inode, key, check, generation, _, crc = _FILE.unpack_from(data)
    if magic != b"sagalog\n" or crc != crc32(data[: _FILE.size - 4]):
        raise Unreadable("its header is damaged")
    if (version, size) != (1, _FILE.size):
        raise Unreadable(f"it is of version {version}")
    boot, key = boot.rstrip(b"\0").decode("ascii"), key.rstrip(b"\0").decode("ascii")
    return Header(salt, saga.decode("ascii"), store.hex(), boot, inode, key, check, generation)


def read_log(data: bytes, boot: str, keys: Keys | None = None) -> Log:
    """Read a log's bytes as one that has no owner.

    Args:
        data: The bytes.
        boot: The running boot's id.
        keys: The user's keys by their names.
    """
    log = Log(len(data))
    if len(data) < _FILE.size:
        return log
    try:
        log.header = read_header(data)
        opened = _opener(log.header, keys or {})
    except Unreadable as error:
        log.damage = str(error)
        return log
    log.end = _FILE.size
    frames, misplaced = _good_frames(data, log.header.salt)
    parts: list[bytes] = []
    for head in frames:
        parts.append(data[head.at + _HEAD.size : head.end])
        if head.kind == 0:
            continue
        try:
            record = unpack(opened(b"".join(parts), head.epoch, head.kind))
        except Unreadable as error:
            log.damage = f"the record before {head.end} cannot be read: {error}"
            return log
        if not isinstance(record, list) or not record or record[0] != head.kind or head.kind > _NEWEST:
            log.damage = f"the record before {head.end} is of a kind that is not known"
            return log
        log.records.append(record)
        log.end = head.end
        log.ends.append(head.end)
        parts.clear()
    log.damage = misplaced or _damage_behind(data, log, frames, boot)
    return log


def good_end(data: bytes) -> int:
    """Return the offset behind a log's last whole record, whether or not it can be opened; 0 without a header."""
    try:
        header = read_header(data)
    except Unreadable:
        return 0
    frames, _ = _good_frames(data, header.salt)
    return max([_FILE.size, *(head.end for head in frames if head.kind)])


def _good_frames(data: bytes, salt: bytes) -> tuple[list[Head], str | None]:
    """Return the good frames, and what is wrong with one behind them that is whole and stands in the wrong place."""
    frames: list[Head] = []
    running, at, epoch = crc32(salt), _FILE.size, 0
    while (head := _head_at(data, at, salt)) and head.end <= len(data):
        running = crc32(data[at + _HEAD.size : head.end], running ^ head.own)
        if running != head.running:
            break
        if head.number != len(frames) or head.epoch < epoch or head.synced > at:
            return frames, f"frame {head.number} of epoch {head.epoch} stands at {at}, where it does not belong"
        frames.append(head)
        at, epoch = head.end, head.epoch
    return frames, None


def _head_at(data: bytes, at: int, salt: bytes) -> Head | None:
    """Return the head of a frame whose mark and checksum are right."""
    if at + _HEAD.size > len(data):
        return None
    mark, kind, length, epoch, number, synced, own, running = _HEAD.unpack_from(data, at)
    if mark != b"\xc1" + salt[:1] or own != crc32(data[at : at + 24], crc32(salt)):
        return None
    return Head(at, kind, length, epoch, number, synced, own, running)


def _damage_behind(data: bytes, log: Log, frames: list[Head], boot: str) -> str | None:
    """Judge what stands behind the last good record."""
    assert log.header is not None
    salt = log.header.salt
    found = (_head_at(data, at, salt) for at in _marks(data, log.end, salt))
    behind = [head for head in found if head and head.synced <= head.at]
    known = max((head.synced for head in [*frames, *behind]), default=0)
    if log.end < known:
        return f"{known} bytes were on disk, and only {log.end} can be read"
    tail = frames[-1].end if frames else log.end  # behind the last good frame, a part perhaps
    if log.end == len(data):
        return None
    if (log.owner[0] if log.owner else log.header.boot) == boot:
        fits = _is_cut_frame(data, tail, salt, len(frames))
        return None if fits else f"what stands at {tail} was not left by a process that was killed"
    if any(head.kind in {_COMMITTED, _RELEASED} for head in behind) or _may_go_forward(data[log.end :], salt):
        return f"a commit or a released hold stands at {log.end} or behind it"
    return None


def _marks(data: bytes, at: int, salt: bytes) -> Iterator[int]:
    mark = b"\xc1" + salt[:1]
    while (at := data.find(mark, at)) >= 0:
        yield at
        at += 1


def _is_cut_frame(data: bytes, at: int, salt: bytes, number: int) -> bool:
    rest = len(data) - at
    if rest < _HEAD.size:
        return data[at : at + 2] == (b"\xc1" + salt[:1])[:rest]
    head = _head_at(data, at, salt)
    return head is not None and head.number == number and head.end > len(data)


def _may_go_forward(frame: bytes, salt: bytes) -> bool:
    for number, begin in ((_COMMITTED, b"\x92\x11"), (_RELEASED, b"\x95\x1b")):
        kind = number.to_bytes(2, "little")
        own = crc32(frame[:2] + kind + frame[4:24], crc32(salt)).to_bytes(4, "little")
        if frame[2:4] == kind or frame[24:28] == own or frame[_HEAD.size : _HEAD.size + 2] == begin:
            return True
    return False


def _opener(header: Header, keys: Keys) -> Open:
    """Return what makes a record's plain bytes of its payload, its epoch and its kind."""
    if not header.key:
        return lambda payload, _epoch, _kind: payload
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 -- only encrypted logs need it
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415

    if header.key not in keys:
        raise Unreadable(f"its key {header.key} is missing")
    derived = HKDF(SHA256(), 40, header.salt, b"saga log 1").derive(keys[header.key])
    if derived[32:] != header.check:
        raise Unreadable(f"it was encrypted with another key than this {header.key}")
    cipher, chain = AESGCM(derived[:32]), header.salt

    def opened(payload: bytes, epoch: int, kind: int) -> bytes:
        nonlocal chain
        bound = chain + header.saga.encode() + struct.pack("<IH", epoch, kind)
        chain = payload[-16:]
        try:
            return cipher.decrypt(payload[:12], payload[12:], bound)
        except (InvalidTag, ValueError) as error:
            raise Unreadable("it was changed, or does not follow the record before it") from error

    return opened


# A journal


@dataclass(frozen=True)
class Copy:
    """Bytes of a log in a journal."""

    saga: str
    offset: int
    data: bytes

    @property
    def end(self) -> int:
        """The offset behind them in their log."""
        return self.offset + len(self.data)


ERASED = Copy("", 0, b"")
"""Stands for a copy whose saga was erased since."""


@dataclass
class Journal:
    """What a journal holds.

    Attributes:
        boot: The boot of the process that wrote it.
        pid: That process.
        copies: The readable copies.
        is_damaged: Something that was on disk cannot be read.
    """

    boot: str
    pid: int
    copies: list[Copy]
    is_damaged: bool


def read_journal(name: str, data: bytes) -> Journal | None:
    """Read a journal by its name and bytes; None if the name is no journal's.

    Raises:
        Unreadable: It is of another version.
    """
    parts = re.fullmatch(r"(.+)\.(\d+)\.([0-9a-f]{16})\.(?:j|damaged)", name)
    if parts is None:
        return None
    if data[:8] == b"sagajrnl" and data[8:10] not in {b"\x01\x00", b""}:
        raise Unreadable("a journal is of another version")
    if name.endswith(".damaged"):  # what could be read of it is in the logs
        return Journal(parts[1], int(parts[2]), [], is_damaged=True)
    salt = bytes.fromhex(parts[3])
    copies: list[Copy] = []
    at, hole, known = 16, len(data), 0
    while at < len(data):
        head = _copy_at(data, at, salt)
        known = max(known, head[2] if head else 0)
        if head and head[0]:
            if head[0] is not ERASED:
                copies.append(head[0])
            at = head[1]
            continue
        hole = min(hole, at)
        at = next(_marks(data, at + 1, salt), len(data))
    return Journal(parts[1], int(parts[2]), copies, is_damaged=hole < known)


def _copy_at(data: bytes, at: int, salt: bytes) -> tuple[Copy | None, int, int] | None:
    """Return the copy at a believable head, None if its data are bad; where it ends; and what was on disk before.

    The copy of a saga that was erased since is `ERASED`.
    """
    if at + _COPY.size > len(data):
        return None
    mark, kind, length, saga, offset, synced, crc, own = _COPY.unpack_from(data, at)
    if mark != b"\xc1" + salt[:1] or kind not in {1, 2} or own != crc32(data[at : at + 54], crc32(salt)) or synced > at:
        return None
    end = at + _COPY.size + length
    body = data[at + _COPY.size : end]
    if kind == 2:
        return ERASED if len(body) == length else None, end, synced
    copy = Copy(saga.decode("ascii"), offset, body) if len(body) == length and crc32(body) == crc else None
    return copy, end, synced


# A pack


@dataclass(frozen=True)
class Packed:
    """What a pack holds of a saga: a log's bytes, or a tombstone."""

    saga: str
    is_log: bool
    body: bytes


def read_pack(data: bytes, store: str) -> list[Packed]:
    """Return what a pack holds, in the order of the ids.

    Raises:
        Unreadable: It is damaged, or another store's.
    """
    head, trailer = data[:64], data[-32:]
    if len(data) < 96 or head[:12] != b"sagapack\x01\x00\x40\x00" or _crc_of(head) or _crc_of(trailer):
        raise Unreadable("the pack's header or trailer is damaged")
    if head[16:32].hex() != store:
        raise Unreadable("the pack is another store's")
    magic, at, count, crc, _ = struct.unpack("<8sQQII", trailer)
    index = data[at:-32]
    if magic != b"sagapend" or len(index) != count * _ENTRY.size or crc != crc32(index):
        raise Unreadable("the pack's index is damaged")
    packed: list[Packed] = []
    for saga, kind, offset, length, crc, _ in _ENTRY.iter_unpack(index):
        body = data[offset : offset + length]
        if crc32(body) != crc:
            raise Unreadable(f"the bytes of saga {saga.decode('ascii')} in the pack are damaged")
        packed.append(Packed(saga.decode("ascii"), kind == 0, body))
    return packed


def _crc_of(data: bytes) -> bool:
    """Tell whether the last four bytes are not the checksum of those before."""
    return crc32(data[:-4]) != int.from_bytes(data[-4:], "little")


# A store


@dataclass
class Saga:
    """What a store holds of a saga.

    Attributes:
        place: Where: `open`, `suspended`, `cases`, `done`, `packed` or `erased`.
        log: Its log; of an erased one, None.
        tombstone: Of an erased one: when, in nanoseconds since 1970, and by whom.
    """

    place: str
    log: Log | None = None
    tombstone: Value = None


@dataclass
class _Found:
    data: bytearray
    place: str
    inode: int | None = None
    generation: int = 0

    def is_of(self, header: Header) -> bool:
        """Tell whether it is the file that the header was written for."""
        return self.inode is None or (self.inode == header.inode and header.generation in {0, self.generation})


def read_store(path: Path, boot: str, keys: Keys | None = None) -> dict[str, Saga]:
    """Return what a store holds, by the sagas' ids, its journals of other boots than `boot` replayed.

    Raises:
        Unreadable: A pack is damaged, or a journal is of another version.
    """
    identity = (path / "store").read_text("ascii").strip()
    journals = [
        journal
        for file in sorted((path / "journals").iterdir())
        if (journal := read_journal(file.name, file.read_bytes())) and journal.boot != boot
    ]
    sagas: dict[str, Saga] = {}
    files: dict[str, _Found] = {}
    twins: set[str] = set()
    for name, found in _files(path):
        if name in files and files[name].inode != found.inode:
            twins.add(name)
        files.setdefault(name, found)
    for file in sorted((path / "done").glob("*.pack")):
        for packed in read_pack(file.read_bytes(), identity):
            if packed.is_log:
                files.setdefault(packed.saga, _Found(bytearray(packed.body), "packed"))
            else:
                sagas[packed.saga] = Saga("erased", tombstone=unpack(packed.body))
    for file in sorted((path / "done").glob("*/*.erased")):
        sagas[file.stem] = Saga("erased", tombstone=unpack(file.read_bytes()))
    _replay(files, [copy for journal in journals for copy in journal.copies], set(sagas))
    for name, found in files.items():
        if name not in sagas:
            log = read_log(bytes(found.data), boot, keys)
            sagas[name] = Saga(found.place, log)
            log.damage = log.damage or _foreign(log, name, identity, found)
            if found.place in _PLACES:
                if name in twins:
                    log.damage = "it lies in two places"
                if log.owner in {(journal.boot, journal.pid) for journal in journals if journal.is_damaged}:
                    log.damage = log.damage or "the journal of its owner is damaged"
    return sagas


def _files(path: Path) -> Iterator[tuple[str, _Found]]:
    for place in (*_PLACES, "done/*"):
        for name in sorted(path.glob(f"{place}/*.log")):
            if _SAGA.fullmatch(name.stem):
                with name.open("rb") as file:
                    inode, generation = os.fstat(file.fileno()).st_ino, _generation(file.fileno())
                    yield name.stem, _Found(bytearray(file.read()), place.removesuffix("/*"), inode, generation)


def _generation(descriptor: int) -> int:
    if sys.platform != "linux":
        return 0
    from fcntl import ioctl  # noqa: PLC0415 -- Windows has none

    try:
        return int.from_bytes(ioctl(descriptor, 0x80007601 | struct.calcsize("l") << 16, bytes(8))[:4], sys.byteorder)
    except OSError:
        return 0


def _foreign(log: Log, saga: str, store: str, found: _Found) -> str | None:
    header = log.header
    if header is None:
        return None
    is_own = (header.saga, header.store) == (saga, store) and found.is_of(header)
    return None if is_own else "it is the copy of another file"


def _replay(files: dict[str, _Found], copies: list[Copy], gone: set[str]) -> None:
    ends: dict[str, int] = {}
    for copy in sorted(copies, key=lambda copy: copy.offset):
        found = files.get(copy.saga)
        if copy.saga in gone or (found and found.place == "packed"):
            continue
        if found is None:
            found = files[copy.saga] = _Found(bytearray(), "open")
        if copy.saga not in ends:
            ends[copy.saga] = good_end(bytes(found.data)) if _is_own(found) else sys.maxsize
        if copy.end > ends[copy.saga]:
            found.data.extend(bytes(max(0, copy.offset - len(found.data))))
            found.data[copy.offset : copy.end] = copy.data


def _is_own(found: _Found) -> bool:
    try:
        return found.is_of(read_header(bytes(found.data)))
    except Unreadable:
        return True


def main() -> None:
    """Print what a store holds."""
    path, *given = sys.argv[1:]
    keys = {name: bytes.fromhex(key) for name, _, key in (text.partition("=") for text in given)}
    boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    for name, saga in sorted(read_store(Path(path), boot, keys).items()):
        log = saga.log
        sys.stdout.write(f"{name} {saga.place} {saga.tombstone or ''}\n")
        if log:
            sys.stdout.writelines(f"  {record}\n" for record in log.records)
            sys.stdout.write(f"  damaged: {log.damage}\n" if log.damage else f"  sound, {log.torn} bytes torn off\n")


if __name__ == "__main__":
    main()
