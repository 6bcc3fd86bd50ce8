"""What stays of a saga whose log is no longer there: that it was erased, or dropped when its time was over."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

SUFFIX = ".erased"


class Tombstone(NamedTuple):
    """Why a saga's log is gone.

    Attributes:
        saga: The saga.
        why: `erased` by a person, or `dropped` with all sagas of its day when their retention ended.
        at: When it was erased, in nanoseconds since 1970; None for a dropped one.
        by: Who erased it, as far as that was said.
    """

    saga: str
    why: Literal["erased", "dropped"]
    at: int | None = None
    by: str | None = None


def pack(tombstone: Tombstone) -> bytes:
    """Return the bytes that are kept of an erased saga's tombstone."""
    return msgspec.msgpack.encode((tombstone.at, tombstone.by))


def unpack(saga: str, data: bytes) -> Tombstone:
    """Return an erased saga's tombstone; that it stands says more than what can be read of it."""
    try:
        at, by = msgspec.msgpack.decode(data, type=tuple[int | None, str | None])
    except msgspec.DecodeError:
        at, by = None, None
    return Tombstone(saga, "erased", at, by)
