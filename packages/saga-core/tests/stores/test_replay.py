"""After a loss of power the journals make the logs whole again, whatever is left of them."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest

from saga_core import frame, records
from saga_core.errors import LogDamaged, StoreError
from saga_core.ids import start_date
from saga_core.stores import copies, replay
from saga_core.stores.copies import Copy
from saga_core.stores.file import FileStore
from saga_core.stores.system import System

from .disk import NEXT_BOOT, Witness, held_by, journals, restart
from .test_processes import PRELUDE, line_of, say

Spawn: TypeAlias = Callable[..., subprocess.Popen[str]]

RUN = (
    PRELUDE
    + """
sagas = sys.argv[3:]
if sys.argv[2] == "begin":
    logs = [store.create(saga) for saga in sagas]
    for log in logs:
        log.append(began(log.saga))
else:
    logs = []
    for saga in sagas:
        log, reading = store.claim(saga)
        logs.append(log)
        log.append(records.Adopted(2, 1, 2, boot_id(), os.getpid(), "here", "test", reading.dropped))

def sync(asked):
    told, problems = threading.Event(), []
    store.sync_later([(log, log.end) for log in asked], lambda found: (problems.extend(found), told.set()))
    assert told.wait(60) and problems == [None] * len(asked)

sync(logs)
for log in logs:
    log.append(records.Noted(1, {"text": log.saga}))
sync(logs)
for number in range(2):
    for log in logs:
        log.append(records.Noted(2, {"number": str(number)}))
        sync([log])
tell("ready")
for line in sys.stdin:
    for log in logs:
        if line.strip() == "newer":
            log.append(records.Noted(3, {"newer": "than the journal"}))
        elif line.strip() == "settle":
            sync([log]) if log.append(records.RolledBack(1)) else None
            log.settle()
            break
    tell("done")
"""
)


class Remains(NamedTuple):
    """What a killed process left: its journals and its logs, as they were.

    Attributes:
        place: The store.
        journals: The bytes of each journal.
        logs: The bytes of each log.
    """

    place: Path
    journals: dict[Path, bytes]
    logs: dict[Path, bytes]

    def put_back(self) -> None:
        """Have the journals as they were left; the logs are the test's business."""
        for path in journals(self.place):
            path.unlink()
        for path, data in self.journals.items():
            path.write_bytes(data)

    def wrongs(self) -> list[str]:
        """Return what is not as it was left: a log that lacks something, or whose records are not the same."""
        store = FileStore(str(self.place), System())
        wrongs: list[str] = []
        for path, whole in self.logs.items():
            data = path.read_bytes() if path.exists() else b""
            if data[frame.FILE_HEADER : len(whole)] != whole[frame.FILE_HEADER :]:
                wrongs.append(f"{path.name} has not its records")
            header = frame.header_of(data)
            made = frame.header_of(whole)
            assert made is not None
            inode = path.stat().st_ino if path.exists() else 0
            if header is None or header != made._replace(inode=inode, generation=header.generation):
                wrongs.append(f"{path.name} has another header")
            reading = store.read(path.stem)
            if reading is None or reading.damage is not None:
                wrongs.append(f"{path.name}: {reading and reading.damage}")
        return wrongs

    def opened(self, system: System | None = None) -> list[str]:
        """Open the store, as the first does after the restart; return what is wrong then."""
        FileStore(str(self.place), system or System()).close()
        return [*self.wrongs(), *(f"{path.name} is still there" for path in journals(self.place))]


def left_by(place: Path, *children: subprocess.Popen[str]) -> Remains:
    """Kill processes and return what is left."""
    for child in children:
        child.kill()
        child.wait()
    written = {path: path.read_bytes().rstrip(b"\0") for path in journals(place)}
    logs = [*place.glob("*/*.log"), *place.glob("done/*/*.log")]
    return Remains(place, written, {path: path.read_bytes() for path in logs})


SAGAS = ["01HKZ0000000000000000000AA", "01HKZ0000000000000000000AB", "01HKZ0000000000000000000AC"]


def run(spawn: Spawn, place: Path, *sagas: str, how: str = "begin") -> subprocess.Popen[str]:
    child = spawn(RUN, place, how, *sagas)
    assert line_of(child) == "ready"
    return child


