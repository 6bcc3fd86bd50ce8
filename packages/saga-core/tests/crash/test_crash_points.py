"""A process killed at every moment of a run leaves nothing that recovery does not end, and end once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pytest

from ..ledger import LedgerProcess  # noqa: TID252 -- the one ledger stands beside this folder
from .inquest import Inquest
from .scene import AT_ONCE, EVERYTHING, Scene, to_die_at

if TYPE_CHECKING:
    from pathlib import Path


NEEDS_A_PERSON = {"blind", "unbound"}
"""Remotes of which some crash leaves a doubt, or some landing no undo, that no program can settle."""


class Sweep(NamedTuple):
    """A plan that is killed at each of its moments, against a remote, and how many recoverers come then."""

    plan: str
    remote: str = "probed"
    rescuers: int = 1
    is_keyed: bool = False
    is_torn: bool = False


@pytest.mark.parametrize(
    "sweep",
    [
        Sweep("failing", rescuers=4, is_torn=True),
        Sweep("committing", is_torn=True),
        Sweep("half", "keyed", rescuers=4, is_keyed=True),
        Sweep("failing", "unasked", is_keyed=True),
        Sweep("failing", "blind"),
        Sweep("failing", "pending", rescuers=4),
        Sweep("half", "unbound"),
        Sweep("nested"),
        Sweep("holding", rescuers=4, is_torn=True),
        Sweep("holding", "replayed", is_keyed=True),
        Sweep("holding", "blind"),
        Sweep("holding_async", rescuers=4),
        Sweep("unholding"),
        Sweep("parallel_async"),
        Sweep("half_async", rescuers=4, is_torn=True),
    ],
    ids=lambda sweep: f"{sweep.plan}-{sweep.remote}",
)
def test_whatever_the_moment_of_death_the_ledger_nets_to_what_was_committed(tmp_path: Path, sweep: Sweep) -> None:
    with LedgerProcess(keyed=sweep.is_keyed) as ledger, closing(Scene(ledger, tmp_path / "sagas")) as scene:
        like = scene.victim(plan=sweep.plan, remote=sweep.remote)
        moments = scene.moments(like, is_torn=sweep.is_torn)
        orders = [msgspec.structs.replace(like, base=base, at=moment) for base, moment in enumerate(moments, 2)]
        scene.die_all(orders)
        rescues = (
            [scene.rescue(watch=60.0, wait=0.0)]
            if sweep.rescuers == 1
            else scene.rescue_at_once(sweep.rescuers, watch=60.0)
        )
        plans = dict.fromkeys((one.base for one in orders), sweep.plan)
        inquest = Inquest.over(scene.store)
        assert inquest.wrongs(ledger.state(), plans, rescues) == [], dict(enumerate(moments, 2))
        assert bool(inquest.unsettled) == (sweep.remote in NEEDS_A_PERSON), inquest.unsettled
        files, world = scene.files(), ledger.state()
        again = scene.rescue(watch=1.0)
        assert [one for found in again.passes for one in found if one.outcome != "needs_human"] == []
        assert scene.files() == files
        assert (ledger.state().charges, ledger.state().refunds) == (world.charges, world.refunds)


@pytest.mark.parametrize(
    ("plan", "remote"), [("failing", "probed"), *([("failing", "keyed"), ("failing", "pending")] if EVERYTHING else [])]
)
def test_whatever_the_moment_of_its_death_a_recoverer_can_be_recovered_from(
    keyed_ledger: LedgerProcess, tmp_path: Path, plan: str, remote: str
) -> None:
    """The second charge is in doubt when the first recoverer comes; each death has a store of its own."""

    def die_twice(base: int, moment: str) -> list[str]:
        with closing(Scene(keyed_ledger, tmp_path / f"store{base}")) as scene:
            scene.die(scene.victim(plan=plan, base=base, remote=remote, at="charge 2 after"))
            scene.die(scene.rescuer(at=moment))
            rescued = scene.rescue(watch=20.0)
            return Inquest.over(scene.store).wrongs(keyed_ledger.state(), {base: plan}, [rescued])

    moments = moments_of_a_recovery(keyed_ledger, tmp_path, plan, remote)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        ends = dict(zip(moments, pool.map(die_twice, range(2, len(moments) + 2), moments), strict=True))
    assert {moment: wrongs for moment, wrongs in ends.items() if wrongs} == {}


@pytest.mark.parametrize("plan", ["failing", "failing_async"] if EVERYTHING else ["failing_async"])
def test_whatever_the_moment_of_its_interruption_a_recoverer_goes_on_in_its_next_pass(
    keyed_ledger: LedgerProcess, tmp_path: Path, plan: str
) -> None:
    def go_on(base: int, moment: str) -> list[str]:
        with closing(Scene(keyed_ledger, tmp_path / f"store{base}")) as scene:
            scene.die(scene.victim(plan=plan, base=base, at="charge 2 after"))
            rescued = scene.rescue(at=moment, act="interrupt", watch=20.0)
            outcomes = [one.outcome for one in rescued.passes[-1] if one.outcome != "settled"]
            return outcomes + Inquest.over(scene.store).wrongs(keyed_ledger.state(), {base: plan}, [rescued])

    moments = [at for at in moments_of_a_recovery(keyed_ledger, tmp_path, plan, "probed") if "torn" not in at]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        ends = dict(zip(moments, pool.map(go_on, range(2, len(moments) + 2), moments), strict=True))
    assert {moment: wrongs for moment, wrongs in ends.items() if wrongs} == {}


def moments_of_a_recovery(ledger: LedgerProcess, place: Path, plan: str, remote: str) -> list[str]:
    """Recover a saga whose second charge is in doubt, and return the moments that the recoverer passed."""
    with closing(Scene(ledger, place / "store")) as scene:
        scene.die(scene.victim(plan=plan, base=1, remote=remote, at="charge 2 after"))
        return to_die_at(scene.rescue(watch=20.0).moments)


def test_a_recoverer_undoes_the_newest_first(scene: Scene) -> None:
    scene.die(scene.victim(at="write 6 after"))
    scene.rescue()
    assert list(scene.ledger.state().refunds.values()) == ["ch_2", "ch_1"]
