"""The logs and the journal whose bytes are kept as golden files: built from fixed values, so that they never differ."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from saga_core import codec, frame, records
from saga_core.answers import Compensation
from saga_core.stores import copies
from saga_core.stores.encryption import Cipher

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saga_core.records import Record

SAGA = "01JQ000000000000000000000A"
HEADER = frame.FileHeader(SAGA, "0f" * 16, "11111111-2222-4333-8444-555555555555", 4711, bytes(range(16)))

_UNDO = Compensation("bank.refund", 2, {"charge_id": "ch_1", "amount": 42_000})
_BEGAN = records.Began(
    SAGA, "pay", "order-7", 1_700_000_000_000_000_001, 5, HEADER.boot, 17, "here", {"run": "7"}, "undo", 3
)
_INTENDED = records.Intended(
    1,
    1_700_000_000_000_000_002,
    "bank.charge",
    1,
    "COMPENSABLE",
    "",
    "charge-0",
    1,
    None,
    codec.freeze({"amount": 42_000, "currency": "EUR", "note": "Größe ✓"}),
    records.EMPTY,
    records.EMPTY,
    "power",
    300_000_000_000,
    "customer-1",
    "42000",
    "EUR",
    _UNDO,
)

COMMITTED: tuple[Record, ...] = (
    _BEGAN,
    _INTENDED,
    records.Noted(1, {"intent": "pi_1", "tries": 2}),
    records.Applied(1, 3, codec.freeze({"id": "ch_1"}), _UNDO, 9, None, stray=True),
    records.Returned(1, 4),
    records.Refused(
        2, 5, "bank.wire", 1, "IRREVERSIBLE", "", "wire-0", "irreversible", "nobody approved it", "built in"
    ),
    records.ScopeOpened("1", "", "inner", 6),
    records.ScopeEnded("1", kept=True, at=7),
    records.Committing(8),
    records.Committed(9),
)

UNWOUND: tuple[Record, ...] = (
    _BEGAN,
    _INTENDED,
    records.Doubted(1, 3, 4, "the connection broke"),
    records.Suspended(5, "waits"),
    records.Adopted(2, 6, 7, HEADER.boot, 18, "there", "recover", b"\xc1\x00torn"),
    records.Resent(1, 8),
    records.Missed(1, 9, "the probe says so", (3, 4)),
    records.UnwindBegan("", "Unhappy", 10, 1, 2),
    records.UndoIntended(3, 11, "ab" * 16, _UNDO, 1),
    records.UndoEnded(3, 12, 13, "pending", "accepted", "re_1", 60),
    records.LeftInPlace(4, 14, "a person said so"),
    records.CaseOpened(1, 15, 3, "nobody can tell"),
    records.Parked(16),
    records.RolledBack(17),
)


DECIDED: tuple[Record, ...] = (
    _BEGAN,
    records.Asked(
        1,
        3,
        "4a7d1ed414474e40",
        "bank.wire",
        1,
        "irreversible",
        "",
        "/bank.wire#1",
        1,
        codec.freeze({"amount": 42_000}),
        "42000",
        "EUR",
        "ab" * 32,
        (("above", "pay.py:3", "above 500 EUR"), ("irreversible", "built in", "irreversible")),
        2,
        86_400_000_000_000,
    ),
    records.Answered(1, 4, "approved", (("ana", "fine", 4), ("bo", "", 4)), codec.freeze({"amount": 300})),
    records.Permitted("/bank.wire#1", 5, 7, "4a7d1ed414474e40", None, (("ledger", "300"),)),
    records.Held(
        2,
        6,
        "mail.send",
        1,
        "irreversible",
        "",
        "/mail.send#1",
        1,
        None,
        codec.freeze({"to": "ana"}),
        records.EMPTY,
        "power",
        300_000_000_000,
    ),
    records.Committed(7),
    records.Released(2, 8, 1, 1),
    records.CaseOpened(1, 9, 2, "it may have been sent"),
    records.CaseResolved(1, 10, "ana", "left", "it is in my inbox"),
    records.Closed(11),
)


def log(history: Sequence[Record], *, parts: bool = False) -> bytes:
    """Return a log's bytes; each record knows the one before it to be on disk, and with `parts` is cut into pieces."""
    data = HEADER.pack()
    seal = frame.seal_of(HEADER.salt)
    crc, epoch, seq = seal.seed, 1, 0
    for record in history:
        synced = len(data)
        payload = codec.encode(record)
        if isinstance(record, records.Adopted):
            epoch = record.epoch
        pieces = [payload[at : at + 20] for at in range(0, len(payload), 20)] if parts else [payload]
        for number, piece in enumerate(pieces, 1):
            kind = int(record.__struct_config__.tag or 0) if number == len(pieces) else frame.PART
            part, crc = frame.build(seal, crc, kind, epoch, seq, synced, piece)
            data += part
            seq += 1
    return data


