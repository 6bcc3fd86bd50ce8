"""The SDK's runner, each run a saga."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from agents import Runner

from saga_openai.blocking import run_blocking
from saga_openai.outcome import remember
from saga_openai.run import Run
from saga_openai.stream import SagaStream

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Unpack

    from agents import Agent, RunResult, RunState, TResponseInputItem

    from saga_openai.run import Terms

T = TypeVar("T")


class SagaRunner:
    """Runs agents as `agents.Runner` does, and undoes what their tools did if the run fails.

    The keyword arguments of each method are those of `agents.Runner.run` and of `saga_openai.run.Terms`.
    """

    @staticmethod
    async def run(
        agent: Agent[T],
        input: str | list[TResponseInputItem] | RunState[T],  # noqa: A002 -- the SDK's own name
        **terms: Unpack[Terms[T]],
    ) -> RunResult:
        """Run an agent and return the SDK's own result; `report_of(result)` says what became of its effects.

        A run that raises, by a guardrail's tripwire or a cancellation too, is drained and unwound before its exception
        comes out, unchanged but for a note. A final output is committed, durably when this returns. A result with
        interruptions is suspended: resume it with its `RunState` under the same key; with new input instead, what the
        unfinished run did is undone first. Inside an open `saga_scope` the run is a savepoint of it, takes no key,
        store or gate, and an interruption suspends that scope's saga.

        Raises:
            SagaError: The saga cannot be opened, as `saga_scope` says; nothing was run.
            InterruptedWithoutKey: The run waits for an approval after an effect, and has no key; it is undone.
            RollbackIncomplete: A tool decided to roll back, or an error was handled, and not everything is undone.
        """
        return await _run(agent, input, terms)

    @staticmethod
    def run_sync(
        agent: Agent[T],
        input: str | list[TResponseInputItem] | RunState[T],  # noqa: A002 -- the SDK's own name
        **terms: Unpack[Terms[T]],
    ) -> RunResult:
        """Do as `run` does, blocking, on the loop on which `Runner.run_sync` runs in this thread.

        Ctrl-C cancels the run and raises KeyboardInterrupt once it is unwound; the second one leaves that to recovery.

        Raises:
            ScopeMisuse: An event loop is running in this thread; nothing was run.
        """
        return run_blocking(lambda: _run(agent, input, terms))

    @staticmethod
    def stream(
        agent: Agent[T],
        input: str | list[TResponseInputItem] | RunState[T],  # noqa: A002 -- the SDK's own name
        **terms: Unpack[Terms[T]],
    ) -> SagaStream:
        """Return what runs the agent for an `async with` block, and gives it the SDK's streaming result.

        What the run did stays if it has come to its final output when the block is left. An exception, breaking out of
        the events and `result.cancel()` stop the run and undo it.
        """
        return SagaStream(agent, input, terms)


async def _run(agent: Agent[Any], given: Any, terms: Mapping[str, Any]) -> RunResult:
    run = await Run.open(agent, given, terms)
    try:
        with run.session.body(run.place):
            result = await Runner.run(agent, given, **run.options())
        remember(result, run.session)
        run.finish(result)
    except BaseException as error:
        await run.session.end(error)
        raise
    await run.session.end()
    return result
