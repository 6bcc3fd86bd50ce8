"""How a block waits for its scope's end: on a thread, or on its loop; bounded, and shielded from interrupts."""

from __future__ import annotations

import contextvars
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

from saga_core.engine import janitor
from saga_core.engine.ending import end, is_unsettled
from saga_core.engine.io import ASYNC, SYNC, drive
from saga_core.engine.notes import note
from saga_core.engine.session import log
from saga_core.errors import CommitUnknown, RollbackIncomplete

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from saga_core.engine.ending import Limits
    from saga_core.engine.node import Node
    from saga_core.errors import SagaError

_GRACE = 1.0
"""Seconds that the block waits longer than the ending may take."""

_HELD = 60.0
"""Seconds after which the loop's hold on the watch over an ending is renewed."""


def leave(node: Node, error: BaseException | None, limits: Limits) -> None:
    """End a scope for a `with` block.

    Raises:
        SagaError: What could not be done, where the block has no error of its own.
    """
    try:
        problem = drive(end(SYNC, node, None, limits)) if _is_plain(node, error) else _end_aside(node, error, limits)
    except BaseException:
        _pass_on(node)
        raise
    if problem is not None and error is None:
        raise problem


def _is_plain(node: Node, error: BaseException | None) -> bool:
    """Tell whether the ending is one record, with nothing of the user's to run."""
    view = node.session.view
    if node.session.is_behind or node.session.runs or error is not None or node.decision is not None:
        return False
    return node.parent is not None or not (
        view.has_holds or any(is_unsettled(view, step) for step in view.steps.values())
    )


def _end_aside(node: Node, error: BaseException | None, limits: Limits) -> SagaError | None:
    """End on a thread of its own: neither a hanging inverse nor an interrupt leaves the ending half done."""
    box: list[SagaError | None] = []
    failure: list[BaseException] = []
    drained, ended = threading.Event(), threading.Event()

    def work() -> None:
        try:
            box.append(drive(end(SYNC, node, error, limits, drained.set)))
        except BaseException as broken:  # noqa: BLE001 -- carried to the block's own thread
            failure.append(broken)
        finally:
            drained.set()
            ended.set()

    context = contextvars.copy_context()
    name = f"saga-unwind-{node.session.saga_id}"
    threading.Thread(target=context.run, args=(work,), name=name, daemon=True).start()
    try:
        in_time = drained.wait(limits.drain + _GRACE) and ended.wait(limits.unwind + _GRACE)
    except BaseException:
        node.session.stop()
        raise
    if not in_time:
        return _late(node, error)
    if failure:
        raise failure[0]
    return box[0]


async def leave_on_loop(node: Node, error: BaseException | None, limits: Limits) -> None:
    """End a scope for an `async with` block; a cancellation is held back until the ending is done.

    Raises:
        CancelledError: The block was cancelled meanwhile and has no error of its own.
        SagaError: What could not be done, where the block has no error of its own.
    """
    import asyncio  # noqa: PLC0415

    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # the block is being destroyed after its loop was closed: nothing can be awaited
        node.closed = node.closed or "its event loop was closed"
        node.is_over = True
        _pass_on(node)
        return
    task = asyncio.current_task()
    assert task is not None
    cancelled = await _overdue(node, task) if error is None else None
    drained: asyncio.Future[None] = loop.create_future()
    work = _end(node, error, limits, drained)
    ending = loop.create_task(work)
    ending.add_done_callback(_watch_loop(loop, work))
    ending.add_done_callback(lambda done: _pass_on(node) if done.cancelled() else None)  # perhaps before it began
    until = loop.time() + limits.drain + _GRACE
    while not ending.done() and loop.time() < until:
        try:
            if drained.done():
                await asyncio.wait({ending}, timeout=until - loop.time())
            else:
                await asyncio.wait({ending, drained}, timeout=until - loop.time(), return_when="FIRST_COMPLETED")
                until = loop.time() + limits.unwind + _GRACE if drained.done() else until
        except asyncio.CancelledError as late:
            cancelled = late
            node.cancel()
    problem = _late(node, error) if not ending.done() else None if ending.cancelled() else ending.result()
    if cancelled is not None and error is None:
        raise cancelled
    if cancelled is not None:
        loop.call_soon(_redeliver, task, cancelled)
    elif problem is not None and error is None:
        raise problem


class _Tripwire:
    """Held by the loop alone: it goes when the loop is closed, and closes the work that nobody drives any more."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any]) -> None:
        self.work: weakref.ref[Coroutine[Any, Any, Any]] | None = weakref.ref(work)
        self._loop = loop
        self()

    def __call__(self) -> None:
        """Have the loop hold it for longer, as long as the work may take."""
        if self.work is not None:
            self.timer = weakref.ref(self._loop.call_later(_HELD, self))

    def __del__(self) -> None:
        work = None if self.work is None or sys.is_finalizing() else self.work()
        if work is not None:
            work.close()


def _watch_loop(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any]) -> Callable[[object], None]:
    """Close the work if the loop is closed under it; return what calls that off."""
    held = weakref.ref(_Tripwire(loop, work))

    def disarm(_: object) -> None:
        tripwire = held()
        if tripwire is not None:
            tripwire.work = None
            timer = tripwire.timer()
            if timer is not None:
                timer.cancel()

    return disarm


async def _overdue(node: Node, task: asyncio.Task[Any]) -> asyncio.CancelledError | None:
    """Take a cancellation that a savepoint held back: it comes before the commit."""
    import asyncio  # noqa: PLC0415

    if task.cancelling() > 0:
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError as held_back:
            node.cancel()
            return held_back
    return None


async def _end(
    node: Node, error: BaseException | None, limits: Limits, drained: asyncio.Future[None]
) -> SagaError | None:
    try:
        return await end(ASYNC, node, error, limits, lambda: drained.set_result(None))
    except BaseException:
        _pass_on(node)
        raise


def _redeliver(task: asyncio.Task[Any], cancelled: asyncio.CancelledError) -> None:
    """Cancel a task again whose cancellation was held back for the user's own exception.

    Whoever cancelled it may have taken that back since, as `asyncio.timeout` does when another error passes.
    """
    if not task.done() and task.cancelling() > 0:
        task.uncancel()
        task.cancel(*cancelled.args)


def _pass_on(node: Node) -> None:
    """Have the janitor end what an interrupt left half ended."""
    if node.parent is None and not node.session.is_passed_on:
        node.session.is_passed_on = True
        janitor.take(node.session, None)


def _late(node: Node, error: BaseException | None) -> SagaError | None:
    """Tell that the ending goes on in the background: by a note, or by the error of a block that has none."""
    session = node.session
    if session.is_past_pivot:
        log.warning("saga %s is committed; its held effects are sent in the background", session.saga_id)
        return None
    if error is not None:
        note(error, f"saga {session.saga_id}: still unwinding in the background (see saga.report)")
        return None
    if node.decision is not None and node.decision[0] == "rollback":
        return RollbackIncomplete(
            "the rollback is not complete yet, and goes on in the background",
            saga_id=session.saga_id,
            world="what is not undone yet stands",
            next="look at saga.report, or give the end more time: unwind_timeout=",
            report=session.report(),
        )
    if node.parent is not None:
        return None
    what = "commit" if node.decision is None else "suspension"
    return CommitUnknown(
        f"the scope's {what} is not on the disk yet, and goes on in the background",
        saga_id=session.saga_id,
        world="everything that landed stands; if this process dies before, it is undone",
        next="look at saga.report, or give the end more time: drain_timeout=, unwind_timeout=",
    )
