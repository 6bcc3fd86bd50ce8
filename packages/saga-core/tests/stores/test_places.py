"""Where an unsettled saga lies: `open/` is what recovery looks at; what waits for somebody lies aside."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from saga_core import Conflict, compensable, inverse, records, saga_scope
from saga_core.errors import RollbackIncomplete
from saga_core.recovery import recover
from saga_core.stores.boot import boot_id
from saga_core.stores.file import FileStore
from saga_core.stores.log import FileLog
from saga_core.stores.system import System

from .disk import Witness

Begin: TypeAlias = Callable[[FileStore], FileLog]
OpenOn: TypeAlias = Callable[[System], FileStore]

charged: list[int] = []
refunded: list[int] = []


@inverse("places.refund", keyed=True)
def refund(amount: int) -> Conflict | None:
    if amount < 0:
        return Conflict(wrote=amount, found=0)
    refunded.append(amount)
    return None


@compensable("places.charge", undo=lambda call: refund.bind(amount=call.args["amount"]))
def charge(amount: int) -> int:
    """Charge."""
    charged.append(amount)
    return amount


@pytest.fixture(autouse=True)
def empty_ledger() -> None:
    charged.clear()
    refunded.clear()


@pytest.fixture
def disk() -> Witness:
    return Witness()


@pytest.fixture
def store(open_on: OpenOn, disk: Witness) -> FileStore:
    return open_on(disk)


def where(place: Path) -> dict[str, str]:
    """Return the directory of each saga's file; each has one."""
    paths = [*place.glob("*/*.log"), *place.glob("done/*/*.log")]
    assert len({path.name for path in paths}) == len(paths)
    return {path.stem: path.relative_to(place).parts[0] for path in paths}


def suspend(store: FileStore, key: str = "order-7") -> str:
    with saga_scope("pay", store=store, key=key) as saga:
        charge(5)
        saga.suspend("waits for Ada")
    return saga.id


def open_case(store: FileStore) -> str:
    with pytest.raises(RollbackIncomplete) as caught, saga_scope("pay", store=store) as saga:
        charge(-5)
        saga.rollback("somebody else changed it")
    assert caught.value.saga_id is not None
    return caught.value.saga_id


def test_a_suspended_saga_lies_aside_until_its_key_resumes_it(store: FileStore, place: Path) -> None:
    saga = suspend(store)
    assert where(place) == {saga: "suspended"}
    assert store.owner(saga) is None
    assert list(store.open_sagas()) == list(store.parked_sagas("suspended")) == [saga]
    assert list(store.due_sagas()) == list(store.parked_sagas("cases")) == []
    with saga_scope("pay", store=store, key="order-7") as again:
        assert where(place) == {saga: "open"}
        charge(5)
        charge(6)
    assert again.id == saga
    assert where(place) == {saga: "done"}
    assert (charged, refunded) == ([5, 6], [])


def test_a_saga_of_which_only_cases_are_left_lies_with_the_cases(store: FileStore, place: Path) -> None:
    saga = open_case(store)
    assert where(place) == {saga: "cases"}
    assert list(store.parked_sagas("cases")) == list(store.open_sagas()) == [saga]
    reading = store.read(saga)
    assert reading is not None
    assert (reading.settled, reading.damage) == (False, None)


