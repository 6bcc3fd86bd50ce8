"""The thread that syncs for those who must not block."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeAlias

from saga_core.errors import SagaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from saga_core.stores.log import FileLog

    Done: TypeAlias = Callable[[BaseException | None], None]
    Request: TypeAlias = tuple[FileLog, int, Done]

DELAY = 0.007
"""Seconds for which a lazy request waits for an ordinary sync to serve it."""

_logger = logging.getLogger("saga_core.store")
_LAZY = "lazy"
_STOP = "stop"


class Committer:
    """One daemon thread a store: begun at first use, ended with the store, begun again if the store goes on."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begin without a thread and without requests, as a forked child does."""
        self._lock = threading.Lock()
        self._queue: SimpleQueue[Request | str] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lazy: deque[FileLog] = deque()
        self._is_scheduled = False

    def sync_later(self, log: FileLog, position: int, done: Done) -> None:
        """Call `done` from the thread when the log is synced up to the position, or could not be."""
        self._put((log, position, done))

    def sync_soon(self, log: FileLog) -> None:
        """Have a log catch up within some milliseconds, by an ordinary sync or one of its own."""
        self._lazy.append(log)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._put(_LAZY)

    def stop(self) -> None:
        """Serve what was asked for and end the thread."""
        with self._lock:
            thread, self._thread = self._thread, None
            queue, self._queue = self._queue, SimpleQueue()
        if thread is not None:
            queue.put(_STOP)
            if thread is not threading.current_thread():
                thread.join()

    def _put(self, item: Request | str) -> None:
        with self._lock:
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
        queue.put(_STOP)
        self._run(queue)

    def _run(self, queue: SimpleQueue[Request | str]) -> None:
        due: float | None = None
        is_last = False
        while not is_last:
            items = _wait(queue, None if due is None else max(0.0, due - time.monotonic()))
            is_last = _STOP in items
            if due is None and _LAZY in items:
                due = time.monotonic() + DELAY
            _serve([item for item in items if not isinstance(item, str)])
            if is_last or (due is not None and time.monotonic() >= due):
                due = self._serve_lazy(is_last=is_last)
            items.clear()  # holds nobody's log while it waits

    def _serve_lazy(self, *, is_last: bool) -> float | None:
        """Have each log catch up that no ordinary sync has served; return when the others are to be looked at again."""
        self._is_scheduled = False
        now = time.monotonic()
        waiting: dict[FileLog, float] = {}
        while self._lazy:
            log = self._lazy.popleft()
            asked = log.asked_at(now)
            if asked + DELAY > now and not is_last and log.is_behind:
                waiting[log] = asked
                continue
            try:
                log.catch_up()
            except SagaError as error:  # the saga's next barrier tries again and raises
                _logger.warning("%s", error)
            except BaseException:
                _logger.exception("the log of saga %s could not catch up", log.saga)
        if not waiting:
            return None
        self._is_scheduled = True
        self._lazy.extend(waiting)
        return min(waiting.values()) + DELAY


def _wait(queue: SimpleQueue[Request | str], seconds: float | None) -> list[Request | str]:
    """Return everything that is asked for, once something is or the time is over."""
    items: list[Request | str] = []
    try:
        items.append(queue.get(timeout=seconds))
        while True:
            items.append(queue.get_nowait())
    except Empty:
        return items


def _serve(requests: list[Request]) -> None:
    """Sync each log once, up to the furthest of its positions, and answer everybody."""
    by_log: dict[FileLog, list[tuple[int, Done]]] = {}
    for log, position, done in requests:
        by_log.setdefault(log, []).append((position, done))
    for log, waiters in by_log.items():
        problem: BaseException | None = None
        try:
            log.sync(max(position for position, _ in waiters))
        except BaseException as error:  # noqa: BLE001 -- it belongs to those who wait
            problem = error
        for position, done in waiters:
            try:
                done(None if position <= log.durable else problem)
            except BaseException:
                _logger.exception("one who waits for the log of saga %s could not be told", log.saga)
