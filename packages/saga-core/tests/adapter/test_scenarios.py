"""The scenarios pass on the reference adapter."""

from pathlib import Path

import pytest

from saga_core.conformance.adapter import SCENARIOS, Scenario

from .reference import Reference


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_reference_adapter_does_what_every_adapter_must(scenario: Scenario, tmp_path: Path) -> None:
    scenario.check(Reference(), tmp_path)
