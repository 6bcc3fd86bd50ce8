"""A notice tells a model what stands, without a value of the calls."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, get_args

import pytest

from saga_core import GateRefused, Report, irreversible
from saga_core.adapter.notice import notice_of
from saga_core.report import StepReport
from saga_core.types import StepState

from ..engine.world import World, declare, lose, unique  # noqa: TID252

if TYPE_CHECKING:
    from .conftest import Door


def test_a_notice_says_what_is_undone_what_stands_and_what_nobody_knows(door: Door, world: World) -> None:
    @irreversible(unique("notice.wire"))
    def wire(item: str) -> None:
        raise AssertionError("it was called")

    session = door.begin()
    assert session.notice() == "No recorded action took effect."
    door.charge(session, "call-1", "kept-item")
    door.charge(session, "call-2", "undone-item")
    door.do(session, "unwind", "secret-reason", since="call-2")
    world.after["lost-item"].append(lose)
    with pytest.raises(ConnectionError):
        door.charge(session, "call-3", "lost-item")
    with pytest.raises(GateRefused), session.body("call-4"):
        wire("refused-item")
    action = door.action.name
    assert session.notice() == (
        f"Undone, so no longer in effect: step 2 {action}. "
        f"Refused or failed, so never in effect: step 4 {wire.name}. "
        f"In effect: step 1 {action}. "
        f"Not known, a person or a later check settles it; do not repeat it: step 3 {action}."
    )
    door.do(session, "end", ValueError())


@pytest.mark.parametrize("state", get_args(StepState))
def test_every_state_has_words(state: StepState) -> None:
    steps = (StepReport("billing.charge", state, None, None, "1. billing.charge: told in words"),)
    notice = notice_of(Report("01", "running", steps, (), is_clean=False))
    assert notice.endswith(": step 1 billing.charge.")


def test_declared_money_is_named_with_its_currency(world: World) -> None:
    steps = (StepReport("billing.charge", "undone", Decimal(500), "usd", "3. billing.charge: told in words"),)
    notice = notice_of(Report("01", "rolled_back", steps, (), is_clean=True))
    assert notice == "Undone, so no longer in effect: step 3 billing.charge (500 usd, in minor units)."
    assert declare(world).charge.name not in notice
