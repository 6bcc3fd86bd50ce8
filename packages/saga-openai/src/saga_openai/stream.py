"""A streamed run, which is over when its block is left."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from agents import Runner

from saga_openai.errors import InterruptedWithoutKey
from saga_openai.outcome import remember
from saga_openai.run import Run

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from agents import Agent, RunResultStreaming

_HALF_A_MINUTE = timedelta(seconds=30)


class SagaStream:
    """What `SagaRunner.stream` returns, for `async with`."""

    def __init__(self, agent: Agent[Any], given: Any, terms: Mapping[str, Any]) -> None:
        self._agent = agent
        self._given = given
        self._terms = terms

    async def __aenter__(self) -> RunResultStreaming:
        self._run = run = await Run.open(self._agent, self._given, self._terms)
        self._body = run.session.body(run.place)
        self._body.__enter__()
        try:
            self._result = Runner.run_streamed(self._agent, self._given, **run.options())
        except BaseException as error:
            self._body.__exit__(None, None, None)
            await run.session.end(error)
            raise
        remember(self._result, run.session)
        return self._result

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._body.__exit__(kind, error, trace)
        session, result = self._run.session, self._result
        if error is not None or not _has_outcome(result):
            session.seal("its stream was broken off")
            result.cancel()
        patience = self._terms.get("drain_timeout", _HALF_A_MINUTE)
        interruption = await _stopped(result.run_loop_task, patience)
        failure = error or interruption or await _unheard(result)
        if failure is None and _has_outcome(result):
            try:
                self._run.finish(result)
            except InterruptedWithoutKey as unfit:
                failure = unfit
        await session.end(failure)
        if error is None and isinstance(failure, (asyncio.CancelledError, InterruptedWithoutKey)):
            raise failure


def _has_outcome(result: RunResultStreaming) -> bool:
    return result.final_output is not None or bool(result.interruptions)


async def _stopped(task: asyncio.Task[Any] | None, patience: timedelta) -> asyncio.CancelledError | None:
    """Wait until the run has stopped; a cancellation meanwhile is returned, for later."""
    loop = asyncio.get_running_loop()
    until = loop.time() + patience.total_seconds()
    cancelled: asyncio.CancelledError | None = None
    while task is not None and not task.done() and loop.time() < until:
        try:
            await asyncio.wait({task}, timeout=until - loop.time())
        except asyncio.CancelledError as late:
            cancelled = late
    return cancelled


async def _unheard(result: RunResultStreaming) -> BaseException | None:
    """Return the error that the rest of a stopped run's events ends with, a late guardrail's included."""
    task = result.run_loop_task
    if task is None or not task.done() or task.cancelled():
        return None
    try:
        async for _ in result.stream_events():
            pass
    except (Exception, asyncio.CancelledError) as failure:  # noqa: BLE001 -- whatever it is, the run has failed
        return failure
    return None
