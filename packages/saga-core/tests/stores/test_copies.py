"""The bytes of a journal: what is exact, what is a torn end, and what is damage."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saga_core.stores.copies import (
    COPY_HEAD,
    HEADER,
    JOURNAL_HEADER,
    Contents,
    Copy,
    Name,
    blanks,
    name_of,
    new_name,
    pack,
    parse,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

SALT = b"\x01234567"
SECTOR = 512

sagas = st.text("0123456789ABCDEFGHJKMNPQRSTVWXYZ", min_size=26, max_size=26)
made = st.builds(Copy, sagas, st.integers(0, 2**63), st.binary(max_size=300))
batches = st.lists(st.lists(made, min_size=1, max_size=4), max_size=5)


def journal_of(batches_: Sequence[Sequence[Copy]], salt: bytes = SALT) -> bytes:
    data = HEADER
    for batch in batches_:
        data += pack(salt, len(data), batch)
    return data


def copy(number: int, size: int) -> Copy:
    return Copy(f"{number:026}", number * 1000, random.Random(number).randbytes(size))


SOUND = [[copy(1, 300), copy(2, 50)], [copy(3, 1200)], [copy(4, 10), copy(5, 0), copy(6, 700)]]
LAST = [copy(7, 900), copy(8, 30), copy(9, 1500)]
BEFORE = [one for batch in SOUND for one in batch]


@given(batches, st.binary(min_size=8, max_size=8), st.integers(0, 5000))
def test_copies_come_back_as_they_were_packed(batches_: list[list[Copy]], salt: bytes, room: int) -> None:
    data = journal_of(batches_, salt) + bytes(room)
    assert parse(salt, data) == Contents([one for batch in batches_ for one in batch])


@given(batches, st.binary(min_size=8, max_size=8))
def test_copies_of_another_journal_are_never_read(batches_: list[list[Copy]], salt: bytes) -> None:
    """Blocks of a deleted journal can come back in a new one."""
    if salt != SALT:
        assert parse(SALT, journal_of(batches_, salt)) == Contents([])


def loses_the_last_batch_only(data: bytes) -> bool:
    found, damage = parse(SALT, data)
    return damage is None and found[: len(BEFORE)] == BEFORE and all(one in LAST for one in found[len(BEFORE) :])


def test_a_last_batch_cut_at_any_byte_is_a_torn_end() -> None:
    sound, whole = journal_of(SOUND), journal_of([*SOUND, LAST])
    for size in range(len(sound), len(whole)):
        for room in (0, 4096):
            data = whole[:size] + bytes(room)
            assert loses_the_last_batch_only(data), size
            assert LAST[-1] not in parse(SALT, data).copies


def test_a_last_batch_that_lost_any_of_its_sectors_is_a_torn_end() -> None:
    sound, whole = journal_of(SOUND), journal_of([*SOUND, LAST])
    sectors = range(len(sound) // SECTOR, len(whole) // SECTOR + 1)
    for lost in range(1, 2 ** len(sectors)):
        data = bytearray(whole)
        for bit, sector in enumerate(sectors):
            if lost >> bit & 1:
                first, end = max(sector * SECTOR, len(sound)), min((sector + 1) * SECTOR, len(whole))
                data[first:end] = bytes(end - first)
        assert loses_the_last_batch_only(bytes(data)), lost


def test_a_flipped_byte_below_what_was_on_disk_is_damage_and_costs_its_own_copy_only() -> None:
    sound, whole = journal_of(SOUND), journal_of([*SOUND, LAST])
    everything = [*BEFORE, *LAST]
    ends: list[int] = []
    at = JOURNAL_HEADER
    for one in everything:
        at += COPY_HEAD + len(one.data)
        ends.append(at)
    for offset in range(JOURNAL_HEADER, len(whole)):
        data = bytearray(whole)
        data[offset] ^= 0x21
        found, damage = parse(SALT, bytes(data))
        hit = next(number for number, end in enumerate(ends) if offset < end)
        assert found == everything[:hit] + everything[hit + 1 :], offset
        assert (damage is not None) == (offset < len(sound)), offset


def test_a_torn_copy_still_tells_that_what_stands_before_its_batch_was_on_disk() -> None:
    """A loss of power tore the only copy of the last batch, and a byte of the batch before it is bad."""
    before, last = journal_of(SOUND[:2]), journal_of([*SOUND[:2], [copy(7, 900)]])
    at = len(before) - 1
    for size in range(len(before) + COPY_HEAD, len(last)):
        torn = bytearray(last[:size])
        assert parse(SALT, bytes(torn)) == Contents(BEFORE[:3])
        torn[at] ^= 1
        found, damage = parse(SALT, bytes(torn))
        assert found == BEFORE[:2]
        assert damage is not None, size


def test_a_flaw_below_what_was_on_disk_names_its_place() -> None:
    data = bytearray(journal_of([*SOUND, LAST]))
    data[JOURNAL_HEADER + COPY_HEAD] ^= 1
    damage = parse(SALT, bytes(data)).damage
    assert damage is not None
    assert f"offset {JOURNAL_HEADER}" in damage


@given(st.binary(max_size=600))
def test_garbage_behind_the_last_batch_is_never_read_as_a_copy(garbage: bytes) -> None:
    assert parse(SALT, journal_of(SOUND) + garbage) == Contents(BEFORE)


def test_a_journal_that_never_got_its_first_bytes_is_empty() -> None:
    for size in range(JOURNAL_HEADER + 1):
        assert parse(SALT, HEADER[:size]) == Contents([])
    assert parse(SALT, bytes(4096)) == Contents([])


def test_a_journal_whose_header_is_lost_is_still_read() -> None:
    """The file's name has what is needed."""
    data = bytes(JOURNAL_HEADER) + journal_of(SOUND)[JOURNAL_HEADER:]
    assert parse(SALT, data) == Contents(BEFORE)


