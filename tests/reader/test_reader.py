"""The page on the log's format: a reader made from it alone reads what the store reads."""

from __future__ import annotations

import base64
import os
import random
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import msgspec
import pytest

from saga_core import frame
from saga_core.ids import start_date
from saga_core.stores import backup, copies, erasure, packing
from saga_core.stores.boot import boot_id
from saga_core.stores.encryption import Encryption
from saga_core.stores.file import FileStore
from saga_core.stores.store import Reading
from saga_core.stores.system import System

from ..records_table import PAGE, page  # noqa: TID252 -- the one that writes it
from . import read_log
from .read_log import Log, read_journal, read_store
from .value import Record, unpack

KEYS = {"of the test": bytes(range(32))}
EARLIER = "an earlier boot"
SMALL = 10_000

Said: TypeAlias = tuple[list[Record], bool, int]
"""What somebody says of a log: its records, whether it is damaged, and how many bytes are torn off."""


@dataclass
class Left:
    """A store that processes filled with sagas before they were killed."""

    path: Path
    keys: dict[str, bytes]

    @contextmanager
    def store(self) -> Generator[FileStore]:
        """Open it, as the first of this boot that does."""
        encryption = Encryption(next(iter(self.keys)), self.keys.__getitem__) if self.keys else None
        store = FileStore(str(self.path), System(), encryption)
        yield store
        store.close()

    def logs(self) -> list[Path]:
        """Return the files of its sagas."""
        return sorted(path for path in self.path.rglob("*.log"))

    def read(self) -> dict[str, Said]:
        """Return what the reader says of each log."""
        sagas = read_store(self.path, boot_id(), self.keys)
        return {name: said_by_reader(saga.log) for name, saga in sagas.items() if saga.log}

    def judge(self, data: bytes) -> Said:
        """Return what the reader says of a log's bytes."""
        return said_by_reader(read_log.read_log(data, boot_id(), self.keys))


def said_by_reader(log: Log) -> Said:
    return log.records, log.damage is not None, log.torn


def said_by_store(reading: Reading | None) -> Said:
    """A store names no saga of which there is not one record, unless something is to be done about it."""
    if reading is None:
        return [], False, 0
    records = [unpack(msgspec.msgpack.encode(record)) for record in reading.records]
    assert all(isinstance(record, list) for record in records)
    return [record for record in records if isinstance(record, list)], reading.damage is not None, len(reading.dropped)


def all_said_by(store: FileStore) -> dict[str, Said]:
    return {saga: said_by_store(store.read(saga)) for saga in {*store.open_sagas(), *store.done_sagas()}}


def assert_alike(ours: Said, theirs: Said, what: object) -> None:
    """Compare what both say; a settled log without a record is none to the store."""
    if theirs == ([], False, 0):
        theirs = ([], False, ours[2])
    assert ours == theirs, what


def assert_all_alike(ours: dict[str, Said], theirs: dict[str, Said], what: object = None) -> None:
    assert ours.keys() == theirs.keys(), what
    for saga, said in ours.items():
        assert_alike(said, theirs[saga], (what, saga))


@pytest.fixture
def leave(tmp_path: Path) -> Callable[..., Left]:
    """Have a process fill a store and be killed; another one after it finds what the first one left."""

    def leave_(boot: str = "", *, is_encrypted: bool = False) -> Left:
        environment = {**os.environ}
        if is_encrypted:
            name, key = next(iter(KEYS.items()))
            environment["SAGA_ENCRYPTION"] = name
            environment["SAGA_ENCRYPTION_KEY_OF_THE_TEST"] = base64.b64encode(key).decode()
        program = [sys.executable, str(Path(__file__).with_name("sagas.py")), str(tmp_path / "sagas"), boot]
        ended = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode == -9, ended.stderr
        return Left(tmp_path / "sagas", KEYS if is_encrypted else {})

    return leave_


