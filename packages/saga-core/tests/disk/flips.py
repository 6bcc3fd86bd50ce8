"""Every byte of a log and of a journal, damaged one at a time, and what the store makes of it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from saga_core import frame
from saga_core.errors import StoreError
from saga_core.frame import Identity
from saga_core.records import Committed
from saga_core.stores import copies
from saga_core.stores.history import judge

from .content import SECTOR
from .machine import restart
from .programs import SAGAS, Play, Program
from .stage import PLACE
from .survivors import Doubts, Survivor, revive
from .witness import Violation, Witness

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from saga_core.records import Record
    from saga_core.stores.store import Reading

    from .machine import Machine
    from .stage import Stage
    from .witness import Promise

MASKS = (0x01, 0x80, 0xFF)
"""What a damaged byte is changed by."""

(_SAGA, _OTHER, *_) = SAGAS


class Sample(NamedTuple):
    """A saga's log as it lies there, and what it says."""

    data: bytes
    identity: str
    inode: int
    boot: str
    records: list[Record]
    synced: int
    ends: list[int]


def sample(stage: Stage, machine: Machine, program: Program) -> Sample:
    """Run a program that leaves one log in `open/`, and return it."""
    stage.use(machine)
    witness = Witness()
    program.act(Play(stage, witness))
    store = stage.open("reader")
    reading = store.read(_SAGA)
    assert reading is not None
    assert reading.damage is None
    file = machine.files[machine.resolve(f"{PLACE}/open/{_SAGA}.log")]
    data = bytes(file.data)
    parsed = frame.parse(data, boot=machine.boot)
    ends = [one.offset for one in parsed.frames[1:]] + [parsed.good_end]
    return Sample(data, store.identity, file.number, machine.boot, reading.records, parsed.synced, ends)


def flipped(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield each way in which one byte is damaged, with its offset."""
    for at, byte in enumerate(data):
        for mask in MASKS:
            yield at, data[:at] + bytes([byte ^ mask]) + data[at + 1 :]


def read(found: Sample, data: bytes) -> Reading:
    """Return what is made of a log's bytes in the boot on the stage."""
    return judge(data, _SAGA, found.identity, identity=Identity(found.inode, 0), live=False, settled=False).reading


def check(found: Sample, at: int, reading: Reading, *, same_boot: bool) -> str:
    """Return what became of a log with a damaged byte: `exact`, `dropped` or `case`.

    Raises:
        Violation: It says something that the sound log did not say, or keeps silent about what was on disk.
    """
    records = found.records
    if reading.damage is not None:
        if reading.records != records[: len(reading.records)]:
            raise Violation(f"a byte at {at} made up a record")
        return "case"
    if reading.records == records:
        return "exact"
    count = len(reading.records)
    if reading.records != records[:count]:
        raise Violation(f"a byte at {at} made a record up, or left one out")
    if same_boot:
        raise Violation(f"a byte at {at} dropped {len(records) - count} records, and the machine had not restarted")
    if at < found.synced or (count and found.ends[count - 1] < found.synced):
        raise Violation(f"a byte at {at}, which was on disk, dropped {len(records) - count} records in silence")
    if any(isinstance(record, Committed) for record in records[count:]):
        raise Violation(f"a byte at {at} dropped a commit in silence")
    return "dropped"


def unsynced_end(play: Play) -> None:
    """Records behind the last barrier."""
    actor = play.actor("a")
    actor.create(_SAGA)
    actor.append(_SAGA, play.began(_SAGA), play.noted())
    actor.sync(_SAGA)
    actor.append(_SAGA, play.noted(), play.noted(30))
    actor.sync(_SAGA)
    actor.append(_SAGA, play.noted(), play.noted())
    actor.die()


def committed(play: Play) -> None:
    """A commit at the end."""
    actor = play.actor("a")
    actor.create(_SAGA)
    actor.append(_SAGA, play.began(_SAGA), play.noted())
    actor.sync(_SAGA)
    actor.append(_SAGA, play.noted(), play.committed())
    actor.sync(_SAGA)
    actor.die()


def two_in_a_journal(play: Play) -> None:
    """Two sagas, whose frames the journal alone has on disk."""
    actor = play.actor("a")
    for saga in (_SAGA, _OTHER):
        actor.create(saga)
        actor.append(saga, play.began(saga), play.noted())
        actor.sync(saga)
    actor.append(_SAGA, play.noted())
    actor.append(_OTHER, play.rolled_back())
    actor.sync(_SAGA, _OTHER)
    actor.append(_SAGA, play.noted())
    actor.sync(_SAGA)
    actor.die()


def lost_sectors(found: Sample) -> Iterator[tuple[int, int, bytes]]:
    """Yield each way in which a sector is lost: where, what the other sectors know to be on disk, and the bytes."""
    for at in range(0, len(found.data), SECTOR):
        data = found.data[:at] + bytes(min(SECTOR, len(found.data) - at)) + found.data[at + SECTOR :]
        seal = frame.seal_of(found.data[16:32])
        known = max((head.synced for head in frame._heads_behind(data, 0, seal)), default=0)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        yield at, known, data


def journal_flips(stage: Stage, machine: Machine) -> Counter[str]:
    """Damage each byte of a journal that alone holds what was promised, and return what became of it.

    Raises:
        Violation: Something else than what was written is read, or what was on disk is dropped in silence.
    """
    stage.use(machine)
    witness = Witness()
    two_in_a_journal(Play(stage, witness))
    moment = machine.look()
    names = tuple(True for renaming in moment.renamings if renaming.state != "proven")
    lost = revive(moment, moment, Survivor(names, ()), Doubts())
    journals = lost.folders[lost.resolve(f"{PLACE}/journals")]
    ((file, inode),) = [(name, inode) for name, inode in journals.items() if name.endswith(copies.SUFFIX)]
    name = copies.name_of(file.removesuffix(copies.SUFFIX))
    assert name is not None
    whole = bytes(lost.files[inode].data)
    written = whole.rstrip(b"\0")
    last = copies.parse(name.salt, whole).copies[-1]
    proven = len(written) - copies.COPY_HEAD - len(last.data)
    became: Counter[str] = Counter()
    for at, data in flipped(written):
        files = {number: bytes(held.data) for number, held in lost.files.items()}
        files[inode] = data + whole[len(data) :]
        stage.use(restart("boot-2", files, lost.folders, {}))
        found = _look(stage, witness.promises)
        if found == "dropped" and at < proven:
            raise Violation(f"a journal's byte at {at}, which was on disk, was damaged, and records dropped in silence")
        became[found] += 1
    return became


def _look(stage: Stage, promises: Mapping[str, Promise]) -> str:
    """Return what became of the sagas of a damaged journal: `exact`, `dropped` or `case`.

    Raises:
        Violation: One has another history.
    """
    try:
        store = stage.open("reader")
    except StoreError:
        return "case"
    became = "exact"
    for saga, promise in promises.items():
        records = [attempt.record for attempt in promise.attempts]
        reading = store.read(saga)
        found = [] if reading is None else reading.records
        if found != records[: len(found)]:
            raise Violation(f"saga {saga} has another history: {found}")
        if reading is not None and reading.damage is not None:
            return "case"
        if found != records:
            became = "dropped"
    return became
