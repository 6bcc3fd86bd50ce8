"""Scenarios of what is found after a loss of power."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saga_core.conformance.expectation import expect
from saga_core.conformance.store.sample import adopted, encoded, expect_history, noted
from saga_core.conformance.store.stage import expect_listed
from saga_core.conformance.store.syncs import Answer

if TYPE_CHECKING:
    from saga_core.conformance.store.stage import Stage
    from saga_core.stores.store import Backend, Log

_SIZES = (40, 3000, 1_200_000, 40, 500, 40)
"""Of the records of each saga."""

_SAGAS = len(_SIZES)
_KEY = "order-7"


def what_was_synced_survives_a_loss_of_power(stage: Stage) -> None:
    """As the first records of their sagas, with some of the later ones perhaps, and nothing else."""
    store = stage.open()
    logs = [stage.begin(store) for _ in range(_SAGAS)]
    proven = {log.saga: 0 for log in logs}
    for turn in range(4):
        for number, log in enumerate(logs):
            note = noted(turn * 10 + number, _SIZES[number])
            position = stage.write(log, note)
            if number >= turn:
                _prove(store, log, position, later=bool(number % 2))
                proven[log.saga] = len(stage.written[log.saga])
    proven[stage.begin(store).saga] = 0
    for epoch in (2, 3):  # what the next owner writes and syncs survives the next loss
        store = stage.lose_power()
        _expect_survivors(store, stage.written, proven)
        for saga in [saga for saga, count in proven.items() if count]:
            log, reading = stage.claim(store, saga)
            expect_history(reading, stage.written[saga], at_least=proven[saga], settled=False)
            stage.written[saga] = encoded(reading.records)
            log.sync(stage.write(log, adopted(epoch, reading.dropped)))
            proven[saga] = len(stage.written[saga])
    _expect_survivors(stage.lose_power(), stage.written, proven)


def _prove(store: Backend, log: Log, position: int, *, later: bool) -> None:
    if later:
        answer = Answer(store, [(log, position)]).heard()
        expect(not any(answer.problems), f"the log is on disk; `sync_later` answered {answer.problems}")
    else:
        log.sync(position)


def _expect_survivors(store: Backend, written: dict[str, list[bytes]], proven: dict[str, int]) -> None:
    for saga, history in written.items():
        expect_history(store.read(saga), history, at_least=proven[saga], settled=False)
        expect(store.owner(saga) is None, "no owner should survive a loss of power")
    listed = list(store.open_sagas())
    foreign = sorted(set(listed) - set(written))
    expect(not foreign, f"nothing should be found that nobody wrote; there are {foreign}")
    lost = sorted(saga for saga, count in proven.items() if count and saga not in listed)
    expect(not lost, f"a saga that was synced should be among the open ones; {lost} are not")
    expect(listed == sorted(listed), "the open sagas should come oldest first after a loss of power, too")


def what_was_synced_survives_wherever_its_saga_was_put(stage: Stage) -> None:
    """Settled or parked just before, it is found whole, there or where it came from."""
    store = stage.open()
    for number in range(_SAGAS):
        log = stage.begin(store)
        log.sync(stage.write(log, noted(number)))
        if number % 3 == 0:
            log.settle()
        else:
            log.park("suspended" if number % 3 == 1 else "cases")
    store = stage.lose_power()
    for saga in stage.written:
        stage.expect(store.read(saga), saga, settled=None)
    everyone = sorted(stage.written)
    listed = sorted([*store.open_sagas(), *store.done_sagas()])
    expect(listed == everyone, "each saga should be found in one place after a loss of power")
    for saga in list(store.open_sagas()):
        log, reading = stage.claim(store, saga)
        stage.expect(reading, saga)
        log.settle()
    expect(sorted(store.done_sagas()) == everyone, "each saga should be settled when it was settled again")


def what_was_synced_survives_a_loss_of_power_behind_the_end_of_its_process(stage: Stage) -> None:
    """A store that is closed, and logs that were given up, leave nothing to anybody else."""
    store = stage.open()
    for number, size in enumerate(_SIZES):
        log = stage.begin(store)
        log.sync(stage.write(log, noted(number, size)))
        log.release()
    store.close()
    store = stage.lose_power()
    for saga in stage.written:
        stage.expect(store.read(saga), saga)
    expect_listed(list(store.due_sagas()), sorted(stage.written), "the due sagas")


def a_key_that_was_taken_is_taken_after_a_loss_of_power(stage: Stage) -> None:
    """`take_key` returns when it is on disk."""
    store = stage.open()
    holders: list[Log] = [stage.begin(store) for _ in range(3)]
    for generation, log in enumerate(holders[:2], 1):
        log.sync(log.append(noted(generation)))
        expect(store.take_key(_KEY, log.saga, generation), "the next generation of a key should be given")
    store = stage.lose_power()
    wanted = (holders[1].saga, 2)
    found = store.key_holder(_KEY)
    expect(found == wanted, f"the key's holder should be {wanted}; it is {found}")
    expect(not store.take_key(_KEY, holders[2].saga, 2), "a generation that was given should not be given again")
    expect(store.take_key(_KEY, holders[2].saga, 3), "the next generation of a key should be given")
