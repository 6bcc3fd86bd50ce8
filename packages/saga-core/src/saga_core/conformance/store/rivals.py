"""Scenarios of logs that several want, and of owners that are killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saga_core import codec, ids
from saga_core.conformance.expectation import expect
from saga_core.conformance.store.sample import adopted, encoded, expect_history, noted
from saga_core.conformance.store.stage import together

if TYPE_CHECKING:
    from collections.abc import Callable

    from saga_core import records
    from saga_core.conformance.store.stage import Stage
    from saga_core.stores.store import Backend, Log

_ROUNDS = 10
_RIVALS = 8
_PROCESSES = 3


def of_many_threads_that_claim_a_log_one_gets_it(stage: Stage) -> None:
    """The others are told that it has an owner."""
    stores = [stage.open(), stage.open()]
    log = stage.begin(stores[0])
    log.release()
    for _ in range(_ROUNDS):
        claims = [_claim(stores[number % 2], log.saga) for number in range(_RIVALS)]
        won = [claimed for claimed in together(*claims) if claimed is not None]
        expect(len(won) <= 1, f"of {_RIVALS} that claim a log one should get it; {len(won)} did")
        expect(won, f"of {_RIVALS} that claim a free log one should get it; none did")
        won[0].release()


def _claim(store: Backend, saga: str) -> Callable[[], Log | None]:
    def claim() -> Log | None:
        claimed = store.claim(saga)
        return None if claimed is None else claimed[0]

    return claim


def of_many_processes_that_claim_a_log_one_gets_it(stage: Stage) -> None:
    """Which has it as long as it wants it."""
    store = stage.open()
    log = stage.begin(store)
    log.release()
    others = [stage.start() for _ in range(_PROCESSES)]
    for _ in range(_ROUNDS):
        for other in others:
            other.tell("claim", log.saga)
        won = [other for other in others if other.hear()]
        expect(len(won) == 1, f"of {_PROCESSES} processes that claim a log one should get it; {len(won)} did")
        expect(store.claim(log.saga) is None, "a log that another process owns should be handed to nobody")
        expect(store.owner(log.saga), "a process that owns a log should be named")
        won[0].ask("release", log.saga)


def a_killed_owners_log_is_free_and_holds_what_he_was_told_it_does(stage: Stage) -> None:
    """A record survives the death of its process from the moment in which `append` has returned."""
    store = stage.open()
    for size, heard in ((8, 200), (3000, 20), (1_300_000, 3)):
        saga = ids.new_saga_id()
        other = stage.start()
        other.ask("begin", saga)
        other.tell("note for ever", saga, size)
        told = [other.hear() for _ in range(heard)][-1]
        told = [told, *other.kill()][-1]
        log, reading = stage.claim(store, saga)
        expect(reading.records, "the first record should be there")
        mine = encoded([noted(number, size) for number in range(1, told + 2)])
        expect_history(reading, [codec.encode(reading.records[0]), *mine], at_least=1 + told, settled=False)
        goes_on: list[records.Record] = [adopted(2, reading.dropped), noted(0)]
        for record in goes_on:
            log.append(record)
        expect_history(store.read(saga), encoded([*reading.records, *goes_on]))
        log.release()
