"""What a saga's file says, and whether it may be believed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from saga_core import codec, frame
from saga_core.records import Adopted, Began
from saga_core.stores.boot import boot_id
from saga_core.stores.store import Reading

if TYPE_CHECKING:
    from saga_core.frame import Parsed
    from saga_core.records import Record
    from saga_core.stores.encryption import Cipher, Encryption
    from saga_core.stores.system import System


class History(NamedTuple):
    """A file's bytes, their frames, the reading made of them, and what opened them if they are encrypted."""

    data: bytes
    parsed: Parsed
    reading: Reading
    cipher: Cipher | None = None


def read(
    system: System,
    descriptor: int,
    saga: str,
    store: str,
    *,
    live: bool,
    settled: bool,
    encryption: Encryption | None = None,
) -> History:
    """Read an open file.

    Args:
        system: The disk.
        descriptor: The file.
        saga: The saga whose name it bears.
        store: The id of the store in which it lies.
        live: Somebody owns it and may be writing.
        settled: It lies among the settled ones.
        encryption: The store's keys.

    Raises:
        StoreError: It is encrypted, and its key is not at hand.
    """
    data = system.read_all(descriptor)
    identity = system.identity(descriptor)
    return judge(data, saga, store, identity=identity, live=live, settled=settled, encryption=encryption)


def judge(
    data: bytes,
    saga: str,
    store: str,
    *,
    identity: frame.Identity | None,
    live: bool,
    settled: bool,
    encryption: Encryption | None = None,
) -> History:
    """Read a log's bytes; without an identity they come from a pack, whose checksums vouch for them.

    Raises:
        StoreError: It is encrypted, and its key is not at hand.
    """
    cipher = cipher_of(frame.header_of(data), encryption)
    parsed = frame.parse(data, boot=boot_id(), live=live, cipher=cipher)
    damage = parsed.damage
    header = parsed.header
    is_elsewhere = header is not None and identity is not None and not header.is_at(identity)
    if header is not None and (is_elsewhere or (header.saga, header.store) != (saga, store)):
        damage = "the file was not made here (its saga, store or inode is another): a restored copy, perhaps"
    records: list[Record] = []
    for number, found in enumerate(parsed.frames):
        try:
            records.append(codec.decode(found.payload))
        except msgspec.DecodeError as error:
            damage = damage or f"record {number} cannot be read ({error}): written by a newer release, perhaps"
            break
    dropped = b"" if damage or live else parsed.tail
    return History(data, parsed, Reading(saga, records, damage, settled, dropped), cipher)


def cipher_of(header: frame.FileHeader | None, encryption: Encryption | None) -> Cipher | None:
    """Return what opens a log; None for a plain one.

    Raises:
        StoreError: Its key is not at hand, or is another one.
    """
    if header is None or not header.key:
        return None
    from saga_core.stores.encryption import missing  # noqa: PLC0415 -- only who meets such a log loads it

    if encryption is None:
        raise missing(header.key, header.saga, "no keys were given")
    cipher = encryption.cipher(header.key, header.salt, header.saga)
    if cipher.check != header.check:
        raise missing(header.key, header.saga, "the key that was given under this name is another one")
    return cipher


def doubted(found: History, unreliable: frozenset[tuple[str, int]]) -> History:
    """Return a history that is damaged if its newest owner's journal is: what was on disk may be missing at its end."""
    owner = newest_owner(found.reading)
    if found.reading.damage or owner is None or (owner.boot, owner.pid) not in unreliable:
        return found
    words = "the journal of its process is damaged: its newest records may be missing"
    return found._replace(reading=found.reading.damaged(words))


def newest_owner(reading: Reading) -> Began | Adopted | None:
    """Return the record by which the last owner introduced itself."""
    return next((record for record in reversed(reading.records) if isinstance(record, Began | Adopted)), None)
