"""`create_agent` with the middleware; a tool's error is the model's to mend, as it is in the other two frameworks."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType] -- generic in what nobody names
from langchain.agents.middleware import ToolErrorMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from pydantic import PrivateAttr
from script import Said, Turn
from tools import asynchronous, send_wire, synchronous

from saga_langgraph import SagaMiddleware, saga_tools, with_saga

ASKED = {"messages": [{"role": "user", "content": "close the deal"}]}


class Player:
    """A graph's ways to run."""

    def play(self, turns: Sequence[Turn], store: str) -> list[str]:
        return _contents(_agent(turns, store, synchronous).invoke(ASKED))

    async def play_async(self, turns: Sequence[Turn], store: str) -> list[str]:
        return _contents(await _agent(turns, store, asynchronous).ainvoke(ASKED))

    async def play_threads(self, turns: Sequence[Turn], store: str) -> list[str]:
        return _contents(await _agent(turns, store, synchronous).ainvoke(ASKED))

    async def break_off(self, turns: Sequence[Turn], store: str) -> None:
        stream = _agent(turns, store, asynchronous).astream(ASKED)
        async for chunk in stream:
            if "tools" in chunk:
                break
        await stream.aclose()


class Scripted(BaseChatModel):
    """A model that answers by a script."""

    _said: Said = PrivateAttr()

    def __init__(self, turns: Sequence[Turn]) -> None:
        super().__init__()
        self._said = Said(turns)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        return self

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        number, turn = self._said.next()
        calls: Any = () if isinstance(turn, str) else turn
        asked = [
            {"name": name, "args": dict(args), "id": f"call_{number}_{index}"}
            for index, (name, args) in enumerate(calls)
        ]
        message = AIMessage(turn if isinstance(turn, str) else "", tool_calls=asked)
        return ChatResult(generations=[ChatGeneration(message=message)])


def _agent(turns: Sequence[Turn], store: str, tools: Mapping[str, Callable[..., Any]]) -> Any:
    own = [tool(name)(fn) for name, fn in tools.items()]
    agent: Any = create_agent(
        Scripted(turns),
        tools=[*own, *saga_tools(send_wire)],
        middleware=[ToolErrorMiddleware(_told), SagaMiddleware()],
    )
    return with_saga(agent, store=store)


def _told(error: Exception, _: object) -> str:
    return str(error)


def _contents(out: Mapping[str, Any]) -> list[str]:
    return [str(message.content) for message in out["messages"] if message.type == "tool"]
