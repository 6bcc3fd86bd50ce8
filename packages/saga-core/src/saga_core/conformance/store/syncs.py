"""Scenarios of bringing records to the disk."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from saga_core.conformance.expectation import expect
from saga_core.conformance.store.other import PATIENCE
from saga_core.conformance.store.sample import noted
from saga_core.conformance.store.stage import together
from saga_core.errors import SagaError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from saga_core.conformance.store.stage import Stage
    from saga_core.stores.store import Backend, Log

_BEYOND = 1 << 40
_SEVERAL = 5
_THREADS = 6
_TURNS = 15
_PAUSE = 0.005


class Answer:
    """What `sync_later` answered, and how."""

    def __init__(self, store: Backend, wanted: Sequence[tuple[Log, int]]) -> None:
        self._wanted = wanted
        self._told = threading.Event()
        self._caller = threading.get_ident()
        self._is_asking = True
        self.problems: list[BaseException | None] = []
        self.count = 0
        self.is_apart = True
        self.were_durable: list[bool] = []
        store.sync_later(wanted, self._done)
        self._is_asking = False

    def _done(self, problems: list[BaseException | None]) -> None:
        self.count += 1
        self.problems = problems
        self.is_apart = self._is_asking or threading.get_ident() != self._caller
        self.were_durable = [log.durable >= position for log, position in self._wanted]
        self._told.set()

    def heard(self) -> Answer:
        """Wait for it, and check what every answer has to be."""
        expect(self._told.wait(PATIENCE), "`sync_later` should answer; it does not")
        expect(
            len(self.problems) == len(self._wanted),
            f"`sync_later` should answer for {len(self._wanted)} logs; it answered for {len(self.problems)}",
        )
        expect(self.is_apart, "`sync_later` should answer at once or from another thread; it interrupted its caller")
        for problem, is_durable in zip(self.problems, self.were_durable, strict=True):
            expect(problem is not None or is_durable, "a log should be on disk when `sync_later` says so; it was not")
        return self


def what_was_synced_is_durable(stage: Stage) -> None:
    """`sync` returns when it is so, and raises for what was never written."""
    store = stage.open()
    log = stage.begin(store)
    for number in range(_SEVERAL):
        position = log.append(noted(number))
        log.sync(position)
        expect(log.durable >= position, f"{position} was synced; durable is {log.durable}")
        log.sync(position)
    try:
        log.sync(log.durable + _BEYOND)
    except SagaError:
        pass
    else:
        raise AssertionError("`sync` should raise where nothing was written that it could prove; it returned")
    expect(log.durable < _BEYOND, "what was never written should not be durable")


def what_many_threads_sync_at_once_is_durable_for_each(stage: Stage) -> None:
    """Of one log and of several."""
    store = stage.open()
    logs = [stage.begin(store), stage.begin(store)]
    locks = [threading.Lock() for _ in logs]

    def worker(number: int) -> Callable[[], None]:
        log, lock = logs[number % 2], locks[number % 2]

        def work() -> None:
            for turn in range(_TURNS):
                with lock:
                    position = stage.write(log, noted(number * 1000 + turn))
                log.sync(position)
                expect(log.durable >= position, f"a thread synced {position}; durable is {log.durable}")

        return work

    together(*(worker(number) for number in range(_THREADS)))
    for log in logs:
        stage.expect(store.read(log.saga), log.saga)


def sync_later_answers_once_for_each_of_several_logs_in_their_order(stage: Stage) -> None:
    """When they are on disk; the one that could not be proven has its problem at its own place."""
    store = stage.open()
    logs = [stage.begin(store) for _ in range(_SEVERAL)]
    for bad in range(_SEVERAL):
        wanted = [(log, log.append(noted(bad))) for log in logs]
        wanted[bad] = (logs[bad], _BEYOND)
        answer = Answer(store, wanted).heard()
        found = [problem is not None for problem in answer.problems]
        expect(
            found == [number == bad for number in range(_SEVERAL)],
            f"of {_SEVERAL} logs the one at place {bad} could not be proven; problems are where it is True: {found}",
        )
    wanted = [(log, log.append(noted(99))) for log in logs]
    answer = Answer(store, wanted).heard()
    expect(not any(answer.problems), f"all logs are on disk; `sync_later` answered {answer.problems}")
    for log in logs:
        log.sync(log.append(noted(100)))
    expect(answer.count == 1, f"`sync_later` should answer once; it answered {answer.count} times")


def sync_later_answers_each_of_many_threads(stage: Stage) -> None:
    """Whoever asks beside others is answered for his own logs."""
    store = stage.open()

    def work() -> None:
        log = stage.begin(store)
        for turn in range(_TURNS):
            answer = Answer(log.store, [(log, log.append(noted(turn)))]).heard()
            expect(not any(answer.problems), f"the log is on disk; `sync_later` answered {answer.problems}")

    together(*([work] * _THREADS))


def sync_soon_needs_nobody_who_waits(stage: Stage) -> None:
    """The log comes to the disk by itself; asked for a log that was given up, it does nothing."""
    store = stage.open()
    log = stage.begin(store)
    for number in range(3):
        position = log.append(noted(number))
        log.sync_soon()
        until = time.monotonic() + PATIENCE
        while log.durable < position:
            expect(time.monotonic() < until, "what `sync_soon` was asked for should come to the disk; it does not")
            time.sleep(_PAUSE)
    log.release()
    log.sync_soon()
