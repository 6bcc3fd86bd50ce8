"""The simulation is no rubber stamp: an engine with a planted fault is caught within the seeds that every run has."""

from __future__ import annotations

import pytest

from .controls import FAULTS, planted
from .run import Run
from .seeds import ORDINARY


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught(fault: str) -> None:
    with planted(fault):
        found = (wrong for seed in ORDINARY for wrong in Run(seed).play())
        assert any(FAULTS[fault].verdict in wrong for wrong in found)