def test_a_journal_of_a_newer_format_is_refused_by_its_number() -> None:
    data = bytearray(journal_of(SOUND))
    data[8] = 2
    with pytest.raises(ValueError, match="version 2"):
        parse(SALT, bytes(data))


def test_a_name_comes_back_as_it_was_made_and_foreign_ones_are_none() -> None:
    name = new_name("49f913c6-2301-4acd-af5d-73908754428c")
    assert name_of(str(name)) == name
    assert new_name(name.boot) != name
    assert name_of("boot.17.00ff") == Name("boot", 17, b"\x00\xff")
    for foreign in ("", "lock", "boot", "boot.x.00", "boot.17.0g"):
        assert name_of(foreign) is None


def blank(salt: bytes, data: bytes, saga: str) -> list[bytes] | None:
    """Return a journal after each of the writes that blank a saga in it; None if it cannot be told where it is."""
    found = blanks(salt, data, saga)
    if found is None:
        return None
    state, states = bytearray(data), [data]
    for offset, head, _ in found:
        state[offset : offset + len(head)] = head
        states.append(bytes(state))
    for offset, _, size in found:
        start = offset + COPY_HEAD
        for half in (start + size // 2, start + size):  # a write may be cut
            state[start:half] = bytes(half - start)
            states.append(bytes(state))
    return states


def test_blanking_leaves_no_byte_of_a_sagas_frames_and_every_byte_of_the_others() -> None:
    salt = os.urandom(8)
    mine, other = "A" * 26, "B" * 26
    first, second = os.urandom(300), os.urandom(40)
    batches = [
        [Copy(mine, 0, first), Copy(other, 0, second)],
        [Copy(other, 40, second), Copy(mine, 300, second + first)],
    ]
    data = HEADER
    for batch in batches:
        data += pack(salt, len(data), batch)
    data += bytes(100)
    states = blank(salt, data, mine)
    assert states is not None
    for state in states:
        assert len(state) == len(data)
        found = parse(salt, state)
        assert found.damage is None, "the machine may stop between two of the writes"
        assert [copy for copy in found.copies if copy.saga == other] == [batches[0][1], batches[1][0]]
    assert first not in states[-1]
    assert {copy.saga for copy in parse(salt, states[-1]).copies} == {other}
    assert blanks(salt, states[-1], mine) is not None, "it may be done again"
    assert blanks(salt, data, "C" * 26) == []


def test_blanking_reaches_a_torn_copy_and_says_when_it_cannot_tell() -> None:
    salt = os.urandom(8)
    mine, frames = "A" * 26, os.urandom(300)
    data = HEADER + pack(salt, len(HEADER), [Copy(mine, 0, frames)])
    for size in range(JOURNAL_HEADER, len(data)):
        torn = data[:size]
        states = blank(salt, torn, mine)
        if states is None:
            assert mine.encode() in torn
            assert frames[:8] not in torn
        else:
            assert frames[:8] not in states[-1]
            assert len(states[-1]) == size
