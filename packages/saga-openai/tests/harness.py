"""The SDK as a user sets it up, for the scenarios that every adapter plays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agents import Agent

from saga_core.conformance.adapter import Form, Played, Script
from saga_core.conformance.adapter.script import Turn
from saga_openai import SagaRunner, saga_tools

from .scripted import QUIET, ScriptedModel, agent, own_loop

if TYPE_CHECKING:
    from saga_core import Store
    from saga_core.conformance.adapter.script import Tool


class OpenAI:
    """`SagaRunner` over an agent whose tools are actions."""

    def __init__(self) -> None:
        self.name = "openai-agents"
        self.forms: frozenset[Form] = frozenset({"sync", "async", "stream"})

    def play(self, script: Script, actions: Sequence[Tool], store: Store | str | None, key: str | None) -> Played:
        model, clerk = _set_up(script, actions)
        with own_loop():
            result = SagaRunner.run_sync(clerk, "go", **_terms(store, key))
        return Played(result.final_output, model.seen)

    async def play_async(
        self, script: Script, actions: Sequence[Tool], store: Store | str | None, key: str | None
    ) -> Played:
        model, clerk = _set_up(script, actions)
        result = await SagaRunner.run(clerk, "go", **_terms(store, key))
        return Played(result.final_output, model.seen)

    async def break_off(
        self, script: Script, actions: Sequence[Tool], store: Store | str | None, key: str | None
    ) -> None:
        _, clerk = _set_up(script, actions)
        async with SagaRunner.stream(clerk, "go", **_terms(store, key)) as result:
            async for event in result.stream_events():
                if event.type == "run_item_stream_event" and event.name == "tool_output":
                    break


class StreamingOpenAI(OpenAI):
    """The same, each asynchronous run a stream that is listened to until its end."""

    def __init__(self) -> None:
        self.name = "openai-agents, streamed"
        self.forms: frozenset[Form] = frozenset({"async"})

    async def play_async(
        self, script: Script, actions: Sequence[Tool], store: Store | str | None, key: str | None
    ) -> Played:
        model, clerk = _set_up(script, actions)
        async with SagaRunner.stream(clerk, "go", **_terms(store, key)) as result:
            async for _ in result.stream_events():
                pass
        return Played(result.final_output, model.seen)


def _set_up(script: Script, actions: Sequence[Tool]) -> tuple[ScriptedModel, Agent[Any]]:
    model = ScriptedModel(*map(_turn, script.turns))
    return model, agent(model, saga_tools(*actions))


def _turn(turn: Turn) -> Any:
    if isinstance(turn, str | BaseException):
        return turn
    return [(call.tool, call.args) for call in turn]


def _terms(store: Store | str | None, key: str | None) -> Any:
    return {"store": store, "key": key, "run_config": QUIET}
