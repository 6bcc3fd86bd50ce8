"""One agent of the OpenAI Agents SDK, asynchronous."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage, function_tool
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from benchmarks.adapters.actions import CALLS, charge
from saga_openai import SagaRunner, saga_tools


class Scripted(Model):
    """Calls the tool until it was called often enough."""

    def __init__(self) -> None:
        self._made = 0

    async def get_response(self, *_: Any, **__: Any) -> ModelResponse:
        """Return the next call, or the end."""
        made = self._made
        self._made = 0 if made == CALLS else made + 1
        call = ResponseFunctionToolCall(
            arguments=f'{{"amount": {made}}}', call_id=f"call_{made}", name="charge", type="function_call"
        )
        text = ResponseOutputText(annotations=[], text="done", type="output_text")
        done = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
        return ModelResponse(output=[done if made == CALLS else call], usage=Usage(), response_id=None)

    async def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """Stream nothing: the runs are not streamed."""
        for event in ():
            yield event


@function_tool(name_override="charge")
async def plain(amount: int) -> str:
    """Charge an amount."""
    return f"ch_{amount}"


def contenders(store: str) -> dict[str, Callable[[], object]]:
    """Return the plain run and the wrapped one."""
    bare = Agent("shop", model=Scripted(), tools=[plain])
    wrapped = Agent("shop", model=Scripted(), tools=[*saga_tools(charge)])
    turns = CALLS + 2
    return {
        "openai_plain": lambda: asyncio.run(Runner.run(bare, "charge", max_turns=turns)),
        "openai_wrapped": lambda: asyncio.run(SagaRunner.run(wrapped, "charge", store=store, max_turns=turns)),
    }