def _cipher() -> Cipher:
    cipher = Cipher(bytes(range(32)), HEADER.salt, SAGA)
    cipher._nonces = bytes(range(240))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] -- random otherwise
    return cipher


def encrypted(history: Sequence[Record]) -> bytes:
    """Return the bytes of an encrypted log."""
    cipher = _cipher()
    data = HEADER._replace(key="key-1", check=cipher.check).pack()
    seal = frame.seal_of(HEADER.salt)
    crc, epoch = seal.seed, 1
    for seq, record in enumerate(history):
        kind = int(record.__struct_config__.tag or 0)
        if isinstance(record, records.Adopted):
            epoch = record.epoch
        payload = cipher.seal(kind, epoch, codec.encode(record))
        cipher.went(payload)
        part, crc = frame.build(seal, crc, kind, epoch, seq, len(data), payload)
        data += part
    return data


def journal() -> bytes:
    """Return a journal of two batches, as it stands in its preallocated file, with the end of a third one torn."""
    salt = JOURNAL.salt
    whole = log(UNWOUND)
    data = copies.HEADER
    for batch in (
        [copies.Copy(SAGA, 0, whole[:400])],
        [copies.Copy(SAGA, 400, whole[400:500]), copies.Copy(SAGA[:-1] + "B", 0, log(COMMITTED))],
        [copies.Copy(SAGA, 500, whole[500:600])],
    ):
        data += copies.pack(salt, len(data), batch)
    return data[:-7] + bytes(100)


JOURNAL = copies.Name(HEADER.boot, 17, bytes(range(8)))

SAMPLES = {
    "committed.log": log(COMMITTED),
    "decided.log": log(DECIDED),
    "unwound.log": log(UNWOUND),
    "parts.log": log(UNWOUND, parts=True),
    "encrypted.log": encrypted(UNWOUND),
    "torn.log": log(UNWOUND)[:-5],
    "journal.j": journal(),
}


def told(name: str, data: bytes) -> Any:
    """Return what a file says, as JSON."""
    if name.endswith(".j"):
        contents = copies.parse(JOURNAL.salt, data)
        return _json(
            {"copies": [[copy.saga, copy.offset, copy.data] for copy in contents.copies], "damage": contents.damage}
        )
    parsed = frame.parse(data, boot="another boot", cipher=_cipher() if name.startswith("encrypted") else None)
    assert parsed.header is not None
    return _json(
        {
            "header": {name: value for name, value in parsed.header._asdict().items() if value},
            "frames": [[one.offset, one.kind, one.epoch, one.seq] for one in parsed.frames],
            "records": [_plain(codec.decode(one.payload)) for one in parsed.frames],
            "good_end": parsed.good_end,
            "synced": parsed.synced,
            "tail": parsed.tail,
            "damage": parsed.damage,
        }
    )


def _plain(record: Record) -> dict[str, Any]:
    fields = {name: getattr(record, name) for name in record.__struct_fields__}
    return {"is": type(record).__name__} | fields


def _json(value: Any) -> Any:
    return json.loads(msgspec.json.encode(_readable(value)))


def _readable(value: Any) -> Any:
    if isinstance(value, Raw):
        return codec.thaw(value)
    if isinstance(value, dict):
        return {name: _readable(item) for name, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, (list, tuple)):
        return [_readable(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value
