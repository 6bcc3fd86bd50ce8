"""A process killed at every moment of a run leaves nothing that recovery does not end, and end once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .inquest import Inquest

if TYPE_CHECKING:
    from .orders import Rescued
    from .scene import Scene


def kill_everywhere(scene: Scene, plan: str, remote: str) -> dict[int, str]:
    """Kill a run at each of its moments, all in one store; return the plans by base."""
    moments = scene.moments(scene.victim(plan=plan, remote=remote))
    orders = [scene.victim(plan=plan, remote=remote, base=base, at=moment) for base, moment in enumerate(moments, 2)]
    scene.die_all(orders)
    return {1: plan} | dict.fromkeys((one.base for one in orders), plan)


def rescue_everything(scene: Scene, rescuers: int) -> list[Rescued]:
    if rescuers == 1:
        return [scene.rescue(watch=60.0, wait=0.0)]
    return scene.rescue_at_once(rescuers, watch=60.0)


@pytest.mark.parametrize(
    ("plan", "rescuers"),
    [("failing", 4), ("committing", 1), ("half", 4), ("failing_async", 1), ("half_async", 4)],
)
def test_whatever_the_moment_of_death_the_ledger_nets_to_what_was_committed(
    scene: Scene, plan: str, rescuers: int
) -> None:
    plans = kill_everywhere(scene, plan, "probed")
    rescues = rescue_everything(scene, rescuers)
    assert Inquest.over(scene.store).wrongs(scene.ledger.state(), plans, rescues) == []
    files, world = scene.files(), scene.ledger.state()
    again = scene.rescue(watch=1.0)
    assert [one for found in again.passes for one in found if one.outcome != "needs_human"] == []
    assert scene.files() == files
    assert scene.ledger.state().charges == world.charges
    assert scene.ledger.state().refunds == world.refunds
