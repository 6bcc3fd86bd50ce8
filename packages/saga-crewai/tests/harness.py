"""CrewAI behind the adapter, as a user sets it up: once with calls as an API makes them, once in CrewAI's text."""

import asyncio
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from crewai import Agent, Crew, Task
from pydantic import PrivateAttr

from saga_core import Action, AsyncAction, Store
from saga_core.conformance.adapter import Form, Played, Script, Turn
from saga_crewai import crew_saga, saga_tools
from saga_crewai.testing import ScriptedLLM

Tools = Sequence[Action[..., Any] | AsyncAction[..., Any]]


class Hesitant(ScriptedLLM):
    """A model that streams its second answer and is not done with it before it is told to go on."""

    _go_on: asyncio.Event = PrivateAttr(default_factory=asyncio.Event)

    @property
    def go_on(self) -> asyncio.Event:
        """Set it to have the answer ended."""
        return self._go_on

    async def acall(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        answer = await super().acall(messages, *args, **kwargs)
        if len(self.asked) > 1:
            await self._go_on.wait()
        return answer


class CrewHarness:
    """A crew of one clerk."""

    def __init__(self, name: str, *, native: bool) -> None:
        self.name = name
        self.forms: AbstractSet[Form] = frozenset({"sync", "async", "stream"})
        self._native = native

    def play(self, script: Script, actions: Tools, store: Store | str | None, key: str | None) -> Played:
        crew, model = self._crew(script.turns, actions)
        with crew_saga("conformance", key=key, store=store):
            answer = crew.kickoff()
        return Played(str(answer), model.seen)

    async def play_async(self, script: Script, actions: Tools, store: Store | str | None, key: str | None) -> Played:
        crew, model = self._crew(script.turns, actions)
        async with crew_saga("conformance", key=key, store=store):
            answer = await crew.akickoff()
        return Played(str(answer), model.seen)

    async def break_off(self, script: Script, actions: Tools, store: Store | str | None, key: str | None) -> None:
        crew, model = self._crew(script.turns, actions, Hesitant, stream=True)
        async with crew_saga("conformance", key=key, store=store):
            stream = await crew.akickoff()
            async for _ in stream:
                if len(model.asked) > 1:  # the model was shown the first result, and its answer to it is streamed
                    break
        model.go_on.set()

    def _crew(
        self, turns: Sequence[Turn], actions: Tools, model: type[ScriptedLLM] = ScriptedLLM, **options: Any
    ) -> tuple[Any, Any]:
        said = [
            turn if isinstance(turn, (str, BaseException)) else [(call.tool, call.args) for call in turn]
            for turn in turns
        ]
        asked = model(said, native=self._native)
        clerk = Agent(role="clerk", goal="g", backstory="b", llm=asked, tools=saga_tools(*actions), max_retry_limit=0)
        task = Task(description="settle the order", expected_output="done", agent=clerk)
        return Crew(agents=[clerk], tasks=[task], **options), asked


HARNESSES = [CrewHarness("crewai", native=True), CrewHarness("crewai-text", native=False)]
