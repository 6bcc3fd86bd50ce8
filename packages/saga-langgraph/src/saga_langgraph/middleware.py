"""The middleware that records what an agent's tools do."""

from __future__ import annotations

from typing import Any

from langchain.agents.middleware import AgentMiddleware, TracePolicy, omit_payload

from saga_langgraph.answer import REFUSALS, answer
from saga_langgraph.body import body
from saga_langgraph.run import config_here, run_of


class SagaMiddleware(AgentMiddleware[Any, Any, Any]):
    """Puts each tool's body into the run's saga, whatever tool it is: the actions that it calls are recorded.

    Put it last in the list. It then stands next to the tool and sees the arguments that the others have edited, and it
    is the first to see that a guardrail has ended the agent early. A call that was refused is answered with the reason,
    and the agent goes on; any other error of a tool passes.
    """

    trace_policy = TracePolicy(process_inputs=omit_payload)

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Run the tool as a body of the run's saga."""
        try:
            with body(request.runtime.config, request.tool_call["id"]):
                return handler(request)
        except REFUSALS as error:
            return answer(request.tool_call, error)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Run the tool as a body of the run's saga."""
        try:
            with body(request.runtime.config, request.tool_call["id"]):
                return await handler(request)
        except REFUSALS as error:
            return answer(request.tool_call, error)

    def after_agent(self, state: Any, runtime: Any) -> None:  # noqa: ARG002 -- LangChain passes both
        """Decide that the saga unwinds, where a guardrail has ended the agent and `on_guardrail` says so."""
        run = run_of(config_here())
        if state.get("jump_to") == "end" and run is not None and run.on_guardrail == "rollback":
            run.session.latch("a guardrail ended the agent")

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        """Do as `after_agent` does; it waits for nothing."""
        self.after_agent(state, runtime)
