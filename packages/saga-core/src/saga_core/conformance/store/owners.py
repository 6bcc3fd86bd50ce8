"""Scenarios of who may write: one owner at a time, and nobody behind his back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saga_core import records
from saga_core.conformance.expectation import expect
from saga_core.conformance.store.sample import adopted, noted
from saga_core.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from saga_core.conformance.store.stage import Stage
    from saga_core.stores.store import Log


def an_owned_log_is_handed_to_nobody_else(stage: Stage) -> None:
    """It has an owner from the moment in which it is created until he gives it up."""
    store, beside = stage.open(), stage.open()
    log = stage.begin(store)
    for one in (store, beside):
        expect(one.claim(log.saga) is None, "a log that its creator owns should be handed to nobody")
        expect(one.owner(log.saga), "the owner of a log should be named")
    log.release()
    for one in (store, beside):
        expect(one.owner(log.saga) is None, f"a free log should have no owner; it has {one.owner(log.saga)}")
    again, _ = stage.claim(beside, log.saga)
    for one in (store, beside):
        expect(one.claim(log.saga) is None, "a log that was handed out should not be handed out twice")
        expect(one.owner(log.saga), "who claimed a log should be named as its owner")
    again.release()


def a_log_that_was_given_up_takes_no_record(stage: Stage) -> None:
    """Whoever lost a saga writes nothing more into it."""
    store = stage.open()
    ways: list[Callable[[Log], None]] = [
        lambda log: log.release(),
        lambda log: log.park("suspended"),
        lambda log: log.park("cases"),
        lambda log: log.settle(),
    ]
    for give_up in ways:
        log = stage.begin(store)
        give_up(log)
        try:
            log.append(records.Committing(1))
        except StoreError:
            pass
        else:
            raise AssertionError("a log that was given up should refuse a record; it took one")
        stage.expect(store.read(log.saga), log.saga, settled=None)


def giving_a_log_up_again_takes_it_from_nobody(stage: Stage) -> None:
    """The next owner keeps what he has, and what was settled or parked stays where it was put."""
    store, beside = stage.open(), stage.open()
    log = stage.begin(store)
    log.release()
    log.release()
    again, _ = stage.claim(beside, log.saga)
    log.release()
    expect(store.owner(log.saga), "the next owner of a log should keep it when the last one gives it up again")
    expect(store.claim(log.saga) is None, "a log should not be taken from its owner by the last one's second release")
    again.append(noted(1))
    again.settle()
    again.release()
    expect(log.saga in list(store.done_sagas()), "a settled saga should stay settled when its log is given up again")
    parked = stage.begin(store)
    parked.park("suspended")
    parked.release()
    expect(
        list(store.parked_sagas("suspended")) == [parked.saga],
        "a parked saga should stay parked when its log is given up again",
    )


def taking_one_saga_over_changes_no_other(stage: Stage) -> None:
    """Its neighbours keep their records, their owners and their places."""
    store, beside = stage.open(), stage.open()
    taken, owned, free, parked, settled = (stage.begin(store) for _ in range(5))
    for number, log in enumerate((taken, owned, free, parked, settled)):
        stage.write(log, noted(number))
    for log in (taken, free):
        log.release()
    parked.park("cases")
    settled.settle()
    neighbours = (owned, free, parked, settled)

    def looks() -> list[object]:
        listed = (store.open_sagas(), store.due_sagas(), store.parked_sagas("cases"), store.done_sagas())
        return [*map(list, listed), *(store.owner(log.saga) is not None for log in neighbours)]

    before = looks()
    again, _ = stage.claim(beside, taken.saga)
    for record in (adopted(2), noted(7)):
        stage.write(again, record)
    stage.expect(store.read(taken.saga), taken.saga)
    for log in neighbours:
        stage.expect(store.read(log.saga), log.saga, settled=log is settled)
    expect(looks() == before, "the neighbours of a saga that is taken over should be where and whose they were")
    stage.write(owned, noted(8))
    stage.expect(store.read(owned.saga), owned.saga)
