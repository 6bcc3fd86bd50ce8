"""A model that answers by a script, whole or streamed, and the agents that it drives."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from agents import Agent, Model, ModelResponse, RunConfig, ToolErrorFormatterArgs, Usage
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputItem,
    ResponseOutputMessage,
    ResponseOutputText,
)

Call = tuple[str, Mapping[str, Any]]
Turn = Sequence[Call] | str | BaseException
"""One answer: calls made at once, a final text, or the error that asking raises."""


def _reason(failed: ToolErrorFormatterArgs[Any]) -> str:
    """Tell the model why a tool failed; newer releases of the SDK do so only where they are asked to."""
    return str(getattr(failed, "error", None) or failed.default_message)


QUIET = RunConfig(tracing_disabled=True, tool_error_formatter=_reason)


class ScriptedModel(Model):
    """Takes the turns one after another; its call ids are new each time, as a real model's are.

    Attributes:
        asked: How often it was asked.
        seen: The texts of the tools' results that it was shown when it was asked last, in order.
        before_turn: Called with the number of each turn, from 1 on, before it is taken.
    """

    def __init__(self, *turns: Turn, before_turn: Callable[[int], None] = lambda _: None) -> None:
        self._turns = list(turns)
        self.before_turn = before_turn
        self.asked = 0
        self.seen: list[str] = []

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        return ModelResponse(output=self._answer(args, kwargs), usage=Usage(), response_id=None)

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[ResponseCompletedEvent]:
        response = Response(
            id=uuid.uuid4().hex,
            created_at=0,
            model="scripted",
            object="response",
            output=self._answer(args, kwargs),
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
        )
        yield ResponseCompletedEvent(type="response.completed", response=response, sequence_number=0)

    def _answer(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[ResponseOutputItem]:
        shown = cast("object", kwargs["input"] if "input" in kwargs else args[1])
        items = cast("list[dict[str, Any]]", shown) if isinstance(shown, list) else []
        self.seen = [str(item["output"]) for item in items if item.get("type") == "function_call_output"]
        self.asked += 1
        self.before_turn(self.asked)
        turn = self._turns.pop(0)
        if isinstance(turn, BaseException):
            raise turn
        return [_message(turn)] if isinstance(turn, str) else [_call(name, given) for name, given in turn]


def _message(text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(text=text, type="output_text", annotations=[])
    return ResponseOutputMessage(
        id=uuid.uuid4().hex, type="message", role="assistant", status="completed", content=[content]
    )


def _call(name: str, given: Mapping[str, Any]) -> ResponseFunctionToolCall:
    call_id = f"call_{uuid.uuid4().hex}"
    return ResponseFunctionToolCall(
        id=call_id, call_id=call_id, type="function_call", name=name, arguments=json.dumps(given)
    )


def agent(model: Model, tools: Sequence[Any], **settings: Any) -> Agent[Any]:
    """Return an agent that the model drives."""
    return Agent(name="clerk", model=model, tools=list(tools), **settings)


@contextmanager
def own_loop() -> Generator[None]:
    """Close, behind a synchronous run, the loop that the SDK leaves open for the thread's next one."""
    try:
        yield
    finally:
        asyncio.get_event_loop().close()
