"""Bytes to frames: what is exact, what is a torn tail, and what is damage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saga_core import codec, records
from saga_core.frame import FILE_HEADER, FRAME_HEADER, PART, FileHeader, Frame, Parsed, build, parse, seal_of

if TYPE_CHECKING:
    from collections.abc import Sequence

SAGA = "01K9ZQ4T000000000000000000"
HEADER = FileHeader(SAGA, "00112233445566778899aabbccddeeff", "boot-a", 4711, b"0123456789abcdef")
BEGAN = records.Began(SAGA, "pay", None, 1, 2, "boot-a", 17, "here", {})
HISTORY: list[records.Record] = [
    BEGAN,
    records.ScopeOpened("1", "", "inner", 3),
    records.Noted(1, {"intent": "pi_1"}),
    records.ScopeEnded("1", kept=True, at=4),
]
KIND: dict[type[Any], int] = {kind: number for number, kind in records.KINDS.items()}
COMMITTED = [*HISTORY, records.Committing(5), records.Committed(6)]


def file_of(history: Sequence[records.Record], *, synced: Sequence[int] = (), header: FileHeader = HEADER) -> bytes:
    """Return a log file; `synced` says for each frame how many of the frames before it were known to be durable."""
    data = header.pack()
    seal = seal_of(header.salt)
    crc, epoch, ends = seal.seed, 1, [0]
    for seq, record in enumerate(history):
        if isinstance(record, records.Adopted):
            epoch = record.epoch
        known = ends[synced[seq]] if seq < len(synced) else 0
        frame, crc = build(seal, crc, KIND[type(record)], epoch, seq, known, codec.encode(record))
        data += frame
        ends.append(len(data))
    return data


def records_of(parsed: Parsed) -> list[records.Record]:
    return [codec.decode(frame.payload) for frame in parsed.frames]


def is_prefix(found: list[records.Record], history: Sequence[records.Record]) -> bool:
    return found == list(history[: len(found)])


payloads = st.lists(st.binary(max_size=200), max_size=8)


@given(payloads, st.binary(min_size=16, max_size=16), st.integers(1, 2**32 - 1))
def test_frames_come_back_as_they_were_built(bodies: list[bytes], salt: bytes, epoch: int) -> None:
    header = HEADER._replace(salt=salt)
    data, crc, offsets = header.pack(), seal_of(salt).seed, list[int]()
    for seq, body in enumerate(bodies):
        offsets.append(len(data))
        frame, crc = build(seal_of(salt), crc, 99, epoch, seq, len(data), body)
        data += frame
    parsed = parse(data, boot="boot-a")
    expected = [Frame(at, 99, epoch, seq, body) for seq, (at, body) in enumerate(zip(offsets, bodies, strict=True))]
    synced = offsets[-1] if offsets else 0
    assert parsed == Parsed(header, expected, len(data), len(bodies), b"", None, synced, crc)


@pytest.mark.parametrize("boot", ["boot-a", "boot-b"])
@pytest.mark.parametrize("synced", [(), (0, 1, 1, 3, 3, 5)], ids=["never synced", "synced"])
@pytest.mark.parametrize("history", [HISTORY, COMMITTED], ids=["running", "committed"])
def test_a_flipped_byte_never_yields_a_foreign_or_skipped_record(
    history: list[records.Record], synced: tuple[int, ...], boot: str
) -> None:
    """Each byte of a log, each of its eight bits and all of them at once."""
    data = file_of(history, synced=synced)
    for offset in range(len(data)):
        for flaw in (1, 2, 4, 8, 16, 32, 64, 128, 255):
            broken = bytearray(data)
            broken[offset] ^= flaw
            parsed = parse(bytes(broken), boot=boot)
            found = records_of(parsed)
            assert is_prefix(found, history)
            if parsed.damage is None:
                assert boot == "boot-b", f"a flaw at {offset} was taken for a torn tail in the boot that wrote it"
                assert found or offset >= FILE_HEADER
                assert parsed.tail == bytes(broken[parsed.good_end :])
                assert not isinstance(history[-1], records.Committed), f"a flaw at {offset} hid it"


def test_a_flaw_below_what_was_on_disk_is_damage_in_any_boot() -> None:
    data = file_of(HISTORY, synced=(0, 1, 2, 3))
    last = parse(data, boot="boot-a").frames[-1].offset
    for offset in range(FILE_HEADER, last):
        broken = bytearray(data)
        broken[offset] ^= 1
        damage = parse(bytes(broken), boot="boot-b").damage
        assert damage is not None
        assert "on disk" in damage


@pytest.mark.parametrize("boot", ["boot-a", "boot-b"])
def test_a_log_cut_anywhere_keeps_its_whole_records_and_drops_the_torn_one(boot: str) -> None:
    data = file_of(HISTORY, synced=(0, 1, 2, 3))
    ends = [FILE_HEADER]
    for record in HISTORY:
        ends.append(ends[-1] + FRAME_HEADER + len(codec.encode(record)))
    for size in range(len(data)):
        parsed = parse(data[:size], boot=boot)
        whole = sum(end <= size for end in ends[1:])
        assert parsed.damage is None
        assert records_of(parsed) == HISTORY[:whole]
        assert data[:size] == data[: parsed.good_end] + parsed.tail
        assert parsed.good_end == (ends[whole] if size >= FILE_HEADER else 0)


@pytest.mark.parametrize("boot", ["boot-a", "boot-b"])
def test_a_file_header_that_is_cut_is_an_empty_log(boot: str) -> None:
    assert parse(HEADER.pack()[: FILE_HEADER - 1], boot=boot) == Parsed(
        None, [], 0, 0, HEADER.pack()[: FILE_HEADER - 1], None, 0, 0
    )


@given(st.binary(min_size=1, max_size=400))
def test_garbage_behind_the_last_record_is_never_read_as_one(garbage: bytes) -> None:
    data = file_of(HISTORY)
    for boot in ("boot-a", "boot-b"):
        parsed = parse(data + garbage, boot=boot)
        assert records_of(parsed) == HISTORY
        assert parsed.damage or parsed.tail == garbage


@given(st.binary(min_size=16, max_size=16), st.integers(0, 3))
def test_a_frame_of_another_file_never_fits(salt: bytes, seq: int) -> None:
    """Blocks of a deleted log can come back behind the end of a new one."""
    other = HEADER._replace(salt=salt)
    if other == HEADER:
        return
    foreign = parse(file_of(HISTORY, header=other), boot="boot-a").frames[seq]
    stale = file_of(HISTORY, header=other)[foreign.offset :]
    parsed = parse(file_of(HISTORY[:seq]) + stale, boot="boot-b")
    assert records_of(parsed) == HISTORY[:seq]


def test_zeros_behind_the_last_record_are_a_torn_tail_after_a_restart_and_damage_before() -> None:
    data = file_of(HISTORY) + bytes(4096)
    assert parse(data, boot="boot-b").damage is None
    assert parse(data, boot="boot-a").damage is not None


def test_a_hole_is_damage_when_a_record_behind_it_knew_the_bytes_to_be_on_disk() -> None:
    """The headers behind the hole are found by their salted checksums although the chain is broken there."""
    data = file_of(HISTORY, synced=(0, 0, 0, 2))
    frames = parse(data, boot="boot-a").frames
    hole = frames[1].offset
    holed = data[:hole] + bytes(frames[2].offset - hole) + data[frames[2].offset :]
    parsed = parse(holed, boot="boot-b")
    assert records_of(parsed) == HISTORY[:1]
    assert parsed.damage is not None
    assert f"offset {hole}" in parsed.damage

    unknowing = file_of(HISTORY)
    holed = unknowing[:hole] + bytes(frames[2].offset - hole) + unknowing[frames[2].offset :]
    assert parse(holed, boot="boot-b").damage is None


def test_a_commit_behind_a_hole_is_damage_although_nothing_is_known_to_be_synced() -> None:
    data = bytearray(file_of(COMMITTED))
    data[parse(bytes(data), boot="boot-a").frames[2].offset + 3] ^= 1
    damage = parse(bytes(data), boot="boot-b").damage
    assert damage is not None
    assert "commit" in damage


def test_a_released_hold_in_a_torn_tail_is_damage_and_one_that_was_not_written_is_none() -> None:
    history: list[records.Record] = [*COMMITTED, records.Released(2, 9, 1, 1)]
    data = file_of(history)
    begin = parse(data, boot="boot-a").frames[-1].offset
    for flaw in range(begin + 2, len(data)):
        broken = bytearray(data)
        broken[flaw] ^= 1
        damage = parse(bytes(broken), boot="boot-b").damage
        assert damage is not None, f"a flaw at {flaw} hid the release"
        assert "released hold" in damage
    assert parse(data[:begin], boot="boot-b").damage is None


@pytest.mark.parametrize("kind", [records.Committed, records.Released])
@pytest.mark.parametrize("boot", ["boot-a", "boot-b"])
def test_no_flaw_of_one_byte_hides_an_encrypted_commit_or_release(boot: str, kind: type[records.Record]) -> None:
    """Its payload tells nothing: a bad one is known by its head alone."""
    header = HEADER._replace(key="k", check=b"8 bytes.")
    seal = seal_of(header.salt)
    sealed = bytes(range(40))
    first, crc = build(seal, seal.seed, KIND[records.Began], 1, 0, 0, sealed)
    last, _ = build(seal, crc, KIND[kind], 1, 1, 0, sealed)
    data = header.pack() + first + last
    for offset in range(len(data) - len(last), len(data)):
        for flaw in range(1, 256):
            broken = bytearray(data)
            broken[offset] ^= flaw
            assert parse(bytes(broken), boot=boot).damage is not None, f"a flaw at {offset} hid the commit"


def test_a_whole_part_that_is_bad_is_damage_in_the_same_boot_although_its_record_was_cut() -> None:
    header = HEADER.pack()
    seal = seal_of(HEADER.salt)
    first, crc = build(seal, seal.seed, PART, 1, 0, 0, b"the beginning")
    second, crc = build(seal, crc, PART, 1, 1, 0, b"the middle")
    last, _ = build(seal, crc, KIND[records.Noted], 1, 2, 0, b"the end")
    cut = header + first + second + last[:-1]
    assert parse(cut, boot="boot-a").damage is None
    broken = bytearray(cut)
    broken[len(header) + len(first) - 1] ^= 1
    assert parse(bytes(broken), boot="boot-a").damage is not None


def test_a_commit_that_is_cut_in_the_same_boot_was_never_acknowledged() -> None:
    data = file_of(COMMITTED)
    parsed = parse(data[:-1], boot="boot-a")
    assert parsed.damage is None
    assert records_of(parsed) == COMMITTED[:-1]


def test_a_record_out_of_its_place_is_damage() -> None:
    seal = seal_of(HEADER.salt)
    first, crc = build(seal, seal.seed, KIND[records.Began], 1, 0, 0, codec.encode(BEGAN))
    skipped, _ = build(seal, crc, 16, 1, 2, 0, codec.encode(records.Committing(1)))
    parsed = parse(HEADER.pack() + first + skipped, boot="boot-b")
    assert records_of(parsed) == [BEGAN]
    assert parsed.damage is not None

    older, _ = build(seal, crc, 16, 0, 1, 0, codec.encode(records.Committing(1)))
    assert parse(HEADER.pack() + first + older, boot="boot-b").damage is not None


def test_the_newest_owner_says_in_which_boot_the_end_was_written() -> None:
    adopted = [*HISTORY, records.Adopted(2, 1, 2, "boot-b", 18, "here", "recover"), records.UnwindBegan("", "x", 5)]
    data = bytearray(file_of(adopted))
    data[-1] ^= 1
    assert parse(bytes(data), boot="boot-b").damage is not None
    assert parse(bytes(data), boot="boot-c").damage is None
    assert parse(bytes(data), boot="boot-a").damage is None


def test_the_end_of_a_live_log_is_being_written_and_its_middle_is_not() -> None:
    data = file_of(HISTORY, synced=(0, 1, 2, 3))
    flawed_end = data[:-1] + bytes([data[-1] ^ 1])
    assert parse(flawed_end, boot="boot-a", live=True).damage is None
    flawed_middle = bytearray(data)
    flawed_middle[FILE_HEADER + 40] ^= 1
    assert parse(bytes(flawed_middle), boot="boot-a", live=True).damage is not None


def test_a_file_of_a_newer_format_is_refused_by_its_number() -> None:
    data = bytearray(file_of(HISTORY))
    data[8] = 7
    damage = parse(bytes(data), boot="boot-a").damage
    assert damage is not None
    assert "version 7" in damage


def test_version_1_reads_the_bytes_that_it_always_wrote() -> None:
    """The golden file of the format: it may never change."""
    golden = bytes.fromhex(
        "736167616c6f670a0100a000000000003031323334353637383961626364656630314b395a5134543030303030303030"
        "3030303030303030303000112233445566778899aabbccddeeff626f6f742d6100000000000000000000000000000000"
        "000000000000000000000000000067120000000000000000000000000000000000000000000000000000000000000000"
        "00000000000000000000000078fec8fac130010038000000010000000000000000000000000000007deb04df18b64cfc"
        "9c01ba30314b395a513454303030303030303030303030303030303030a3706179c00102a6626f6f742d6111a4686572"
        "6580a4756e646f01c1301000030000000100000001000000f8000000000000003ae6b81e6faadc00921005"
    )
    history = [BEGAN, records.Committing(5)]
    assert file_of(history, synced=(0, 1)) == golden
    assert records_of(parse(golden, boot="boot-a")) == history
