"""What a scope sees of the crews that run in it, through hooks that are its own."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.hooks.dispatch import HookAborted, InterceptionPoint, get_scoped_hooks
from crewai.tools.tool_failure import ToolFailure, ToolFailurePolicy, resolve_tool_failure_policy
from crewai.utilities import streaming

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crewai.hooks.contexts import ExecutionEndContext, ExecutionStartContext
    from crewai.hooks.llm_hooks import LLMCallHookContext
    from crewai.hooks.tool_hooks import ToolCallHookContext

    from saga_core.adapter import Session

    Hooks = dict[InterceptionPoint, list[Callable[[Any], Any]]]


WATCH: ContextVar[Watch | None] = ContextVar("saga_crewai_watch", default=None)


class Watch:
    """Counts the runs of a session, and stops its crews once it was decided that it unwinds.

    CrewAI tells its event bus of each hook that it calls, which costs more than the hook. So those that every call of a
    model or a tool would meet stand only once they have something to do.

    Attributes:
        is_failed: A run met that decision, so that its end, whatever it looks like, is a failure.
        cause: The error by which such a run ended; None if it looked like a success.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._running: list[object] = []
        self._hooks: Hooks = {point: get_scoped_hooks(point) for point in InterceptionPoint}
        self._hooks[InterceptionPoint.EXECUTION_START].append(self._began)
        self._hooks[InterceptionPoint.EXECUTION_END].append(self._ended)
        self.is_failed = False
        self.cause: BaseException | None = None
        session.on_latch(self.stop_models)

    def hooks(self) -> Hooks:
        """Return the hooks that stand in this context, with the scope's own behind them; hooks join them later."""
        return self._hooks

    def close(self) -> None:
        """Take the hooks away from contexts that nobody leaves any more."""
        self._hooks.clear()

    def tool_failed(self) -> None:
        """Look at the failures of tools from here on, beginning with the one that is about to be returned."""
        self._add(InterceptionPoint.POST_TOOL_CALL, self._called)

    def stop_models(self) -> None:
        """Refuse the calls of models from here on, where the session is latched or has ended."""
        self._add(InterceptionPoint.PRE_MODEL_CALL, self._asks)

    def _add(self, point: InterceptionPoint, hook: Callable[[Any], Any]) -> None:
        with self._lock:
            standing = self._hooks.get(point)
            if standing is not None and hook not in standing:
                standing.append(hook)

    def stopped(self, error: BaseException | None) -> bool:
        """Tell whether an error is the one by which the scope stopped a crew."""
        return isinstance(error, HookAborted) and error.source is self

    def _refuse(self) -> None:
        reason = self._session.latched
        if reason is not None:
            self.is_failed = True
        elif self._session.is_ended:
            reason = "its scope has ended"
        if reason is not None:
            raise HookAborted(f"saga {self._session.saga.id} goes no further: {reason}", source=self)

    def _began(self, seen: ExecutionStartContext) -> None:
        self._refuse()
        if any(policy is ToolFailurePolicy.RAISE for policy in _policies(seen.crew)):
            self.tool_failed()
        with self._lock:
            self._running.append(_run_of(seen))
        self._session.run_began()

    def _ended(self, seen: ExecutionEndContext) -> None:
        run = _run_of(seen)
        with self._lock:
            known = [index for index, running in enumerate(self._running) if running is run]
            if not known:  # a resumed flow ends without having begun here
                return
            del self._running[known[-1]]
        if seen.status == "failed" and _is_streamed():
            self._session.latch("a streamed run failed")  # whoever broke the stream off cannot see it
        if self._session.latched is not None:
            self.is_failed = True
            self.cause = self.cause or seen.error
        self._session.run_ended()

    def _asks(self, _: LLMCallHookContext) -> None:
        self._refuse()

    def _called(self, seen: ToolCallHookContext) -> None:
        failure = seen.raw_tool_result
        if not isinstance(failure, ToolFailure):
            return
        policy = resolve_tool_failure_policy(seen.tool, seen.agent, seen.task, seen.crew)
        if policy is ToolFailurePolicy.RAISE:  # a delegating agent would take it for an answer
            self.is_failed = True
            self._session.latch(f"the tool {seen.tool_name!r} failed: {failure.message}")
        elif failure.retryable and isinstance(seen.agent, BaseAgent):
            seen.agent.tools_handler.last_used_tool = None  # the text protocol refuses a call made twice in a row


def _policies(crew: Any) -> Iterator[object]:
    """Yield what the crew says of failing tools, at each place where it can."""
    agents = [*getattr(crew, "agents", ()), getattr(crew, "manager_agent", None)]
    owners = [*agents, *getattr(crew, "tasks", ())]
    tools = [tool for owner in owners for tool in getattr(owner, "tools", None) or ()]
    for source in (crew, *owners, *tools):
        yield getattr(source, "tool_failure_policy", None)


def _run_of(seen: ExecutionStartContext | ExecutionEndContext) -> object:
    return seen.flow if seen.crew is None else seen.crew


def _is_streamed() -> bool:
    streams = getattr(streaming, "_current_stream_ids", None)
    return streams is not None and bool(streams.get())
