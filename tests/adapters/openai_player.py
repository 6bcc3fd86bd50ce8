"""An agent of the OpenAI Agents SDK under `SagaRunner`."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from agents import Agent, Model, ModelResponse, Usage, function_tool
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from script import Said, Turn
from tools import asynchronous, send_wire, synchronous

from saga_openai import SagaRunner, saga_tools

ASKED = "close the deal"


class Player:
    """The SDK's three ways to run an agent."""

    def play(self, turns: Sequence[Turn], store: str) -> list[str]:
        try:
            return _outputs(SagaRunner.run_sync(_agent(turns, synchronous), ASKED, store=store))
        finally:
            loop = asyncio.get_event_loop()  # the SDK leaves it open for the thread's next run
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    async def play_async(self, turns: Sequence[Turn], store: str) -> list[str]:
        return _outputs(await SagaRunner.run(_agent(turns, asynchronous), ASKED, store=store))

    async def play_threads(self, turns: Sequence[Turn], store: str) -> list[str]:
        return _outputs(await SagaRunner.run(_agent(turns, synchronous), ASKED, store=store))

    async def break_off(self, turns: Sequence[Turn], store: str) -> None:
        async with SagaRunner.stream(_agent(turns, asynchronous), ASKED, store=store) as result:
            async for event in result.stream_events():
                if getattr(event, "name", "") == "tool_output":
                    break


class Scripted(Model):
    """A model that answers by a script."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self._said = Said(turns)

    async def get_response(self, *_: Any, **__: Any) -> ModelResponse:
        return ModelResponse(output=self._answer(), usage=Usage(), response_id=None)

    async def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        response = Response(
            id="response",
            created_at=0,
            model="scripted",
            object="response",
            output=self._answer(),
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
        )
        yield ResponseCompletedEvent(response=response, sequence_number=0, type="response.completed")

    def _answer(self) -> list[Any]:
        number, turn = self._said.next()
        if isinstance(turn, str):
            text = ResponseOutputText(annotations=[], text=turn, type="output_text")
            return [ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")]
        return [
            ResponseFunctionToolCall(
                arguments=json.dumps(dict(args)), call_id=f"call_{number}_{index}", name=name, type="function_call"
            )
            for index, (name, args) in enumerate(turn)
        ]


def _agent(turns: Sequence[Turn], tools: Mapping[str, Callable[..., Any]]) -> Agent[Any]:
    own = [function_tool(name_override=name)(fn) for name, fn in tools.items()]
    return Agent("clerk", model=Scripted(turns), tools=[*own, *saga_tools(send_wire)])


def _outputs(result: Any) -> list[str]:
    return [str(item.output) for item in result.new_items if item.type == "tool_call_output_item"]
