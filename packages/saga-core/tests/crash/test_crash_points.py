"""A process killed at every moment of a run leaves nothing that recovery does not end, and end once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from saga_core.frame import FRAME_COST

from .inquest import Inquest

if TYPE_CHECKING:
    from .orders import Rescued
    from .scene import Scene


EVERYTHING = "SAGA_CRASH_SWEEP" in os.environ
"""Die at moments too that the file cannot tell from their neighbours: behind each write, around each barrier."""


def moments_of(scene: Scene, plan: str, remote: str) -> list[str]:
    """Return the moments at which a run of the plan is to be killed, torn writes included."""
    moments: list[str] = []
    for moment in scene.live(scene.victim(plan=plan, remote=remote, base=1)).moments:
        event, number, when = moment.split()[:3]
        if event == "sync" and (plan.endswith("_async") or not EVERYTHING):
            continue  # and a loop does not wait for what is proven already: it passes the moment or does not
        if event != "write" or when == "before" or EVERYTHING:
            moments.append(f"{event} {number} {when}")
        if event == "write" and when == "after":
            cuts = range(1, FRAME_COST, 7) if EVERYTHING else [1 + int(number) * 5]
            moments += [f"write {number} torn at {cut}" for cut in cuts]
    return moments


def kill_everywhere(scene: Scene, plan: str, remote: str) -> dict[int, str]:
    """Kill a run at each of its moments, all in one store; return the plans by base."""
    moments = moments_of(scene, plan, remote)
    scene.die_all(
        scene.victim(plan=plan, remote=remote, base=base, at=moment) for base, moment in enumerate(moments, 2)
    )
    return dict.fromkeys(range(1, len(moments) + 2), plan)


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
