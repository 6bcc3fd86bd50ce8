"""Scenarios of what is written and read again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saga_core import codec, ids, records
from saga_core.conformance.expectation import expect
from saga_core.conformance.store.sample import MEGABYTE, began, every_kind, noted
from saga_core.conformance.store.stage import expect_listed
from saga_core.errors import StoreError

if TYPE_CHECKING:
    from saga_core.conformance.store.stage import Stage
    from saga_core.stores.store import Backend

_FEW = 12


def every_kind_of_record_comes_back_as_it_was_written(stage: Stage) -> None:
    """Every reader gets the bytes that the codec made, whoever else has the store open."""
    store, beside = stage.open(), stage.open()
    log = stage.create(store)
    for record in every_kind(log.saga):
        stage.write(log, record)
    for one in (store, beside):
        reading = one.read(log.saga)
        stage.expect(reading, log.saga)
        if reading is not None:
            expect(reading.saga == log.saga, f"the reading should name the saga {log.saga}; it names {reading.saga}")
            expect(reading.dropped == b"", "the history of a log in use should have no torn tail")
            reading.records.clear()  # a reading is the reader's own
    stage.expect(store.read(log.saga), log.saga)


def records_of_several_megabytes_come_back_as_they_were_written(stage: Stage) -> None:
    """The largest are those of a step whose arguments, capture and result are as large as values may be."""
    store = stage.open()
    log = stage.begin(store)
    largest = codec.freeze("x" * (codec.MAX_VALUE - 16))
    sizes = (MEGABYTE - 1, MEGABYTE, MEGABYTE + 1, 3 * MEGABYTE + 7, 8)
    written: list[records.Record] = [noted(number, size) for number, size in enumerate(sizes)]
    for record in (*written, records.Applied(1, 2, largest, None), records.Committing(3)):
        stage.write(log, record)
    log.sync(stage.write(log, noted(99)))
    stage.expect(store.read(log.saga), log.saga)
    log.release()
    again, found = stage.claim(store, log.saga)
    stage.expect(found, log.saga)
    stage.write(again, noted(100))
    stage.expect(stage.open().read(log.saga), log.saga)


def records_of_sagas_written_in_turn_stay_apart(stage: Stage) -> None:
    """Each saga's history holds its own records, and no others."""
    store = stage.open()
    logs = [stage.begin(store) for _ in range(3)]
    for number in range(_FEW):
        for place, log in enumerate(logs):
            stage.write(log, noted(number * 100 + place))
    for log in logs:
        stage.expect(store.read(log.saga), log.saga)


def positions_grow_with_each_record(stage: Stage) -> None:
    """A position is behind its record: what is durable never runs ahead of it, in whichever hands the log is."""
    store = stage.open()
    log = stage.create(store)
    expect(log.saga in set(store.open_sagas()), "a log that was created should be among the open ones")
    position = log.append(began(log.saga))
    for number in range(2 * _FEW):
        if number == _FEW:
            log.sync(position)
            log.release()
            log, _ = stage.claim(store, log.saga)
        before, position = position, log.append(noted(number, 8 + number * 100))
        expect(position > before, f"positions should grow; behind {before} came {position}")
        expect(log.durable <= position, f"{log.durable} is said to be on disk; the log ends at {position}")


def the_next_owner_reads_everything_and_goes_on_behind_it(stage: Stage) -> None:
    """What is claimed is read when ownership is certain, and all of it."""
    store, beside = stage.open(), stage.open()
    log = stage.create(store)
    saga = log.saga
    written = every_kind(saga)
    for record in written[:5]:
        stage.write(log, record)
    log.release()
    again, reading = stage.claim(beside, saga)
    stage.expect(reading, saga)
    expect(again.saga == saga, f"the log of {saga} should be handed out; it is that of {again.saga}")
    for record in written[5:]:
        stage.write(again, record)
    again.release()
    stage.expect(store.read(saga), saga)


def a_saga_that_never_was_is_unknown(stage: Stage) -> None:
    """Nobody makes a saga up by asking for it."""
    store = stage.open()
    saga = ids.new_saga_id()
    expect(store.read(saga) is None, "an unknown saga should not be read")
    expect(store.claim(saga) is None, "an unknown saga should not be handed out")
    expect(store.owner(saga) is None, f"an unknown saga should have no owner; it has {store.owner(saga)}")
    expect(store.tombstone(saga) is None, "an unknown saga should have no tombstone")
    for what in ("open_sagas", "due_sagas", "done_sagas", "erased_sagas"):
        expect_listed(list(getattr(store, what)()), [], f"{what} of an empty store")
    expect_listed(list(store.parked_sagas("suspended")), [], "the suspended sagas of an empty store")
    expect_listed(list(store.parked_sagas("cases")), [], "the sagas of an empty store that wait for a person")


def a_saga_is_created_once(stage: Stage) -> None:
    """Nobody overwrites the log of a saga that is there, owned or free."""
    store, beside = stage.open(), stage.open()
    log = stage.begin(store)
    for one in (store, beside):
        _refuse_another(one, log.saga)
    log.release()
    _refuse_another(beside, log.saga)
    stage.expect(store.read(log.saga), log.saga)


def _refuse_another(store: Backend, saga: str) -> None:
    try:
        store.create(saga)
    except StoreError:
        return
    raise AssertionError("the log of a saga that is there should not be created again; it was")
