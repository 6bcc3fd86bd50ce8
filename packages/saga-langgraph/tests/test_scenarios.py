"""The scenarios that every adapter must pass."""

from pathlib import Path

import pytest

from saga_core.conformance.adapter import SCENARIOS, Harness, Scenario

from .harness import Agents, Nodes


@pytest.mark.parametrize("harness", [Agents(), Nodes()], ids=lambda harness: harness.name)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_langgraph_does_what_every_adapter_must(scenario: Scenario, harness: Harness, tmp_path: Path) -> None:
    scenario.check(harness, tmp_path)
