"""What every store answers: the same tests over memory and files."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, cast

import pytest

from saga_core import codec, ids, records
from saga_core.answers import Compensation
from saga_core.errors import StoreError
from saga_core.stores import open_store
from saga_core.stores.store import Backend

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REFUND = Compensation("billing.refund", 1, {"charge": "ch_1"})


def every_kind(saga: str) -> list[records.Record]:
    """One record of each kind, the optional fields filled."""
    value = codec.freeze({"amount": 42000, "note": "ünï", "list": [1, None, 2.5]})
    return [
        records.Began(saga, "pay", "order-7", 1, 2, "boot", 17, "here", {"a": "b"}, "case", 3),
        records.Adopted(2, 1, 2, "boot", 18, "there", "recover", b"\x00torn\xff"),
        records.ScopeOpened("1", "", "inner", 3),
        records.ScopeEnded("1", kept=True, at=4),
        records.Refused(1, 5, "bank.wire", 1, "irreversible", "", "bank.wire#1", "irreversible", "nobody approved it"),
        records.Intended(
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
            REFUND,
        ),
        records.Noted(2, {"intent": "pi_1"}),
        records.Applied(2, 7, value, REFUND, 8),
        records.Doubted(3, 8, 9, "timeout"),
        records.Missed(3, 9, "no such charge", (2,)),
        records.UnwindBegan("", "the agent failed", 10),
        records.UndoIntended(2, 11, "key", REFUND, 1),
        records.UndoEnded(2, 12, 13, "pending", "accepted", "re_1", 60),
        records.LeftInPlace(2, 14, "a person said so"),
        records.CaseOpened(1, 15, 2, "look at it"),
        records.Committing(16),
        records.Committed(17),
        records.RolledBack(18),
        records.Parked(19),
        records.Suspended(20, "approval"),
    ]


def encoded(found: list[records.Record]) -> list[bytes]:
    """Return what is compared: frozen values know no equality."""
    return [codec.encode(record) for record in found]


@pytest.fixture(params=["memory:", "file"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    url = cast("str", request.param)
    store = cast("Backend", open_store(url if url == "memory:" else f"file:{tmp_path / 'saga'}"))
    yield store
    store.close()


def test_every_kind_of_record_comes_back_as_it_was_written(backend: Backend) -> None:
    saga = ids.new_saga_id()
    written = every_kind(saga)
    log = backend.create(saga)
    for record in written:
        log.append(record)
    reading = backend.read(saga)
    assert reading is not None
    assert reading[2:] == (None, False, b"")
    assert encoded(reading.records) == encoded(written)
    log.release()


def test_an_owned_log_is_handed_to_nobody_else(backend: Backend) -> None:
    log = backend.create(ids.new_saga_id())
    log.append(every_kind(log.saga)[0])
    assert backend.claim(log.saga) is None
    assert backend.owner(log.saga) is not None
    log.release()
    assert backend.owner(log.saga) is None


def test_the_next_owner_reads_everything_and_goes_on_behind_it(backend: Backend) -> None:
    written = every_kind(ids.new_saga_id())
    log = backend.create(cast("records.Began", written[0]).saga)
    for record in written[:5]:
        log.append(record)
    log.release()

    claimed = backend.claim(log.saga)
    assert claimed is not None
    again, reading = claimed
    assert encoded(reading.records) == encoded(written[:5])
    for record in written[5:]:
        again.append(record)
    again.release()

    after = backend.read(log.saga)
    assert after is not None
    assert encoded(after.records) == encoded(written)


def test_a_log_that_was_given_up_takes_no_record(backend: Backend) -> None:
    log = backend.create(ids.new_saga_id())
    log.append(every_kind(log.saga)[0])
    log.release()
    log.release()
    with pytest.raises(StoreError, match="given up"):
        log.append(records.Committing(1))
    reading = backend.read(log.saga)
    assert reading is not None
    assert len(reading.records) == 1


def test_a_settled_saga_is_read_and_never_claimed(backend: Backend) -> None:
    log = backend.create(ids.new_saga_id())
    log.append(every_kind(log.saga)[0])
    log.append(records.Committed(1))
    log.settle()
    assert backend.claim(log.saga) is None
    assert backend.owner(log.saga) is None
    reading = backend.read(log.saga)
    assert reading is not None
    assert reading.settled
    assert len(reading.records) == 2


def test_open_sagas_come_oldest_first_and_settled_ones_newest_first(backend: Backend) -> None:
    january, march, later = "01HKZ0000000000000000000AA", "01HQZ0000000000000000000AA", "01HQZ0000000000000000000AB"
    logs = {saga: backend.create(saga) for saga in (march, later, january)}
    for saga, log in logs.items():
        log.append(every_kind(saga)[0])
    assert list(backend.open_sagas()) == [january, march, later]
    assert list(backend.done_sagas()) == []
    for saga in (march, january, later):
        logs[saga].settle()
    assert list(backend.open_sagas()) == []
    assert list(backend.done_sagas()) == [later, march, january]


def test_a_saga_that_never_was_is_unknown(backend: Backend) -> None:
    saga = ids.new_saga_id()
    assert backend.read(saga) is None
    assert backend.claim(saga) is None
    assert backend.owner(saga) is None
    assert list(backend.open_sagas()) == []
    assert list(backend.done_sagas()) == []


def test_what_was_synced_is_durable_and_a_waiter_is_told_from_another_thread(backend: Backend) -> None:
    log = backend.create(ids.new_saga_id())
    position = log.append(every_kind(log.saga)[0])
    log.sync(position)
    assert log.durable >= position

    position = log.append(records.Committing(1))
    told = threading.Event()
    errors: list[BaseException | None] = []

    def done(problems: list[BaseException | None]) -> None:
        errors.extend(problems)
        told.set()

    backend.sync_later([(log, position)], done)
    assert told.wait(10)
    assert errors == [None]
    assert log.durable >= position
    log.sync_soon()
    log.release()


def test_a_generation_of_a_key_is_given_once_and_in_order(backend: Backend) -> None:
    first, second = ids.new_saga_id(), ids.new_saga_id()
    assert backend.key_holder("order-7") is None
    assert not backend.take_key("order-7", first, 2)
    assert backend.take_key("order-7", first, 1)
    assert not backend.take_key("order-7", second, 1)
    assert backend.key_holder("order-7") == (first, 1)
    assert backend.take_key("order-7", second, 2)
    assert backend.key_holder("order-7") == (second, 2)
    assert backend.key_holder("order-8") is None


def test_every_store_answers_the_whole_protocol(backend: Backend) -> None:
    assert isinstance(backend, Backend)
