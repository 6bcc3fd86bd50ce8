"""Running a coroutine to its end in a thread, so that Ctrl-C leaves nothing half done."""

from __future__ import annotations

import asyncio
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from saga_core.errors import ScopeMisuse

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")


def run_blocking(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run it on the loop that `Runner.run_sync` uses, which stays open: the SDK's clients and sessions belong to it.

    Raises:
        ScopeMisuse: A loop is running in this thread.
    """
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        raise ScopeMisuse(
            "run_sync() was called on the thread of a running event loop, which it would block",
            world="nothing was run",
            next="write `await SagaRunner.run(...)`",
        )
    loop = _thread_loop()
    tasks: list[asyncio.Task[Any] | None] = []

    async def main() -> T:
        tasks.append(asyncio.current_task())
        return await work()

    try:
        return asyncio.Runner(loop_factory=lambda: loop).run(main())  # the first Ctrl-C becomes a cancellation
    except (KeyboardInterrupt, SystemExit) as stop:
        for task in tasks:
            if task is not None and not task.done() and not task.cancelling():
                _stop(loop, task, stop)
        raise


def _stop(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any], stop: BaseException) -> None:
    """Let a run end whose tool has stopped the loop; each task that the exception passes through stops it again."""
    task.cancel()
    while not task.done():
        try:
            loop.run_until_complete(asyncio.wait({task}))
        except (KeyboardInterrupt, SystemExit) as again:
            if again is not stop:
                raise


def _thread_loop() -> asyncio.AbstractEventLoop:
    with warnings.catch_warnings(), suppress(RuntimeError):
        warnings.simplefilter("ignore", DeprecationWarning)  # a thread without a loop, from Python 3.12 on
        loop = asyncio.get_event_loop()
        if not loop.is_closed():
            return loop
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    return loop
