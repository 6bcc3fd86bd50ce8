"""A crew of one agent and one task, native tool calls."""

from collections.abc import Callable
from typing import Any

from crewai import Agent, Crew, Task
from crewai.events import crewai_event_bus
from crewai.tools import tool

from benchmarks.adapters.actions import CALLS, charge_sync
from saga_crewai import crew_saga, saga_tools
from saga_crewai.testing import ScriptedLLM


@tool("charge_sync")
def plain(amount: int) -> str:
    """Charge an amount."""
    return f"ch_{amount}"


def _kickoff(tools: list[Any]) -> None:
    turns = [*([("charge_sync", {"amount": number})] for number in range(CALLS)), "done"]
    clerk = Agent(role="clerk", goal="g", backstory="b", llm=ScriptedLLM(turns), tools=tools, max_iter=CALLS + 2)
    crew: Any = Crew(agents=[clerk], tasks=[Task(description="charge", expected_output="done", agent=clerk)])
    crew.kickoff()
    crewai_event_bus.flush()  # what the run has left to do in the background is part of it


def contenders(store: str) -> dict[str, Callable[[], object]]:
    """Return the plain run and the wrapped one."""
    tools = saga_tools(charge_sync)

    def wrapped() -> None:
        with crew_saga("benchmark", store=store):
            _kickoff([*tools])

    return {"crewai_plain": lambda: _kickoff([plain]), "crewai_wrapped": wrapped}