@pytest.fixture(params=[False, True], ids=["plain", "encrypted"])
def is_encrypted(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture(params=[[""], [EARLIER], [EARLIER, ""]], ids=["same boot", "other boot", "taken over"])
def left(request: pytest.FixtureRequest, leave: Callable[..., Left], *, is_encrypted: bool) -> Left:
    return [leave(boot, is_encrypted=is_encrypted) for boot in request.param][-1]


def test_the_table_of_records_on_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run tests/records_table.py"


def test_the_reader_reads_what_the_store_reads(left: Left) -> None:
    ours = left.read()
    with left.store() as store:
        assert_all_alike(ours, all_said_by(store))
    assert {path.parent.relative_to(left.path).parts[0] for path in left.logs()} == {
        "open",
        "suspended",
        "cases",
        "done",
    }
    kinds = [record[0] for records, _, _ in ours.values() for record in records]
    assert all(kind in kinds for kind in (1, 2, 3, 4, 6, 7, 8, 9, 11, 12, 13, 15, 17, 18, 19, 20))
    assert sum(path.stat().st_size > 3_000_000 for path in left.logs()) >= 2, "none was cut into parts"
    assert not any(is_damaged or torn for _, is_damaged, torn in ours.values())


def test_a_log_cut_at_any_byte_of_its_last_record_is_judged_alike(left: Left) -> None:
    judged = {True: 0, False: 0}
    is_older = False
    seen: list[object] = []
    with left.store() as store:
        for path in left.logs():
            whole = path.read_bytes()
            is_older |= EARLIER.encode() in whole
            log = read_log.read_log(whole, "", left.keys)
            if (kind := (path.parent, log.owner, log.records[-1][0])) in seen:
                continue  # its end is like that of another
            seen.append(kind)
            last = range([160, *log.ends][-2], len(whole))
            for size in last if len(whole) < SMALL else random.Random(len(whole)).sample(last, min(8, len(last))):
                path.write_bytes(whole[:size])
                said = left.judge(whole[:size])
                assert_alike(said, said_by_store(store.read(path.stem)), (path, size))
                judged[said[1]] += 1
            path.write_bytes(whole)
    assert judged[False] > 100
    assert (judged[True] > 0) == is_older, "of an earlier boot, the beginning of a commit is damage"


def test_a_log_with_any_flaw_is_judged_alike(left: Left) -> None:
    seeded = random.Random(7)
    judged = {True: 0, False: 0}
    with left.store() as store:
        for path in left.logs():
            whole = path.read_bytes()
            for number in range(60 if len(whole) < SMALL else 4):
                data = flawed(whole, seeded)
                path.write_bytes(data)
                said = left.judge(data)
                assert_alike(said, said_by_store(store.read(path.stem)), (path, number))
                judged[said[1]] += 1
            path.write_bytes(whole)
    assert judged[True] > 100
    assert judged[False] > 10


def flawed(data: bytes, seeded: random.Random) -> bytes:
    """Return a log's bytes with a flipped bit, zeros for their end, garbage behind them, or cut and flipped."""
    at = seeded.randrange(len(data))
    match seeded.randrange(4):
        case 0:
            return flipped(data, seeded)
        case 1:
            return data[:at] + bytes(len(data) - at)
        case 2:
            return data + seeded.randbytes(seeded.randrange(1, 90))
        case _:
            return flipped(data[: at + 1], seeded, near_end=120)


def flipped(data: bytes, seeded: random.Random, near_end: int = sys.maxsize) -> bytes:
    at = seeded.randrange(max(0, len(data) - near_end), len(data))
    return data[:at] + bytes([data[at] ^ 1 << seeded.randrange(8)]) + data[at + 1 :]


def test_what_is_lost_with_the_power_is_read_from_the_journal(
    leave: Callable[..., Left], *, is_encrypted: bool
) -> None:
    """Each round loses other bytes of the logs and of the journal; the last one loses whole files."""
    left = leave(EARLIER, is_encrypted=is_encrypted)
    leave(EARLIER, is_encrypted=is_encrypted)  # another process of the same boot, which adopts one of the sagas
    written = {path: path.read_bytes() for path in (left.path / "journals").glob("*.j")}
    assert len(written) == 2
    logs = {path: path.read_bytes() for path in left.path.glob("*/*.log")}
    seeded = random.Random(7)
    replayed = damaged = 0
    for number in range(16):
        for path, whole in logs.items():
            after_loss(path, whole, seeded, is_last=number == 15)
        for kept in left.path.glob("journals/*.damaged"):
            kept.unlink()
        held = [data if number % 2 else flawed(data.rstrip(b"\0"), seeded) for data in written.values()]
        if number == 0:  # what later copies say was on the disk is flawed, whatever the dice say
            held = [data[:90] + bytes([data[90] ^ 1]) + data[91:] for data in written.values()]
        found = [read_journal(path.name, data) for path, data in zip(written, held, strict=True)]
        for path, data in zip(written, held, strict=True):
            path.write_bytes(data)
        before = {path.stem: path.read_bytes() for path in logs if path.exists()}
        ours = left.read()
        with left.store() as store:
            assert_all_alike(ours, all_said_by(store), number)
        assert not any(path.exists() for path in written)
        lost = sum(journal is not None and journal.is_damaged for journal in found)
        assert lost == len([*left.path.glob("journals/*.damaged")])
        replayed += sum(len(said[0]) > len(left.judge(before.get(saga, b""))[0]) for saga, said in ours.items())
        damaged += lost
        assert_all_alike(left.read(), ours, f"{number}, replayed")
    assert replayed > 16
    assert damaged > 0


def after_loss(path: Path, whole: bytes, seeded: random.Random, *, is_last: bool) -> None:
    """Leave of a log what a loss of power may leave, on the same inode."""
    at = seeded.randrange(len(whole))
    match seeded.randrange(5):
        case 0:
            path.write_bytes(whole)
        case 1 if is_last:
            path.unlink()
        case 1 | 2:
            path.write_bytes(whole[:at] + bytes(len(whole) - at))
        case 3:
            path.write_bytes(whole[: at % 200])
        case _:
            path.write_bytes(whole[:at])


def test_a_journal_of_the_running_boot_is_not_read(leave: Callable[..., Left]) -> None:
    left = leave()
    (journal,) = (left.path / "journals").glob("*.j")
    path = max(left.path.glob("open/*.log"), key=lambda path: path.stat().st_mtime)
    ours, whole = left.read(), path.read_bytes()
    path.write_bytes(whole[:-1])
    cut = left.read()
    assert len(cut[path.stem][0]) < len(ours[path.stem][0])
    with left.store() as store:
        assert_all_alike(cut, all_said_by(store))
    assert journal.exists()


def test_the_copies_of_an_erased_saga_are_passed_over_by_both(leave: Callable[..., Left]) -> None:
    (journal,) = (leave(EARLIER).path / "journals").glob("*.j")
    data = bytearray(journal.read_bytes())
    name = copies.name_of(journal.stem)
    before = read_journal(journal.name, bytes(data))
    assert name is not None
    assert before is not None
    saga = before.copies[0].saga
    for blank in copies.blanks(name.salt, bytes(data), saga) or pytest.fail("it can be read"):
        data[blank.offset : blank.offset + len(blank.head)] = blank.head
        start = blank.offset + copies.COPY_HEAD
        data[start : start + blank.size // 2] = bytes(blank.size // 2)  # the machine stopped in the middle
    found, ours = read_journal(journal.name, bytes(data)), copies.parse(name.salt, bytes(data))
    assert found is not None
    assert found.is_damaged == (ours.damage is not None) == before.is_damaged
    kept = [(copy.saga, copy.offset, copy.data) for copy in before.copies if copy.saga != saga]
    assert [(copy.saga, copy.offset, copy.data) for copy in found.copies] == kept
    assert [(copy.saga, copy.offset, copy.data) for copy in ours.copies] == kept
    assert 0 < len(kept) < len(before.copies)


def test_packs_and_tombstones_are_read_alike(leave: Callable[..., Left], *, is_encrypted: bool) -> None:
    left = leave(is_encrypted=is_encrypted)
    before = left.read()
    with left.store() as store:
        kept, erased = sorted(store.done_sagas())[:2]
        erasure.erase(store, erased, now=17, by="ana")
        assert read_store(left.path, boot_id(), left.keys)[erased].tombstone == [17, "ana"]
        packing.pack_day(store.archive, start_date(kept))
        found = read_store(left.path, boot_id(), left.keys)
        assert (found[kept].place, found[erased].place) == ("packed", "erased")
        assert (found[erased].log, found[erased].tombstone) == (None, [17, "ana"])
        ours = left.read()
        assert_all_alike(ours, all_said_by(store))
        assert ours[kept] == before[kept]


def test_a_copied_log_is_a_case_to_both(leave: Callable[..., Left], tmp_path: Path) -> None:
    left = leave()
    with left.store() as store:
        backup.back_up(store, str(tmp_path / "copy"))
    copy = Left(tmp_path / "copy", {})
    ours = copy.read()
    with copy.store() as store:
        assert_all_alike(ours, all_said_by(store))
    assert any(is_damaged for _, is_damaged, _ in ours.values())

    path, twin = left.logs()[0], left.path / "open"
    (twin / path.name).write_bytes(path.read_bytes())
    ours = left.read()
    with left.store() as store:
        assert_all_alike(ours, all_said_by(store))
    assert ours[path.stem][1]


def test_a_whole_frame_out_of_its_place_is_damage_to_both(leave: Callable[..., Left]) -> None:
    """Also a record of a kind that nobody knows yet; the same frame in its place, of a known kind, is none."""
    left = leave()
    path = next(left.path.glob("open/*.log"))
    whole = path.read_bytes()
    parsed = frame.parse(whole, boot=boot_id())
    assert parsed.header is not None
    seal, next_ = frame.seal_of(parsed.header.salt), parsed.seq
    opened, unknown = msgspec.msgpack.encode([3, "1", "", "a", 4]), msgspec.msgpack.encode([99, 1])
    with left.store() as store:
        for kind, epoch, number, synced, payload, is_damage in (
            (3, 1, next_, len(whole), opened, False),
            (3, 1, next_ + 1, len(whole), opened, True),
            (3, 0, next_, len(whole), opened, True),
            (3, 1, next_, len(whole) + 1, opened, True),
            (99, 1, next_, len(whole), unknown, True),
        ):
            data, _ = frame.build(seal, parsed.crc, kind, epoch, number, synced, payload)
            path.write_bytes(whole + data)
            said = left.judge(whole + data)
            assert said[1] == is_damage
            assert_alike(said, said_by_store(store.read(path.stem)), (kind, epoch, number, synced))


@pytest.mark.parametrize("field", ["inode", "generation"])
def test_a_log_of_another_file_is_a_case_to_both(leave: Callable[..., Left], field: str) -> None:
    """Also where the file system gave an earlier file's inode to it."""
    left = leave()
    path = next(left.path.glob("open/*.log"))
    whole = path.read_bytes()
    header = frame.header_of(whole)
    assert header is not None
    moved = header._replace(**{field: getattr(header, field) + 1})
    path.write_bytes(moved.pack() + whole[frame.FILE_HEADER :])
    ours = left.read()
    with left.store() as store:
        assert_all_alike(ours, all_said_by(store))
    assert ours[path.stem][1]


def test_a_log_whose_bytes_moved_between_the_readers_is_told_apart(leave: Callable[..., Left]) -> None:
    """The comparison of these tests sees one changed record."""
    left = leave()
    ours = left.read()
    path = left.logs()[0]
    path.write_bytes(path.read_bytes()[:-1])
    with left.store() as store, pytest.raises(AssertionError):
        assert_all_alike(ours, all_said_by(store))


def test_the_reader_needs_nothing_but_python(leave: Callable[..., Left]) -> None:
    """Isolated, without site packages: neither the project nor a library is there to be imported."""
    left = leave()
    program = [sys.executable, "-E", "-S", "-m", "reader.read_log", str(left.path)]
    folder = Path(__file__).parents[1]
    told = subprocess.run(program, cwd=folder, capture_output=True, text=True, check=True).stdout
    sagas = left.read()
    assert [line.split()[0] for line in told.splitlines() if not line.startswith(" ")] == sorted(sagas)
    assert told.count("\n  [") == sum(len(records) for records, _, _ in sagas.values())
