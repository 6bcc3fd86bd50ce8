"""A `create_agent` agent, asynchronous.

Both agents have one middleware, the plain one a middleware that only passes each call on: LangChain's own cost of
having any is not the saga's. It is measured as well, against an agent without.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType] -- generic in what nobody names
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

from benchmarks.adapters.actions import CALLS, charge
from saga_langgraph import SagaMiddleware, saga_tools, with_saga

ASKED: Any = {"messages": [{"role": "user", "content": "charge"}]}


class Model(BaseChatModel):
    """Calls the tool until it was called often enough."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        """Take the tools as they are."""
        return self

    def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
        made = sum(isinstance(message, ToolMessage) for message in messages)
        calls: Any = [{"name": "charge", "args": {"amount": made}, "id": f"call_{made}"}]
        answer = AIMessage("done") if made == CALLS else AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=answer)])


class Nothing(AgentMiddleware[Any, Any]):
    """Passes each call on."""

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Run the tool."""
        return await handler(request)


@tool("charge")
async def plain(amount: int) -> str:
    """Charge an amount."""
    return f"ch_{amount}"


def contenders(store: str) -> dict[str, Callable[[], object]]:
    """Return the plain run and the wrapped one."""
    bare: Any = create_agent(Model(), tools=[plain])  # pyright: ignore[reportUnknownVariableType]
    passed_on: Any = create_agent(Model(), tools=[plain], middleware=[Nothing()])
    wrapped: Any = create_agent(Model(), tools=saga_tools(charge), middleware=[SagaMiddleware()])
    saga: Any = with_saga(wrapped, store=store)
    return {
        "langgraph_bare": lambda: asyncio.run(bare.ainvoke(ASKED)),
        "langgraph_plain": lambda: asyncio.run(passed_on.ainvoke(ASKED)),
        "langgraph_wrapped": lambda: asyncio.run(saga.ainvoke(ASKED)),
    }
