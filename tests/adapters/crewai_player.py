"""A crew of one clerk inside `crew_saga`; CrewAI calls every tool in a thread."""

from collections.abc import Sequence
from typing import Any

from crewai import Agent, Crew, Task
from crewai.tools import tool
from script import Turn
from tools import send_wire, synchronous

from saga_crewai import crew_saga, saga_tools
from saga_crewai.testing import ScriptedLLM


class Player:
    """A crew's ways to run."""

    def play(self, turns: Sequence[Turn], store: str) -> list[str]:
        crew, model = _crew(turns)
        with crew_saga("close-deal", store=store):
            crew.kickoff()
        return model.seen

    async def play_async(self, turns: Sequence[Turn], store: str) -> list[str]:
        crew, model = _crew(turns)
        async with crew_saga("close-deal", store=store):
            await crew.akickoff()
        return model.seen

    async def play_threads(self, turns: Sequence[Turn], store: str) -> list[str]:
        crew, model = _crew(turns)
        async with crew_saga("close-deal", store=store):
            await crew.kickoff_async()
        return model.seen

    async def break_off(self, turns: Sequence[Turn], store: str) -> None:
        crew, model = _crew(turns, stream=True)
        async with crew_saga("close-deal", store=store):
            async for _ in await crew.akickoff():
                if model.seen:
                    break


def _crew(turns: Sequence[Turn], **options: Any) -> tuple[Any, ScriptedLLM]:
    model = ScriptedLLM(turns)
    own = [tool(name)(fn) for name, fn in synchronous.items()]
    clerk = Agent(
        role="clerk", goal="close", backstory="b", llm=model, tools=[*own, *saga_tools(send_wire)], max_retry_limit=0
    )
    task = Task(description="close the deal", expected_output="done", agent=clerk)
    return Crew(agents=[clerk], tasks=[task], **options), model
