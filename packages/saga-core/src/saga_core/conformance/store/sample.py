"""The records that the scenarios write."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from saga_core import codec, records
from saga_core.answers import Compensation
from saga_core.clock import SYSTEM
from saga_core.conformance.expectation import expect
from saga_core.stores.boot import boot_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saga_core.stores.store import Reading

MEGABYTE = 1 << 20

_REFUND = Compensation("billing.refund", 1, {"charge": "ch_1"})


def began(saga: str) -> records.Began:
    """Return the first record of a saga that this process owns."""
    return records.Began(
        saga, "conformance", None, SYSTEM.wall(), SYSTEM.up(), boot_id(), os.getpid(), socket.gethostname(), {}
    )


def adopted(epoch: int, dropped: bytes = b"") -> records.Adopted:
    """Return the record by which this process takes a saga over."""
    return records.Adopted(
        epoch, SYSTEM.wall(), SYSTEM.up(), boot_id(), os.getpid(), socket.gethostname(), "conformance", dropped
    )


def noted(number: int, size: int = 8) -> records.Noted:
    """Return a record of about so many bytes, which tells its number and is like no other."""
    seed = f"{number}:".encode()
    return records.Noted(number, {"text": (seed * (size // len(seed) + 1))[:size]})


def every_kind(saga: str) -> list[records.Record]:
    """Return one record of each kind, the optional fields filled."""
    value = codec.freeze({"amount": 42000, "note": "ünï \0", "list": [1, None, 2.5]})
    intended = records.Intended(
        2,
        6,
        "charge",
        1,
        "compensable",
        "1",
        "charge#1",
        1,
        1,
        value,
        value,
        value,
        "power",
        300,
        "r",
        "1",
        "usd",
        _REFUND,
    )
    return [
        records.Began(saga, "pay", "order-7", 1, 2, "boot", 17, "here", {"a": "b"}, "case", 3),
        records.Adopted(2, 1, 2, "boot", 18, "there", "recover", b"\x00torn\xff"),
        records.ScopeOpened("1", "", "inner", 3),
        records.ScopeEnded("1", kept=True, at=4),
        records.Refused(
            1, 5, "bank.wire", 1, "irreversible", "", "bank.wire#1", "irreversible", "nobody approved it", "built in"
        ),
        intended,
        records.Noted(2, {"intent": "pi_1"}),
        records.Applied(2, 7, value, _REFUND, 8),
        records.Doubted(3, 8, 9, "timeout"),
        records.Missed(3, 9, "no such charge", (2,)),
        records.UnwindBegan("", "the agent failed", 10),
        records.UndoIntended(2, 11, "key", _REFUND, 1),
        records.UndoEnded(2, 12, 13, "pending", "accepted", "re_1", 60),
        records.LeftInPlace(2, 14, "a person said so"),
        records.CaseOpened(1, 15, 2, "look at it"),
        records.Committing(16),
        records.Committed(17),
        records.RolledBack(18),
        records.Parked(19),
        records.Suspended(20, "approval"),
        records.Resent(3, 21),
        records.Returned(3, 22),
        records.Asked(
            4,
            23,
            "r1",
            "bank.wire",
            1,
            "irreversible",
            "",
            "bank.wire#2",
            1,
            value,
            "7",
            "usd",
            "d1",
            (("above", "pay.py:3", "too much"),),
            2,
            60,
        ),
        records.Answered(4, 24, "approved", (("ana", "fine", 24), ("bo", "too", 24)), value),
        records.Permitted("bank.wire#2", 25, 9, "r1", None, (("ledger", "7"),)),
        records.Held(
            5, 25, "mail.send", 1, "irreversible", "", "mail.send#1", 1, None, value, records.EMPTY, "power", 1
        ),
        records.Released(5, 26, 1, 1),
        records.CaseResolved(1, 26, "ana", "left", "ticket 4"),
        records.Closed(27),
    ]


def encoded(found: Sequence[records.Record]) -> list[bytes]:
    """Return what is compared: frozen values know no equality."""
    return [codec.encode(record) for record in found]


def expect_history(
    reading: Reading | None, written: Sequence[bytes], *, at_least: int | None = None, settled: bool | None = None
) -> None:
    """Check that a sound history of a saga holds what was written.

    Args:
        reading: The history.
        written: The records of the saga, encoded, in order.
        at_least: How many of them have to be there; all if not given. Those that are there are the first ones.
        settled: Whether it has to be settled, where that is known.

    Raises:
        AssertionError: It is missing, damaged, or not what was written.
    """
    needed = len(written) if at_least is None else at_least
    if reading is None:
        expect(needed == 0, f"a saga of {needed} records should be read; the store does not know it")
        return
    expect(reading.damage is None, f"the log should be sound; it is said to be damaged: {reading.damage}")
    if settled is not None:
        expect(reading.settled is settled, f"`settled` should be {settled}; it is {reading.settled}")
    found = encoded(reading.records)
    for number, (one, other) in enumerate(zip(found, written, strict=False)):
        expect(one == other, f"record {number} should come back as it was written; it is another one")
    expect(len(found) <= len(written), f"{len(written)} records were written; {len(found)} came back")
    expect(len(found) >= needed, f"the first {needed} records should be there; only {len(found)} are")
