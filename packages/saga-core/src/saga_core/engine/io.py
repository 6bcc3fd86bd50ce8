"""The two drivers: how one engine runs on an event loop and without one.

The engine is written once, as coroutines that await nothing but the methods of an `Io`. On a loop, `AsyncIo` waits as
loops do. Without one, the methods of `SyncIo` never suspend, so that `drive` runs the same coroutines to their end in
the caller's own thread.
"""

from __future__ import annotations

import contextvars
import inspect
import threading
import time
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from saga_core.permissions import Denial, Dispatch, Permit
    from saga_core.stores.permits import Answer, Permits
    from saga_core.stores.store import Backend, Log

T = TypeVar("T")

_CANCEL_WAIT = 5.0
"""Seconds that an interrupted caller waits for its cancelled work on the private loop to end."""


class Io(Protocol):
    """What the engine waits for."""

    async def effect(self, fn: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        """Call an action's function in the caller's own context and thread."""
        ...

    async def ask(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a user's handler, synchronous or asynchronous, without blocking a loop."""
        ...

    async def offload(self, fn: Callable[..., T], *args: Any) -> T:
        """Call a function of ours that blocks."""
        ...

    async def whole(self, fn: Callable[[], object]) -> None:
        """Call a function of ours that blocks; a cancellation is delivered when it has returned."""
        ...

    async def barrier(self, log: Log, position: int) -> None:
        """Wait until the log is on disk up to the position."""
        ...

    async def permit(self, permits: Permits, wanted: Dispatch) -> Permit | Denial:
        """Take what a call needs from the control database."""
        ...

    async def wait(self, register: Callable[[Callable[[], None]], None], seconds: float) -> None:
        """Wait until a callback given to `register` is called, from any thread, or the time is over."""
        ...

    async def bounded(self, work: Coroutine[Any, Any, object], seconds: float) -> bool:
        """Run the engine's own work for some time at most; False if it did not end by then."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class AsyncIo:
    """On the running event loop."""

    async def effect(self, fn: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        return await fn(**arguments)

    async def ask(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if inspect.iscoroutinefunction(fn):
            return await fn(*args, **kwargs)
        import asyncio  # noqa: PLC0415

        answer = await asyncio.to_thread(fn, *args, **kwargs)
        return await answer if inspect.isawaitable(answer) else answer

    async def offload(self, fn: Callable[..., T], *args: Any) -> T:
        import asyncio  # noqa: PLC0415

        return await asyncio.to_thread(fn, *args)

    async def whole(self, fn: Callable[[], object]) -> None:
        import asyncio  # noqa: PLC0415

        work = asyncio.ensure_future(asyncio.to_thread(fn))
        cancelled: asyncio.CancelledError | None = None
        while not work.done():
            try:
                await asyncio.wait({work})
            except asyncio.CancelledError as late:
                cancelled = late
        work.result()
        if cancelled is not None:
            raise cancelled

    async def barrier(self, log: Log, position: int) -> None:
        if log.durable >= position:
            return
        import asyncio  # noqa: PLC0415

        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        turn = _turns.get(loop)
        if turn is None:
            turn = _turns[loop] = Turn(loop)
        turn.add(log, position, done)
        await done

    async def permit(self, permits: Permits, wanted: Dispatch) -> Permit | Denial:
        import asyncio  # noqa: PLC0415

        loop = asyncio.get_running_loop()
        done: asyncio.Future[Permit | Denial] = loop.create_future()

        def answer(found: Answer) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_answer, done, found)

        permits.dispatch_later(wanted, answer)
        return await done

    async def wait(self, register: Callable[[Callable[[], None]], None], seconds: float) -> None:
        import asyncio  # noqa: PLC0415

        loop = asyncio.get_running_loop()
        rung = asyncio.Event()

        def ring() -> None:
            try:
                loop.call_soon_threadsafe(rung.set)
            except RuntimeError:
                return  # the loop is closed: nobody waits any more

        register(ring)
        try:
            async with asyncio.timeout(seconds):
                await rung.wait()
        except TimeoutError:
            return

    async def bounded(self, work: Coroutine[Any, Any, object], seconds: float) -> bool:
        import asyncio  # noqa: PLC0415

        try:
            async with asyncio.timeout(seconds):
                await work
        except TimeoutError:
            return False
        return True

    async def sleep(self, seconds: float) -> None:
        import asyncio  # noqa: PLC0415

        await asyncio.sleep(seconds)


class Turn:
    """What is waited for on the disk in one turn of an event loop: asked for together, so that one sync serves all."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._asked: list[tuple[Log, int]] = []
        self._waiting: list[asyncio.Future[None]] = []

    def add(self, log: Log, position: int, done: asyncio.Future[None]) -> None:
        """Have a future resolved when the log is on disk up to the position."""
        if not self._asked:
            done.get_loop().call_soon(self._ask)
        self._asked.append((log, position))
        self._waiting.append(done)

    def _ask(self) -> None:
        asked, waiting = self._asked, self._waiting
        self._asked, self._waiting = [], []
        store = asked[0][0].store
        if all(log.store is store for log, _ in asked):
            self._ask_store(store, asked, waiting)
            return
        for store in {id(log.store): log.store for log, _ in asked}.values():
            own = [number for number, (log, _) in enumerate(asked) if log.store is store]
            self._ask_store(store, [asked[number] for number in own], [waiting[number] for number in own])

    def _ask_store(self, store: Backend, asked: list[tuple[Log, int]], waiting: list[asyncio.Future[None]]) -> None:
        def report(problems: list[BaseException | None]) -> None:
            loop = self._loop()
            if loop is not None:
                with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                    loop.call_soon_threadsafe(_resolve, waiting, problems)

        store.sync_later(asked, report)


def _answer(done: asyncio.Future[Permit | Denial], found: Answer) -> None:
    if done.done():
        return  # its waiter was cancelled
    if isinstance(found, BaseException):
        done.set_exception(found)
    else:
        done.set_result(found)


def _resolve(waiting: list[asyncio.Future[None]], problems: list[BaseException | None]) -> None:
    for done, problem in zip(waiting, problems, strict=True):
        if done.done():
            continue  # its waiter was cancelled
        if problem is None:
            done.set_result(None)
        else:
            done.set_exception(problem)


_turns: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Turn] = weakref.WeakKeyDictionary()


class SyncIo:
    """In the caller's own thread; what is asynchronous runs on the private loop."""

    async def effect(self, fn: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        if inspect.iscoroutinefunction(fn):
            return PRIVATE_LOOP.run(fn(**arguments))
        return fn(**arguments)

    async def ask(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        answer = fn(*args, **kwargs)
        return PRIVATE_LOOP.run(answer) if inspect.isawaitable(answer) else answer

    async def offload(self, fn: Callable[..., T], *args: Any) -> T:
        return fn(*args)

    async def whole(self, fn: Callable[[], object]) -> None:
        fn()

    async def barrier(self, log: Log, position: int) -> None:
        log.sync(position)

    async def permit(self, permits: Permits, wanted: Dispatch) -> Permit | Denial:
        return permits.dispatch(wanted)

    async def wait(self, register: Callable[[Callable[[], None]], None], seconds: float) -> None:
        rung = threading.Event()
        register(rung.set)
        rung.wait(seconds)

    async def bounded(self, work: Coroutine[Any, Any, object], seconds: float) -> bool:
        failure: list[BaseException] = []

        def run() -> None:
            try:
                drive(work)
            except BaseException as error:  # noqa: BLE001 -- carried to the caller
                failure.append(error)

        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(run,), name="saga-question", daemon=True)
        thread.start()
        thread.join(seconds)
        if failure:
            raise failure[0]
        return not thread.is_alive()

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251 -- there is no loop here


ASYNC = AsyncIo()
SYNC = SyncIo()


def drive(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine over `SYNC` to its end, here and now."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    work.close()
    raise AssertionError("the engine waited for an event loop on a path that has none")


def is_interrupt(io: Io, error: BaseException) -> bool:
    """Tell whether an error ends the engine's own work here, rather than being what a user's handler raised."""
    if isinstance(error, KeyboardInterrupt) or (isinstance(error, GeneratorExit) and io is ASYNC):
        return True
    import sys  # noqa: PLC0415

    asyncio = sys.modules.get("asyncio")
    if asyncio is None or not isinstance(error, asyncio.CancelledError) or not on_loop_thread():
        return False
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def on_loop_thread() -> bool:
    """Tell whether an event loop is running in this thread."""
    import sys  # noqa: PLC0415

    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None  # noqa: SLF001 -- the one that never raises


class _PrivateLoop:
    """One event loop on a worker thread, for asynchronous handlers met where no loop runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: Any = None

    def run(self, work: Any) -> Any:
        """Run an awaitable to its end and return its result; the caller's context is copied."""
        import asyncio  # noqa: PLC0415

        ended = threading.Event()

        async def awaited() -> Any:
            try:
                return await work
            finally:
                ended.set()

        future = asyncio.run_coroutine_threadsafe(awaited(), self._started())
        try:
            return future.result()
        except BaseException:
            if future.cancel():
                ended.wait(_CANCEL_WAIT)
            raise

    def _started(self) -> Any:
        with self._lock:
            if self._loop is None or self._loop.is_closed():
                import asyncio  # noqa: PLC0415

                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="saga-private-loop", daemon=True).start()
            return self._loop

    def die_in_child(self) -> None:
        """Forget the loop: its thread did not survive the fork."""
        self._lock = threading.Lock()
        self._loop = None


PRIVATE_LOOP = _PrivateLoop()
