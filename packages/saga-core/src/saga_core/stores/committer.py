"""Bringing logs to the disk: one sync at a time, of everything that somebody waits for."""

from __future__ import annotations

import atexit
import logging
import math
import threading
import time
import weakref
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeAlias

from saga_core.errors import SagaError, StoreError
from saga_core.stores import replay
from saga_core.stores.copies import Copy
from saga_core.stores.journal import SIZE, Journal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from saga_core.stores.log import FileLog, Unproven
    from saga_core.stores.replay import Logs

    Problem: TypeAlias = BaseException | None
    Wanted: TypeAlias = tuple[FileLog, int]
    Done: TypeAlias = Callable[[list[Problem]], None]

DELAY = 0.007
"""Seconds for which a lazy request waits for another sync to serve it."""

AGE = 60.0
"""Seconds after which a journal's logs are brought to the disk and it is deleted, full or not."""

_LARGE = 1 << 20
_PAUSE = 5.0
_UNRETIRED = 4
_FEW = 64

_logger = logging.getLogger("saga_core.store")


class Committer:
    """What waits for the disk in one store, the journal that serves it, and the thread for those who must not block.

    Whoever holds the turn brings everything to the disk that anybody waits for; the others find themselves served when
    their turn comes. Where no journal can be had, each log is synced by itself.
    """

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self.renew()
        atexit.register(_stop, weakref.ref(self))

    def renew(self) -> None:
        """Begin without a thread, a journal and requests, as a forked child does."""
        self._turn = threading.Lock()
        self._gate = threading.Lock()
        self._waiting: dict[FileLog, None] = {}
        self._lazy: dict[FileLog, float] = {}
        self._journal: Journal | None = None
        self._no_journal_until = 0.0
        self._has_failed = False
        self._judging = threading.Lock()
        self._retirement = threading.Lock()
        self._retiring: list[threading.Thread] = []
        self._queue: SimpleQueue[tuple[Sequence[Wanted], Done] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_idle = True

    def sync(self, log: FileLog, position: int) -> None:
        """Return when the log is on disk up to the position; blocks.

        Raises:
            StoreError: That is not proven.
        """
        (problem,) = self._prove([(log, position)])
        if problem is not None:
            raise problem

    def sync_later(self, wanted: Sequence[Wanted], done: Done) -> None:
        """Call `done` from the thread with the problem of each log, None where it is on disk up to its position."""
        self._put((wanted, done))

    def sync_soon(self, log: FileLog) -> None:
        """Have a log brought to the disk within some milliseconds, by the next sync or one of its own."""
        if log not in self._lazy:
            self._lazy[log] = time.monotonic()
            if self._is_idle:
                self._is_idle = False
                self._put(((), _nobody))

    def stop(self) -> None:
        """Serve what was asked for, end the thread and have the logs on disk without the journal, if that is quick."""
        with self._gate:
            thread, self._thread = self._thread, None
            queue, self._queue = self._queue, SimpleQueue()
        if thread is not None:
            queue.put(None)
            if thread is not threading.current_thread():
                thread.join()
        self.end_journal(at_most=_FEW)

    def end_journal(self, *, at_most: float = math.inf) -> bool:
        """Have the logs on disk without the journal and delete it, unless it names more than so many; blocks."""
        with self._turn:
            for worker in self._retiring:
                worker.join()
            journal, self._journal = self._journal, None
            if journal is None:
                return True
            try:
                return len(journal.sagas) <= at_most and self._bring(journal)
            finally:
                journal.close()

    def _prove(self, wanted: Sequence[Wanted]) -> list[Problem]:
        """Bring logs to the disk up to their positions, and with them whatever else waits; return their problems."""
        with self._gate:
            for log, _ in wanted:
                self._waiting[log] = None
        problems: dict[FileLog, BaseException] = {}
        with self._turn:
            late = {log: None for log, position in wanted if log.durable < position}
            if late:
                with self._gate:
                    logs, self._waiting = {**self._waiting, **late}, {}
                problems = self._commit(logs)
        return [None if log.durable >= position else _problem(log, problems.get(log)) for log, position in wanted]

    def _commit(self, logs: dict[FileLog, None]) -> dict[FileLog, BaseException]:
        """Prove what the logs hold now; called by who holds the turn."""
        problems: dict[FileLog, BaseException] = {}
        begun: list[Unproven] = []
        asked = dict.fromkeys(self._lazy) | logs
        try:
            for log in asked:
                self._lazy.pop(log, None)
                try:
                    unproven = log.begin_sync()
                except SagaError as unusable:
                    problems[log] = unusable
                else:
                    if unproven is not None:
                        begun.append(unproven)
            large = [one for one in begun if one.size > _LARGE]
            small = [one for one in begun if one.size <= _LARGE]
            if small and not self._write(small):
                large += small
            for one in large:
                try:
                    with self._judging:
                        self._sync_file(one)
                except (OSError, SagaError) as error:
                    problems[one.log] = error
        except BaseException as interrupt:
            for one in begun:
                problems.setdefault(one.log, interrupt)
            raise
        finally:
            for one in begun:
                one.log.end_sync(one, is_proven=one.log not in problems)
        return problems

    def _sync_file(self, unproven: Unproven) -> None:
        try:
            unproven.log.sync_file(unproven)
        except BaseException:
            self._has_failed = True
            raise

    def _write(self, small: list[Unproven]) -> bool:
        """Bring the logs to the disk by the journal; False where there is none, or none any more."""
        journal = self._journal_for(len(small), sum(one.size for one in small))
        if journal is None:
            return False
        try:
            journal.write([Copy(one.log.saga, one.start, one.data) for one in small])
            journal.has_adopted |= any(one.log.is_adopted for one in small)
        except OSError as error:
            _logger.warning("the journal %s failed, each log is synced by itself: %s", journal.path, error.strerror)
            self._journal = None
            self._no_journal_until = time.monotonic() + _PAUSE
            self._retire(journal)
            return False
        return True

    def _journal_for(self, count: int, size: int) -> Journal | None:
        journal, now = self._journal, time.monotonic()
        if journal is not None:
            if journal.fits(count, size) and now < journal.since + AGE:
                return journal
            self._journal = None
            self._retire(journal)
        if now < self._no_journal_until or size + count * 100 > SIZE // 2:
            return None
        try:
            self._journal = Journal(self._logs.system, self._logs.directory)
        except OSError as error:
            _logger.warning("no journal can be made, each log is synced by itself: %s", error.strerror)
            self._no_journal_until = now + _PAUSE
        return self._journal

    def _retire(self, journal: Journal) -> None:
        """Have a journal's logs brought to the disk on a thread; wait for the oldest where too many are on the way."""
        self._retiring = [thread for thread in self._retiring if thread.is_alive()]
        while len(self._retiring) >= _UNRETIRED:
            self._retiring.pop(0).join()

        def work() -> None:
            try:
                with self._retirement:  # one after the other: what failed for one is known to the next
                    self._bring(journal)
            finally:
                journal.close()

        thread = threading.Thread(target=work, name="saga-retirer", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more threads: it is done here
            work()
        else:
            self._retiring.append(thread)

    def _bring(self, journal: Journal) -> bool:
        def is_doubtful() -> bool:
            # A former owner's process may have failed to sync an adopted log, and only that process was told.
            return journal.has_adopted or self._failed_so_far()

        if replay.retire(self._logs, journal.path, journal.sagas, is_doubtful):
            return True
        self._has_failed = True
        return False

    def _failed_so_far(self) -> bool:
        """Tell whether a sync of a log has failed; one that runs now is waited for."""
        with self._judging:
            return self._has_failed

    def _put(self, item: tuple[Sequence[Wanted], Done]) -> None:
        with self._gate:
            self._queue.put(item)
            if self._thread is not None:
                return
            thread = threading.Thread(target=self._run, args=(self._queue,), name="saga-committer", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the interpreter is ending, or the process may have no more threads
                queue, self._queue = self._queue, SimpleQueue()
            else:
                self._thread = thread
                return
        queue.put(None)
        self._run(queue)

    def _run(self, queue: SimpleQueue[tuple[Sequence[Wanted], Done] | None]) -> None:
        wait: float | None = 0.0
        is_last = False
        while not is_last:
            items = _wait(queue, wait)
            self._is_idle = False
            is_last = None in items
            requests = [item for item in items if item is not None]
            self._serve(requests)
            wait = self._serve_lazy(is_last=is_last)
            if wait is None:  # who was served asks lazily soon: no need to be woken for it
                wait = DELAY if requests else self._rest()
            items.clear()  # holds nobody's log while it waits
            requests.clear()
        self._is_idle = True

    def _serve(self, requests: Sequence[tuple[Sequence[Wanted], Done]]) -> None:
        """Bring everything to the disk that is asked for, by one sync, and answer everybody."""
        wanted = [one for request, _ in requests for one in request]
        if not wanted:
            return
        try:
            problems = self._prove(wanted)
        except BaseException as error:  # noqa: BLE001 -- it belongs to those who wait
            problems = [None if log.durable >= position else error for log, position in wanted]
        answers = iter(problems)
        for request, done in requests:
            try:
                done([next(answers) for _ in request])
            except BaseException:
                _logger.exception("one who waits for the disk could not be told")

    def _serve_lazy(self, *, is_last: bool) -> float | None:
        """Serve the lazy requests that are due; return how long to wait for more, None for ever."""
        now = time.monotonic()
        lazy = list(self._lazy.items())
        due = {log for log, asked in lazy if is_last or asked + DELAY <= now}
        if due:
            self._catch_up(due)
        left = [asked for log, asked in lazy if log not in due]
        return max(0.0, min(left) + DELAY - now) if left else None

    def _catch_up(self, logs: Iterable[FileLog]) -> None:
        """Bring logs to the disk for which nobody waits; where that fails, their sagas' next barriers try again."""
        try:
            problems = self._prove([(log, log.end) for log in logs if not log.is_given_up])
        except BaseException:
            _logger.exception("some logs could not be brought to the disk")
        else:
            for problem in problems:
                if problem is not None:
                    _logger.warning("%s", problem)

    def _rest(self) -> float | None:
        """Return until when nothing is to be done; a journal that was left alone long enough is retired."""
        self._is_idle = True
        if self._lazy:  # asked in this very moment, by who thought the thread awake
            return DELAY
        journal = self._journal
        if journal is None:
            return None
        left = journal.since + AGE - time.monotonic()
        if left > 0:
            return left
        with self._turn:
            if self._journal is journal:
                self._journal = None
                self._retire(journal)
        return None


def _wait(
    queue: SimpleQueue[tuple[Sequence[Wanted], Done] | None], seconds: float | None
) -> list[tuple[Sequence[Wanted], Done] | None]:
    """Return everything that is asked for, once something is or the time is over."""
    items: list[tuple[Sequence[Wanted], Done] | None] = []
    try:
        items.append(queue.get(timeout=seconds))
        while True:
            items.append(queue.get_nowait())
    except Empty:
        return items


def _problem(log: FileLog, cause: BaseException | None) -> BaseException:
    if isinstance(cause, SagaError):
        return cause
    reason = f": {cause.strerror}" if isinstance(cause, OSError) else ""
    error = StoreError(
        f"the log of saga {log.saga} could not be synced{reason}",
        saga_id=log.saga,
        world="its newest records may be lost",
        next="make room or repair the disk under the store; `saga recover` goes on from the file",
    )
    error.__cause__ = cause
    return error


def _nobody(_: list[Problem]) -> None:
    """Answer a request that only wakes the thread."""


def _stop(committer: weakref.ref[Committer]) -> None:
    found = committer()
    if found is not None:
        found.stop()
