"""A step that failed towards its caller and landed after all: the commit undoes it or asks, it never keeps silent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from .inquest import Inquest
from .orders import Told
from .scene import ended, go_on, said

if TYPE_CHECKING:
    import subprocess

    from .scene import Scene


def gone_on(scene: Scene, **orders: object) -> subprocess.Popen[bytes]:
    """Start a victim whose charge is held until it has gone on without it, and let the charge land then."""
    scene.ledger.fail("hold")
    victim = scene.start(scene.victim(plan="straying", at="gone on", act="pause", **orders))
    said(victim, "gone on")
    scene.ledger.release()
    scene.ledger.wait_until(lambda state: bool(state.charges))
    return victim


def test_a_commit_undoes_a_stray(scene: Scene) -> None:
    victim = gone_on(scene)
    go_on(victim)
    assert msgspec.json.decode(ended(victim), type=Told).state == "committed"
    assert Inquest.over(scene.store).wrongs(scene.ledger.state(), {1: "straying"}) == []


def test_a_commit_that_leaves_strays_to_a_person_tells_one(scene: Scene) -> None:
    victim = gone_on(scene, stray="case")
    go_on(victim)
    ended(victim)
    assert scene.ledger.state().refunds == {}
    assert Inquest.over(scene.store).wrongs(scene.ledger.state(), {1: "straying"}) == []
    (found,) = scene.rescue().passes[0]
    assert (found.outcome, len(found.cases)) == ("needs_human", 1)


@pytest.mark.parametrize(
    ("stray", "then"), [("undo", "write 3 after"), ("case", "write 3 after"), ("case", "write 4 after")]
)
def test_a_stray_whose_result_a_resumed_caller_was_given_is_kept(scene: Scene, stray: str, then: str) -> None:
    gone_on(scene, key="k", stray=stray, then=then).communicate()
    told = scene.live(scene.victim(plan="straying", key="k", stray=stray))
    assert (told.results, told.state) == (["ch_1"], "committed")
    assert list(scene.ledger.state().standing) == ["ch_1"]


def test_a_stray_that_a_kill_left_without_its_case_is_told_all_the_same(scene: Scene) -> None:
    """Killed between the record that it landed and the one that asks a person; the resumed run does not call it."""
    gone_on(scene, key="k", stray="case", then="write 3 after").communicate()
    assert scene.live(scene.victim(plan="idle", key="k", stray="case")).state == "committed"
    assert Inquest.over(scene.store).wrongs(scene.ledger.state(), {1: "straying"}) == []
