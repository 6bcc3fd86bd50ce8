# ruff: noqa: SLF001 -- it is an event loop: what asyncio hides from those who use one is its own business
"""An event loop of virtual time on which several simulated processes run, in an order that one seed decides.

Each process has the queue of callbacks that its own event loop would have, first in, first out; which process runs its
next callback is drawn. Time passes only as far as the next timer.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from contextlib import suppress
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine

_CALLBACK = 2e-6
"""Virtual seconds that a callback takes."""


class Killed(BaseException):
    """The process died here: whatever runs on afterwards in its name reaches nothing."""


class Process:
    """A simulated process: it may be stopped for a while, and it dies once.

    Attributes:
        fuse: How many more acts that the world can see it survives; None: no act kills it.
        is_dead: It was killed.
        is_stopped: It is not scheduled now.
    """

    def __init__(self, loop: VirtualLoop, name: str) -> None:
        self.loop = loop
        self.name = name
        self.fuse: int | None = None
        self.is_dead = False
        self.is_stopped = False
        self.queue: deque[asyncio.Handle] = deque()
        self.tasks: list[asyncio.Task[Any]] = []
        self.on_death: list[Callable[[], None]] = []
        self.context = Context()
        self.context.run(PROCESS.set, self)
        loop.processes.append(self)

    def __repr__(self) -> str:
        return self.name

    @property
    def is_scheduled(self) -> bool:
        """Its callbacks run."""
        return not self.is_dead and not self.is_stopped

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine as this process."""
        return self.loop.create_task(work, context=self.context.copy())

    def act(self, what: str) -> None:
        """Note an act that the world can see.

        Raises:
            Killed: The process is dead, or dies in front of the act.
        """
        if self.fuse is not None and not self.is_dead:
            self.fuse -= 1
            if self.fuse < 0:
                self.kill(f"in front of: {what}")
        if self.is_dead:
            raise Killed
        self.loop.tell(f"{self.name}: {what}")

    def kill(self, where: str) -> None:
        """End the process without a further instruction of its own."""
        if not self.is_dead:
            self.loop.tell(f"{self.name}: killed {where}")
            self.is_dead = True
            for free in self.on_death:
                free()

    def bury(self) -> None:
        """Destroy what the dead process was in the middle of, once no loop runs any more."""
        for task in self.tasks:
            if not task.done():
                killed: Any = task
                killed._log_destroy_pending = False  # it is no oversight that it never ended
                with suppress(BaseException):  # whatever the dead say
                    killed.get_coro().close()
        self.queue.clear()


PROCESS: ContextVar[Process | None] = ContextVar("simulated_process", default=None)
"""Whose callback runs; None: the world's own, which nothing stops."""

NOBODY = Context()
"""The context of the world's own callbacks."""


class VirtualLoop(asyncio.BaseEventLoop):
    """The loop: ready callbacks, timers, and a seeded choice among the processes.

    Attributes:
        draw: Where every choice of the run comes from.
        told: The trace of what happened, a line an event.
        problems: What callbacks raised that nobody took.
    """

    def __init__(self, draw: random.Random) -> None:
        super().__init__()
        self.draw = draw
        self.told: list[str] = []
        self.problems: list[str] = []
        self.processes: list[Process] = []
        self._now = 1000.0
        self._world: deque[asyncio.Handle] = deque()
        base: Any = self  # whose timers and ready callbacks are its own business otherwise
        self._timers: list[Any] = base._scheduled
        self._pending: deque[Any] = base._ready
        self.set_task_factory(_own)
        self.set_exception_handler(_report)

    def time(self) -> float:
        return self._now

    def tell(self, line: str) -> None:
        """Add a line to the trace."""
        self.told.append(f"{self._now - 1000.0:10.4f}  {line}")

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # noqa: ARG002
        """Call the function as one more callback of the process, some time later."""
        done: asyncio.Future[Any] = self.create_future()

        def run() -> None:
            if done.cancelled():
                return
            try:
                result = func(*args)
            except Exception as error:  # noqa: BLE001 -- it belongs to who waits
                done.set_exception(error)
            else:
                done.set_result(result)

        self.call_later(self.draw.uniform(0.0, 0.002), run)
        return done

    def _write_to_self(self) -> None:
        """Wake nobody: there is one thread."""

    def _run_once(self) -> None:
        self._sort()
        ready = [process.queue for process in self.processes if process.queue and process.is_scheduled]
        if self._world:
            ready.append(self._world)
        if not ready:
            if not self._timers:
                raise AssertionError("everybody waits, and nothing is due: " + "\n".join(self.told[-20:]))
            self._now = max(self._now, self._timers[0].when())
            return
        self._now += _CALLBACK
        queue = ready[0] if len(ready) == 1 else self.draw.choice(ready)
        handle = queue.popleft()
        if not handle.cancelled():
            handle._run()

    def _sort(self) -> None:
        """Put what is ready, and the timers that are due, into the queues of their processes."""
        while self._timers and self._timers[0].when() <= self._now:
            timer = heapq.heappop(self._timers)
            timer._scheduled = False
            self._pending.append(timer)
        while self._pending:
            handle = self._pending.popleft()
            owner: Process | None = handle._context.get(PROCESS)
            if owner is None:
                self._world.append(handle)
            else:
                owner.queue.append(handle)  # a dead one's too: what it holds must not be collected while the loop runs


def _own(loop: Any, work: Any, *, context: Context | None = None, **options: Any) -> asyncio.Task[Any]:
    """Make a task, and have its process know it."""
    task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, context=context, **options)
    owner = PROCESS.get() if context is None else context.get(PROCESS)
    if owner is not None:
        owner.tasks.append(task)
    return task


def _report(loop: Any, context: dict[str, Any]) -> None:
    error = context.get("exception")
    if not isinstance(error, Killed):
        loop.problems.append(f"{context.get('message')}: {error!r}")
