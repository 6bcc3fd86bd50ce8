"""What recovery cannot run, or what kills it, costs no other saga anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from saga_core.plan import MAX_TRIALS

from .inquest import Inquest

if TYPE_CHECKING:
    from .scene import Scene


@pytest.mark.parametrize(
    ("remote", "at", "lacks"),
    [
        ("probed", "charge 1 after", "everything"),
        ("probed", "charge 1 after", "actions"),
        ("probed", "write 4 before", "inverses"),
        ("probed", "refund 1 after", "inverses"),
        ("unasked", "charge 1 after", "actions"),
        ("unasked", "charge 1 after", "inverses"),
    ],
)
def test_what_a_process_lacks_it_neither_claims_nor_changes(scene: Scene, remote: str, at: str, lacks: str) -> None:
    scene.die(scene.victim(remote=remote, at=at))
    files = scene.files()
    (found,) = scene.rescue(lacks=lacks).passes[0]
    assert found.outcome == "no_handler"
    assert "bank." in found.words
    assert scene.files() == files
    (found,) = scene.rescue(watch=20.0).passes[-1]
    assert found.outcome == "settled"
    assert Inquest.over(scene.store).wrongs(scene.ledger.state(), {1: "failing"}) == []


def test_a_committed_saga_needs_no_handlers(scene: Scene) -> None:
    scene.die(scene.victim(plan="committing", at="move 1 before"))
    (found,) = scene.rescue(lacks="everything").passes[0]
    assert found.outcome == "settled"
    assert Inquest.over(scene.store).wrongs(scene.ledger.state(), {1: "committing"}) == []


@pytest.mark.parametrize("remote", ["probed", "keyed"])
def test_an_undo_that_kills_its_process_ends_as_a_case_and_blocks_no_other_saga(
    keyed_scene: Scene, remote: str
) -> None:
    scene = keyed_scene
    scene.die(scene.victim(remote=remote, base=1, at="write 6 after"))
    scene.die(scene.victim(remote=remote, base=2, at="write 6 after"))
    deadly = scene.rescuer(at="giving back ch_2", watch=20.0)
    for _ in range(MAX_TRIALS + 2):
        rescuer = scene.start(deadly)
        rescuer.communicate()
        if not rescuer.returncode:
            break
    inquest = Inquest.over(scene.store)
    assert inquest.wrongs(scene.ledger.state(), {1: "failing", 2: "failing"}) == []
    (second,) = inquest.bodies[2]
    assert second.is_settled