class Ordered(System):
    """A disk that keeps the order of moves and writes of logs."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.pwrite = self._pwrite
        self.rename = self._rename

    def _pwrite(self, descriptor: int, data: bytes, offset: int, /) -> int:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.suffix == ".log":
            self.order.append(f"write in {path.parent.name}")
        return os.pwrite(descriptor, data, offset)

    def _rename(self, source: str, target: str) -> None:
        Path(source).rename(target)
        if target.endswith(".log"):
            self.order.append(f"move to {Path(target).parent.name}")


@pytest.mark.parametrize("parked_in", ["suspended", "cases"])
def test_a_parked_log_comes_back_before_its_next_record_and_not_by_a_claim_alone(
    open_on: OpenOn, place: Path, parked_in: str
) -> None:
    """A crash between the two leaves a saga that recovery looks at once more; the other way round it would not."""
    disk = Ordered()
    store = open_on(disk)
    saga = suspend(store) if parked_in == "suspended" else open_case(store)
    disk.order.clear()
    claimed = store.claim(saga)
    assert claimed is not None
    claimed[0].release()
    assert (disk.order, where(place)) == ([], {saga: parked_in})

    claimed = store.claim(saga)
    assert claimed is not None
    log, _ = claimed
    log.append(records.Adopted(2, 1, 2, boot_id(), os.getpid(), "here", "test"))
    assert disk.order == ["move to open", "write in open"]
    log.sync(log.append(records.UnwindBegan("", "test", 3)))
    log.release()
    assert where(place) == {saga: "open"}


def test_a_parked_log_has_one_owner_like_any_other(store: FileStore, place: Path) -> None:
    saga = suspend(store)
    claimed = store.claim(saga)
    assert claimed is not None
    assert FileStore(str(place), System()).claim(saga) is None
    assert store.owner(saga) is not None
    claimed[0].release()
    assert store.owner(saga) is None


def test_recovery_counts_what_is_parked_and_opens_none_of_it(store: FileStore, disk: Witness, place: Path) -> None:
    parked = {suspend(store, f"order-{number}") for number in range(3)} | {open_case(store) for _ in range(2)}
    before = {path: path.read_bytes() for path in place.glob("*/*.log")}
    disk.opened.clear()
    done = recover(store)
    assert (done.found, done.suspended, done.cased, done.needs_person) == ((), 3, 2, True)
    assert (done.count("suspended"), done.count("needs_human")) == (3, 2)
    assert [path for path in disk.opened if any(saga in path for saga in parked)] == []
    assert {path: path.read_bytes() for path in place.glob("*/*.log")} == before
    named = recover(store, only=next(iter(store.parked_sagas("suspended"))))
    assert [one.outcome for one in named.found] == ["suspended"]
    assert disk.opened != [], "what is named is looked at, and the disk sees it"


class Stuck(Witness):
    """A disk that lets nothing be moved aside for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.is_stuck = True
        move = self.rename

        def stuck(source: str, target: str) -> None:
            if self.is_stuck and Path(target).parent.name in {"suspended", "cases"}:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            move(source, target)

        self.rename = stuck


def test_a_saga_that_could_not_be_moved_aside_is_by_the_next_pass(open_on: OpenOn, place: Path) -> None:
    disk = Stuck()
    store = open_on(disk)
    saga, case = suspend(store), open_case(store)
    assert where(place) == {saga: "open", case: "open"}
    assert {one.saga_id: one.outcome for one in recover(store).found} == {saga: "suspended", case: "needs_human"}
    assert where(place) == {saga: "open", case: "open"}, "still stuck"
    disk.is_stuck = False
    assert {one.saga_id: one.outcome for one in recover(store).found} == {saga: "suspended", case: "needs_human"}
    assert where(place) == {saga: "suspended", case: "cases"}
    disk.opened.clear()
    done = recover(store)
    assert (done.found, done.suspended, done.cased) == ((), 1, 1)
    assert [path for path in disk.opened if path.endswith(".log")] == []
    with saga_scope("pay", store=store, key="order-7"):
        charge(5)
    assert (charged, refunded) == ([5, -5], [])


def test_a_log_that_lies_in_two_places_is_a_restored_copy(open_on: OpenOn, place: Path) -> None:
    store = open_on(System())
    saga = suspend(store)
    parked = place / "suspended" / f"{saga}.log"
    (place / "open" / parked.name).write_bytes(parked.read_bytes())
    reading = store.read(saga)
    assert reading is not None
    assert reading.damage is not None
    assert [one.outcome for one in recover(store).found] == ["damaged"]


def test_a_reader_finds_a_log_that_is_moved_while_it_looks(open_on: OpenOn, store: FileStore, place: Path) -> None:
    """From `open/` aside or back, it lies somewhere at any moment."""
    saga = suspend(store)
    paths = [place / name / f"{saga}.log" for name in ("open", "suspended", "cases")]

    class Moving(System):
        """A disk on which the log is somewhere else by the time that its place is opened."""

        def __init__(self) -> None:
            self.moves = 0
            self.open = self._open

        def _open(self, path: str, flags: int, mode: int = 0o777) -> int:
            if path.endswith(".log") and self.moves < 7:
                self.moves += 1
                at = next(number for number, each in enumerate(paths) if each.exists())
                paths[at].rename(paths[(at + 1) % len(paths)])
            return os.open(path, flags, mode)

    disk = Moving()
    reading = open_on(disk).read(saga)
    assert disk.moves == 7
    assert reading is not None
    assert reading.damage is None
    assert isinstance(reading.records[-1], records.Suspended)
