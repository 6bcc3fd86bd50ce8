"""The scenarios that an adapter of any framework must pass."""

from pathlib import Path

import pytest

from saga_core.conformance.adapter import SCENARIOS, Scenario

from .harness import OpenAI, StreamingOpenAI


@pytest.mark.parametrize(
    ("harness", "scenario"),
    [
        pytest.param(harness, scenario, id=f"{harness.name}: {scenario.name}")
        for harness in (OpenAI(), StreamingOpenAI())
        for scenario in SCENARIOS
        if scenario.form in harness.forms
    ],
)
def test_a_scenario_comes_out_as_it_should(harness: OpenAI, scenario: Scenario, tmp_path: Path) -> None:
    scenario.check(harness, tmp_path)
