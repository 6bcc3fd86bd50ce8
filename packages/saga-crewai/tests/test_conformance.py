from pathlib import Path

import pytest

from saga_core.conformance.adapter import SCENARIOS, Scenario

from .harness import HARNESSES, CrewHarness

# CrewAI itself refuses a call that its text protocol makes twice in a row: test_tools.py has that.
PLAYED = [
    pytest.param(scenario, harness, id=f"{harness.name}, {scenario.name}")
    for harness in HARNESSES
    for scenario in SCENARIOS
    if not (harness.name == "crewai-text" and scenario.name.startswith("equal calls"))
]


@pytest.mark.parametrize(("scenario", "harness"), PLAYED)
def test_a_crew_keeps_what_every_adapter_promises(scenario: Scenario, harness: CrewHarness, tmp_path: Path) -> None:
    scenario.check(harness, tmp_path)
