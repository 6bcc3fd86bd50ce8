"""Undo for CrewAI: what a crew's tools did is undone when the crew fails.

`saga_tools` makes CrewAI tools of saga_core's actions, and `crew_saga` is the block around the kickoff.
"""

from saga_crewai.crew import crew_saga
from saga_crewai.tools import saga_tools

__all__ = ["crew_saga", "saga_tools"]
