"""A model that answers by a script, for tests of crews without a network."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from crewai.llms.base_llm import BaseLLM, llm_call_context
from pydantic import PrivateAttr

__all__ = ["ScriptedLLM", "Turn"]

Turn: TypeAlias = Sequence[tuple[str, Mapping[str, Any]]] | str | BaseException
"""One answer: calls of tools by name and arguments, a final text, or the error that asking raises."""

_REMINDER = "\n\n\nYou ONLY have access"
"""Begins the instructions that CrewAI repeats behind every third result of its text protocol."""


class ScriptedLLM(BaseLLM):
    """A model that answers by a script; its last turn is repeated for whoever asks on.

    With `native=False` it speaks CrewAI's text protocol (ReAct), which knows one call at a time: calls made at once
    become turns of their own. In a streamed crew each answer is one chunk.

    Attributes:
        native: It calls tools as an API does, not in its text.
    """

    native: bool = True

    _turns: list[Turn] = PrivateAttr()
    _asked: list[list[dict[str, Any]]] = PrivateAttr(default_factory=list[list[dict[str, Any]]])
    _lock: Any = PrivateAttr(default_factory=threading.Lock)

    def __init__(self, turns: Sequence[Turn], *, native: bool = True) -> None:
        """Take the answers, in order."""
        super().__init__(model="scripted")
        self.native = native
        self._turns = [part for turn in turns for part in self._parts(turn)]

    def _parts(self, turn: Turn) -> Sequence[Turn]:
        is_text = isinstance(turn, (str, BaseException))
        return [turn] if self.native or is_text else [[call] for call in turn]

    @property
    def asked(self) -> list[list[dict[str, Any]]]:
        """The messages of each call, in order."""
        return self._asked

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages of the last call."""
        return self._asked[-1] if self._asked else []

    @property
    def seen(self) -> list[str]:
        """The results of tools that the last call showed, in order."""
        if self.native:
            return [str(message["content"]) for message in self.messages if message["role"] == "tool"]
        said = [str(message["content"]) for message in self.messages if message["role"] == "assistant"]
        shown = [text.partition("\nObservation: ")[2] for text in said if "\nObservation: " in text]
        return [text.partition(_REMINDER)[0] for text in shown]

    def supports_function_calling(self) -> bool:
        """Tell CrewAI which protocol to speak."""
        return self.native

    def call(self, messages: Any, *_: Any, **kwargs: Any) -> Any:
        """Return the next answer, or raise it."""
        with self._lock:
            said = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
            self._asked.append([dict(message) for message in said])
            number = min(len(self._asked), len(self._turns)) - 1
            turn = self._turns[number]
        if isinstance(turn, BaseException):
            raise turn
        if self.stream:
            with llm_call_context():
                self._emit_stream_chunk_event(str(turn), kwargs.get("from_task"), kwargs.get("from_agent"))
        if isinstance(turn, str):
            return turn if self.native else f"Thought: I now know the final answer\nFinal Answer: {turn}"
        if self.native:
            return [_native(f"call_{number}_{index}", *call) for index, call in enumerate(turn)]
        ((tool, arguments),) = turn
        return f"Thought: I call a tool\nAction: {tool}\nAction Input: {json.dumps(dict(arguments))}"

    async def acall(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        """Do as `call` does."""
        return self.call(messages, *args, **kwargs)


def _native(identity: str, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": tool, "arguments": json.dumps(dict(arguments))}
    return {"id": identity, "type": "function", "function": function}
