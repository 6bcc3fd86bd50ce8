"""What every store answers: the public suite over memory, files, and files whose power is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from saga_core.conformance.store import SCENARIOS, Harness, Scenario

from .harnesses import HARNESSES, boot_as_it_is

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _boot() -> Iterator[None]:
    yield
    boot_as_it_is()


@pytest.mark.parametrize(
    ("harness", "scenario"),
    [
        pytest.param(harness, scenario, id=f"{harness.name} {scenario.name}")
        for harness in HARNESSES
        for scenario in SCENARIOS
        if scenario.needs <= harness.abilities and ("power" in scenario.needs) == ("power" in harness.abilities)
    ],
)
def test_a_store_does_what_every_store_must(harness: Harness, scenario: Scenario, tmp_path: Path) -> None:
    scenario.check(harness, tmp_path)


def test_every_scenario_is_played_on_some_store() -> None:
    played = {scenario.name for scenario in SCENARIOS for one in HARNESSES if scenario.needs <= one.abilities}
    assert [scenario.name for scenario in SCENARIOS if scenario.name not in played] == []
