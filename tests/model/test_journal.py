"""A barrier's promise is kept by file, journal and directory together; each rule that is taken back breaks it."""

from __future__ import annotations

from typing import get_args

import pytest

from .journal import FRAMES, Fault, lost, states


def test_what_a_barrier_promised_is_found_after_any_loss_of_power() -> None:
    found = states()
    assert not any(lost(disk) for disk in found)
    assert {disk.boot for disk in found} == {1, 2, 3}
    assert any(disk.boot == 3 and disk.replayed and disk.promised == FRAMES for disk in found)


@pytest.mark.parametrize("fault", get_args(Fault))
def test_a_rule_of_the_journal_that_is_taken_back_is_missed(fault: Fault) -> None:
    assert any(lost(disk) for disk in states(fault))
