"""Scenarios of where a saga is found: among the open ones, parked, settled or erased."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from saga_core import records
from saga_core.conformance.expectation import expect
from saga_core.conformance.store.sample import adopted, noted
from saga_core.conformance.store.stage import expect_listed, together

if TYPE_CHECKING:
    from saga_core.conformance.store.stage import Stage
    from saga_core.stores.store import Backend, Log

_JANUARY, _MARCH, _LATER = "01HKZ0000000000000000000AA", "01HQZ0000000000000000000AA", "01HQZ0000000000000000000AB"
_Place: TypeAlias = Literal["suspended", "cases"]
_PLACES: tuple[_Place, ...] = ("suspended", "cases")
_MOVES = 20


def a_settled_saga_is_read_and_never_claimed(stage: Stage) -> None:
    """Nothing acts on it any more, whoever looks."""
    store, beside = stage.open(), stage.open()
    log = stage.begin(store)
    stage.write(log, records.Committed(1))
    log.settle()
    for one in (store, beside, stage.open()):
        stage.expect(one.read(log.saga), log.saga, settled=True)
        expect(one.claim(log.saga) is None, "a settled saga should be handed to nobody")
        expect(one.owner(log.saga) is None, "a settled saga should have no owner")
        expect_listed(list(one.done_sagas()), [log.saga], "the settled sagas")
        expect_listed(list(one.open_sagas()), [], "the open sagas")
        expect_listed(list(one.due_sagas()), [], "the due sagas")
        expect(one.tombstone(log.saga) is None, "a settled saga that is there should have no tombstone")


def open_sagas_come_oldest_first_and_settled_ones_newest_first(stage: Stage) -> None:
    """By their ids, which begin with their time; whoever lists them and however they were put there."""
    store, beside = stage.open(), stage.open()
    logs = {saga: stage.begin(store, saga) for saga in (_MARCH, _LATER, _JANUARY)}
    for one in (store, beside):
        expect_listed(list(one.open_sagas()), [_JANUARY, _MARCH, _LATER], "the open sagas, oldest first,")
        expect_listed(list(one.due_sagas()), [_JANUARY, _MARCH, _LATER], "the due sagas, oldest first,")
        expect_listed(list(one.done_sagas()), [], "the settled sagas")
    for saga in (_MARCH, _JANUARY, _LATER):
        logs[saga].settle()
    for one in (store, beside):
        expect_listed(list(one.open_sagas()), [], "the open sagas")
        expect_listed(list(one.done_sagas()), [_LATER, _MARCH, _JANUARY], "the settled sagas, newest first,")


def a_parked_saga_is_listed_where_it_waits_until_somebody_goes_on(stage: Stage) -> None:
    """It is open and not due; a claim finds it by its name, and with the next record it is due again."""
    store, beside = stage.open(), stage.open()
    busy = stage.begin(store)
    parked: dict[_Place, Log] = {place: stage.begin(store) for place in _PLACES}
    for place, log in parked.items():
        stage.write(log, records.Suspended(1, "approval"))
        log.park(place)
    everyone = sorted([busy.saga, *(log.saga for log in parked.values())])
    for one in (store, beside):
        expect_listed(list(one.open_sagas()), everyone, "the open sagas, parked or not,")
        expect_listed(list(one.due_sagas()), [busy.saga], "the due sagas")
        for place, log in parked.items():
            expect_listed(list(one.parked_sagas(place)), [log.saga], f"the sagas parked in {place!r}")
            expect(one.owner(log.saga) is None, "a parked saga should have no owner")
    for place, log in parked.items():
        again, reading = stage.claim(beside, log.saga)
        stage.expect(reading, log.saga)
        stage.write(again, adopted(2))
        for one in (store, beside):
            expect(log.saga in list(one.due_sagas()), "a parked saga that goes on should be due")
            expect_listed(list(one.parked_sagas(place)), [], f"the sagas parked in {place!r}")
        again.release()
        stage.expect(store.read(log.saga), log.saga)
    expect_listed(list(store.due_sagas()), everyone, "the due sagas")


def tidying_takes_nothing_away(stage: Stage) -> None:
    """Neither from the owners of this process nor from anybody else."""
    store, beside = stage.open(), stage.open()
    owned, free, parked, settled = (stage.begin(store) for _ in range(4))
    owned.sync(stage.write(owned, noted(1)))
    free.release()
    parked.park("suspended")
    settled.settle()
    listed = _sagas(store)
    for one in (store, beside):
        one.tidy()
    expect_listed(_sagas(store), listed, "the sagas of a store that was tidied")
    for log in (owned, free, parked, settled):
        stage.expect(beside.read(log.saga), log.saga, settled=log is settled)
    expect(beside.claim(owned.saga) is None, "a log should be owned still when the store was tidied")
    owned.sync(stage.write(owned, noted(2)))
    stage.expect(store.read(owned.saga), owned.saga)


def _sagas(store: Backend) -> list[str]:
    return [*store.open_sagas(), *store.done_sagas()]


def a_saga_that_is_put_from_place_to_place_is_never_out_of_sight(stage: Stage) -> None:
    """Who reads meanwhile finds it wherever it is."""
    store, beside = stage.open(), stage.open()
    saga = ""
    is_over = False

    def move() -> None:
        nonlocal saga, is_over
        try:
            for _ in range(_MOVES):
                log = stage.begin(store)
                saga = log.saga
                log.park("suspended")
                again, _ = stage.claim(store, saga)
                again.append(adopted(2))
                again.settle()
        finally:
            is_over = True

    def look() -> None:
        while not is_over:
            wanted = saga
            expect(not wanted or beside.read(wanted) is not None, "a saga that is moved should be read at any time")

    together(move, look)


def an_erased_saga_is_unknown_but_for_its_tombstone(stage: Stage) -> None:
    """Its neighbours are not."""
    store, beside = stage.open(), stage.open()
    erased, kept = stage.begin(store), stage.begin(store)
    for log in (erased, kept):
        log.sync(log.append(records.Committed(1)))
        log.settle()
    stage.harness.erase(store, erased.saga)
    for one in (store, beside, stage.open()):
        expect(one.read(erased.saga) is None, "an erased saga should not be read")
        expect(one.claim(erased.saga) is None, "an erased saga should not be handed out")
        expect(one.owner(erased.saga) is None, "an erased saga should have no owner")
        stone = one.tombstone(erased.saga)
        expect(stone is not None and stone.saga == erased.saga, "an erased saga should have a tombstone")
        expect(stone is None or stone.why == "erased", f"the tombstone should say `erased`; it is {stone}")
        expect_listed(list(one.erased_sagas()), [erased.saga], "the erased sagas")
        expect_listed(list(one.done_sagas()), [kept.saga], "the settled sagas")
        expect(one.read(kept.saga) is not None, "the neighbour of an erased saga should be read")
        expect(one.tombstone(kept.saga) is None, "a saga that is there should have no tombstone")