def test_a_log_cut_at_any_byte_is_made_whole(spawn: Spawn, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remains = left_by(place, run(spawn, place, SAGAS[0]))
    ((path, whole),) = remains.logs.items()
    restart(monkeypatch)
    for size in range(len(whole) + 1):
        remains.put_back()
        path.write_bytes(whole[:size])
        assert remains.opened() == [], size
        assert path.read_bytes() == whole, size


@pytest.mark.parametrize("tail", [bytes(700), b"\xc1" * 50, os.urandom(300)], ids=["zeros", "marks", "garbage"])
def test_a_log_with_a_torn_tail_is_made_whole(
    spawn: Spawn, place: Path, monkeypatch: pytest.MonkeyPatch, tail: bytes
) -> None:
    remains = left_by(place, run(spawn, place, SAGAS[0]))
    ((path, whole),) = remains.logs.items()
    restart(monkeypatch)
    for size in range(0, len(whole) + 1, 5):
        remains.put_back()
        path.write_bytes(whole[:size] + tail)
        assert remains.opened() == [], size
        assert path.read_bytes().startswith(whole), size


def test_a_log_with_any_of_its_sectors_lost_is_made_whole(
    spawn: Spawn, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remains = left_by(place, run(spawn, place, SAGAS[0]))
    ((path, whole),) = remains.logs.items()
    sectors = range(0, len(whole), 64)
    restart(monkeypatch)
    for lost in range(1, 2 ** len(sectors), 3):
        data = bytearray(whole)
        for bit, first in enumerate(sectors):
            if lost >> bit & 1:
                data[first : first + 64] = bytes(len(data[first : first + 64]))
        remains.put_back()
        path.write_bytes(data)
        assert remains.opened() == [], lost
        assert path.read_bytes() == whole, lost


def test_a_log_that_is_gone_is_made_again_and_names_its_own_inode(
    spawn: Spawn, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remains = left_by(place, run(spawn, place, *SAGAS))
    restart(monkeypatch)
    for path in remains.logs:
        path.rename(place / path.name)  # so that no inode comes back
    assert remains.opened() == []
    for path, whole in remains.logs.items():
        header = frame.header_of(path.read_bytes())
        assert header is not None
        assert header.inode == path.stat().st_ino != (place / path.name).stat().st_ino
        assert path.read_bytes()[frame.FILE_HEADER :] == whole[frame.FILE_HEADER :]
    claimed = FileStore(str(place), System()).claim(SAGAS[0])
    assert claimed is not None
    claimed[0].release()


def test_the_checker_sees_a_log_that_was_made_again_under_its_old_inode(
    spawn: Spawn, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A negative control."""

    def as_it_was(data: bytes, _: int) -> bytes:
        return data

    remains = left_by(place, run(spawn, place, SAGAS[0]))
    restart(monkeypatch)
    (path,) = remains.logs
    path.rename(place / path.name)
    monkeypatch.setattr(replay, "_placed", as_it_was)
    assert f"{path.name} has another header" in remains.opened()


@pytest.mark.parametrize("where", ["suspended", "cases", "done"])
def test_a_log_is_made_whole_where_it_lies(
    spawn: Spawn, place: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    remains = left_by(place, run(spawn, place, SAGAS[0]))
    ((path, whole),) = remains.logs.items()
    target = place / where / (f"{start_date(SAGAS[0])}/{path.name}" if where == "done" else path.name)
    target.parent.mkdir(exist_ok=True)
    path.rename(target)
    moved = remains._replace(logs={target: whole})
    restart(monkeypatch)
    for size in (0, 10, len(whole) // 2, len(whole) - 1):
        moved.put_back()
        target.write_bytes(whole[:size])
        assert moved.opened() == []
        assert target.read_bytes() == whole
        assert not path.exists()


def test_a_restored_copy_is_left_as_it_is(spawn: Spawn, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remains = left_by(place, run(spawn, place, *SAGAS[:2]))
    copied, other = sorted(remains.logs)
    shutil.copy(copied, place / "copy")
    os.truncate(place / "copy", 300)
    (place / "copy").rename(copied)
    os.truncate(other, 300)
    before = copied.read_bytes()
    restart(monkeypatch)
    store = FileStore(str(place), System())
    assert copied.read_bytes() == before
    assert other.read_bytes() == remains.logs[other]
    with pytest.raises(LogDamaged, match="restored copy"):
        store.claim(copied.stem)


def test_what_a_log_has_behind_its_journal_stays(spawn: Spawn, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel had written it, although nobody had waited for that."""
    child = run(spawn, place, SAGAS[0])
    say(child, "newer")
    assert line_of(child) == "done"
    remains = left_by(place, child)
    ((path, whole),) = remains.logs.items()
    (journal,) = remains.journals
    assert max(copy.offset + len(copy.data) for copy in held_by(journal)) < len(whole)
    restart(monkeypatch)
    assert remains.opened() == []
    assert path.read_bytes() == whole
    remains.put_back()
    holed = bytearray(whole)
    holed[frame.FILE_HEADER + 20] ^= 1
    path.write_bytes(holed)
    assert remains.opened() == []
    assert path.read_bytes() == whole


def test_the_checker_sees_a_replay_that_costs_newer_bytes(
    spawn: Spawn, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A negative control: a replay that makes of each log what the journal says, no more."""

    def make_so(logs: replay.Logs, saga: str, held: list[Copy]) -> str | None:
        path = logs.find(saga)
        assert path is not None
        with open(path, "r+b") as file:  # noqa: PTH123 -- the fault is written like the code
            for copy in held:
                file.seek(copy.offset)
                file.write(copy.data)
            file.truncate()
        return path

    child = run(spawn, place, SAGAS[0])
    say(child, "newer")
    assert line_of(child) == "done"
    remains = left_by(place, child)
    restart(monkeypatch)
    monkeypatch.setattr(replay, "_extend", make_so)
    assert remains.opened() == [f"{SAGAS[0]}.log has not its records"]


def test_a_settled_log_that_came_back_to_its_old_place_is_made_whole_there(
    spawn: Spawn, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = run(spawn, place, SAGAS[0])
    say(child, "settle")
    assert line_of(child) == "done"
    remains = left_by(place, child)
    ((settled, whole),) = remains.logs.items()
    assert settled.parent.parent.name == "done"
    back = place / "open" / settled.name
    settled.rename(back)
    os.truncate(back, 200)
    restart(monkeypatch)
    remains = remains._replace(logs={back: whole})
    assert remains.opened() == []
    assert back.read_bytes() == whole


def test_the_journals_of_an_owner_and_of_its_adopter_are_applied_in_order(
    spawn: Spawn, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = run(spawn, place, SAGAS[0])
    owner.kill()
    owner.wait()
    adopter = run(spawn, place, SAGAS[0], how="adopt")
    remains = left_by(place, adopter)
    assert len(remains.journals) == 2
    ((path, whole),) = remains.logs.items()
    restart(monkeypatch)
    for size in range(0, len(whole), 11):
        remains.put_back()
        path.write_bytes(whole[:size] + bytes(40))
        assert remains.opened() == [], size
        assert path.read_bytes().rstrip(b"\0") == whole.rstrip(b"\0"), size
    store = FileStore(str(place), System())
    reading = store.read(SAGAS[0])
    assert reading is not None
    assert [type(record) for record in reading.records[:6:5]] == [records.Began, records.Noted]
    assert sum(isinstance(record, records.Adopted) for record in reading.records) == 1


@pytest.mark.parametrize("error", [errno.EROFS, errno.ENOSPC, errno.EIO], ids=["read-only", "full", "broken"])
@pytest.mark.parametrize("fails", ["bad_writes", "bad_syncs"])
def test_a_replay_that_fails_opens_nothing_and_the_next_one_makes_it_good(
    spawn: Spawn, place: Path, monkeypatch: pytest.MonkeyPatch, error: int, fails: str
) -> None:
    remains = left_by(place, run(spawn, place, *SAGAS))
    for path in remains.logs:
        os.truncate(path, 150)
    restart(monkeypatch)
    disk = Witness()
    disk.error = error
    setattr(disk, fails, {f"{SAGAS[1]}.log"})
    with pytest.raises(StoreError, match="cannot be replayed") as caught:
        FileStore(str(place), disk)
    assert os.strerror(error) in str(caught.value)
    assert journals(place) == sorted(remains.journals)
    assert remains.opened() == []


def test_a_journal_of_a_newer_release_opens_nothing_and_stays(
    spawn: Spawn, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remains = left_by(place, run(spawn, place, SAGAS[0]))
    ((path, data),) = remains.journals.items()
    path.write_bytes(data[:8] + b"\x02" + data[9:])
    restart(monkeypatch)
    with pytest.raises(StoreError, match="version 2"):
        FileStore(str(place), System())
    assert journals(place) == [path]


def test_a_damaged_journal_is_kept_and_costs_the_open_sagas_of_its_process_only(
    spawn: Spawn, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled, lost, sound = SAGAS
    bad, good = run(spawn, place, settled, lost), run(spawn, place, sound)
    say(bad, "settle")
    assert line_of(bad) == "done"
    remains = left_by(place, bad, good)
    damaged = next(path for path in remains.journals if f".{bad.pid}." in path.name)
    data = bytearray(remains.journals[damaged])
    data[copies.JOURNAL_HEADER + copies.COPY_HEAD + 5] ^= 1
    damaged.write_bytes(data)
    restart(monkeypatch)
    for _ in range(2):
        store = FileStore(str(place), System())
        assert [path.name for path in (place / "journals").glob("*.damaged")] == [damaged.stem + ".damaged"]
        assert (place / "journals" / (damaged.stem + ".damaged")).read_bytes() == bytes(data)
        assert journals(place) == []
        with pytest.raises(LogDamaged, match="journal of its process is damaged"):
            store.claim(lost)
        readings = {saga: store.read(saga) for saga in SAGAS}
        assert {saga: reading and bool(reading.damage) for saga, reading in readings.items()} == {
            settled: False,
            lost: True,
            sound: False,
        }
        claimed = store.claim(sound)
        assert claimed is not None
        claimed[0].release()
        store.close()


def test_a_damaged_journal_still_gives_what_can_be_read_of_it(
    spawn: Spawn, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remains = left_by(place, run(spawn, place, *SAGAS[:2]))
    ((journal, data),) = remains.journals.items()
    first = held_by(journal)[0]
    broken = bytearray(data)
    broken[copies.JOURNAL_HEADER + copies.COPY_HEAD + 5] ^= 1
    journal.write_bytes(broken)
    for path in remains.logs:
        os.truncate(path, 0)
    restart(monkeypatch)
    FileStore(str(place), System())
    intact = next(path for path in remains.logs if path.stem != first.saga)
    assert intact.read_bytes() == remains.logs[intact]


class PowerCut(BaseException):
    """The power goes."""


class Failing(System):
    """A disk whose power goes at a call; with `loses`, what was not synced by then is lost."""

    def __init__(self, at: int, *, loses: bool) -> None:
        self.calls = 0
        self._at = at
        self._loses = loses
        self._undo: list[tuple[str, Callable[[], object]]] = []
        self.pwrite = self._pwrite
        self.sync_data = self._sync_data
        self.rename = self._rename
        self.unlink = self._unlink

    def _count(self) -> None:
        self.calls += 1
        if self.calls == self._at:
            if self._loses:
                for _, undo in reversed(self._undo):
                    undo()
            raise PowerCut

    def _pwrite(self, descriptor: int, data: bytes, offset: int, /) -> int:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        before = path.read_bytes()
        self._undo.append((str(path), lambda: path.write_bytes(before)))
        self._count()
        return os.pwrite(descriptor, data, offset)

    def _sync_data(self, descriptor: int, /) -> None:
        self._count()
        path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        self._undo = [(of, undo) for of, undo in self._undo if of != path]

    def sync_dir(self, path: str) -> None:
        self._count()
        self._undo = [(of, undo) for of, undo in self._undo if of != path]

    def _rename(self, source: str, target: str) -> None:
        self._count()
        Path(source).rename(target)

    def _unlink(self, path: str) -> None:
        data = Path(path).read_bytes()
        self._undo.append((str(Path(path).parent), lambda: Path(path).write_bytes(data)))
        self._count()
        Path(path).unlink()


@pytest.mark.parametrize("loses", [False, True], ids=["killed", "power lost"])
def test_a_second_crash_at_any_call_of_a_replay_does_no_harm(
    spawn: Spawn, place: Path, monkeypatch: pytest.MonkeyPatch, *, loses: bool
) -> None:
    first = run(spawn, place, SAGAS[0])
    remains = left_by(place, first, run(spawn, place, *SAGAS[1:]))
    restart(monkeypatch)
    for at in itertools.count(1):
        remains.put_back()
        for size, path in zip((0, 170, 300), remains.logs, strict=True):
            path.write_bytes(remains.logs[path][:size])
        disk = Failing(at, loses=loses)
        try:
            FileStore(str(place), disk).close()
        except PowerCut:
            assert remains.opened() == [], at
            assert {path: path.read_bytes() for path in remains.logs} == remains.logs
        else:
            assert disk.calls > 10
            break


OPEN = f"""
import io, logging, sys
from saga_core.stores import boot
boot.open = lambda *_, **__: io.StringIO({NEXT_BOOT + chr(10)!r})
from saga_core.stores.file import FileStore
from saga_core.stores.system import System
said = []
class Said(logging.Handler):
    def emit(self, record):
        said.append("replayed" in record.getMessage())
logging.getLogger("saga_core.store").addHandler(Said())
logging.getLogger("saga_core.store").setLevel(logging.INFO)
print("ready", flush=True)
for line in sys.stdin:
    said.clear()
    store = FileStore(sys.argv[1], System())
    counts = [len(store.read(saga).records) for saga in store.open_sagas()]
    print(sum(said), *counts, flush=True)
"""


def test_of_two_processes_that_open_at_once_one_replays_and_both_see_the_result(spawn: Spawn, place: Path) -> None:
    remains = left_by(place, run(spawn, place, *SAGAS))
    children = [spawn(OPEN, place) for _ in range(2)]
    assert [line_of(child) for child in children] == ["ready", "ready"]
    for _ in range(15):
        for path in remains.logs:
            os.truncate(path, 0)
        remains.put_back()
        for child in children:
            say(child)
        answers = [line_of(child).split() for child in children]
        assert sorted(answer[0] for answer in answers) == ["0", "1"]
        assert [answer[1:] for answer in answers] == [["4"] * 3] * 2
        assert {path: path.read_bytes() for path in remains.logs} == remains.logs
