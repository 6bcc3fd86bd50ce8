"""Scenarios of who reads while somebody writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saga_core.conformance.store.sample import MEGABYTE, encoded, expect_history, noted
from saga_core.conformance.store.stage import together

if TYPE_CHECKING:
    from collections.abc import Callable

    from saga_core.conformance.store.stage import Stage
    from saga_core.stores.store import Backend

_RECORDS = 160
_LARGE = 40


def a_reader_beside_a_writer_sees_the_first_of_his_records_whole(stage: Stage) -> None:
    """All that `append` had returned for when he began to read, and perhaps some more; never a part of one."""
    store, beside = stage.open(), stage.open()
    log = stage.begin(store)
    notes = [noted(number, MEGABYTE + 99 if number % _LARGE == 0 else 50 + number) for number in range(1, _RECORDS)]
    written = [*stage.written[log.saga], *encoded(notes)]
    done, is_over = 1, False

    def write() -> None:
        nonlocal done, is_over
        try:
            for number, note in enumerate(notes, 2):
                position = log.append(note)
                done = number
                if number % 10 == 0:
                    log.sync(position)
        finally:
            is_over = True

    def reader(one: Backend) -> Callable[[], None]:
        def read() -> None:
            seen = 0
            while not is_over:
                at_least = max(done, seen)
                reading = one.read(log.saga)
                expect_history(reading, written, at_least=at_least, settled=False)
                seen = len(reading.records) if reading is not None else seen

        return read

    together(write, reader(store), reader(beside))
    expect_history(beside.read(log.saga), written)


def a_record_is_seen_by_everybody_when_append_has_returned(stage: Stage) -> None:
    """Recovery, the viewer and the next owner need no sync for it."""
    store, beside = stage.open(), stage.open()
    log = stage.begin(store)
    for number in range(_LARGE):
        stage.write(log, noted(number))
        stage.expect(store.read(log.saga), log.saga)
        stage.expect(beside.read(log.saga), log.saga)
    log.release()
    _, reading = stage.claim(beside, log.saga)
    stage.expect(reading, log.saga)
