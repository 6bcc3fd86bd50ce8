"""A process killed at every moment of a run leaves nothing that recovery does not end, and end once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from .inquest import Inquest
from .scene import AT_ONCE, EVERYTHING, Scene, to_die_at

if TYPE_CHECKING:
    from pathlib import Path

    from ..ledger import LedgerProcess  # noqa: TID252 -- the one ledger stands beside this folder
    from .orders import Rescued


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
    [("failing", 4), ("committing", 1), ("half", 4), ("parallel_async", 1), ("half_async", 4)],
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


@pytest.mark.parametrize("remote", ["probed", "keyed"] if EVERYTHING else ["probed"])
def test_whatever_the_moment_of_its_death_a_recoverer_can_be_recovered_from(
    keyed_ledger: LedgerProcess, tmp_path: Path, remote: str
) -> None:
    """The second charge is in doubt when the first recoverer comes; each death has a store of its own."""

    def die_twice(base: int, moment: str) -> list[str]:
        with closing(Scene(keyed_ledger, tmp_path / f"store{base}")) as scene:
            scene.die(scene.victim(base=base, remote=remote, at="charge 2 after"))
            scene.die(scene.rescuer(at=moment))
            rescued = scene.rescue(watch=20.0)
            return Inquest.over(scene.store).wrongs(keyed_ledger.state(), {base: "failing"}, [rescued])

    with closing(Scene(keyed_ledger, tmp_path / "store")) as scene:
        scene.die(scene.victim(base=1, remote=remote, at="charge 2 after"))
        moments = to_die_at(scene.rescue(watch=20.0).moments)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        ends = dict(zip(moments, pool.map(die_twice, range(2, len(moments) + 2), moments), strict=True))
    assert {moment: wrongs for moment, wrongs in ends.items() if wrongs} == {}
