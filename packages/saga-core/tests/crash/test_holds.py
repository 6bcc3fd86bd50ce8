"""A process killed around its commit sends each held effect once, or says that nobody can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .inquest import Inquest

if TYPE_CHECKING:
    from .scene import Scene

COMMIT, FIRST_RELEASE, SECOND_RELEASE = "write 8", "write 9", "write 11"
"""Behind the beginning, intent and outcome of a charge, a hold, and a savepoint around another one."""


def amounts(scene: Scene) -> list[int]:
    """Return what the ledger was charged and nobody gave back."""
    return list(scene.ledger.state().standing.values())


@pytest.mark.parametrize(
    ("moment", "before", "after"),
    [
        (f"{COMMIT} before", [11], []),
        (f"{FIRST_RELEASE} before", [11], [11, 12, 13]),
        ("charge 2 before", [11], [11, 12, 13]),
        ("charge 2 after", [11, 12], [11, 12, 13]),
        (f"{SECOND_RELEASE} before", [11, 12], [11, 12, 13]),
    ],
    ids=["before-the-commit", "behind-it", "released", "sent", "between-two"],
)
@pytest.mark.parametrize("plan", ["holding", "holding_async"])
def test_recovery_finishes_what_was_committed_and_sends_nothing_else(
    scene: Scene, plan: str, moment: str, before: list[int], after: list[int]
) -> None:
    scene.die(scene.victim(plan=plan, at=moment))
    assert amounts(scene) == before
    rescued = scene.rescue_at_once(2, watch=20.0)
    assert amounts(scene) == after
    assert Inquest.over(scene.store).wrongs(scene.ledger.state(), {1: plan}, rescued) == []
    assert Inquest.over(scene.store).unsettled == []


def test_the_key_of_a_hold_in_doubt_lets_it_be_sent_again(keyed_scene: Scene) -> None:
    keyed_scene.die(keyed_scene.victim(plan="holding", remote="replayed", at="charge 2 after"))
    keyed_scene.rescue(watch=20.0)
    assert amounts(keyed_scene) == [11, 12, 13]
    keys = keyed_scene.ledger.state().sent("charge")
    assert (len(keys), len(set(keys))) == (4, 3)


@pytest.mark.parametrize(("moment", "sent"), [("charge 2 before", [11]), ("charge 2 after", [11, 12])])
def test_in_doubt_without_key_and_probe_it_is_never_sent_again(scene: Scene, moment: str, sent: list[int]) -> None:
    scene.die(scene.victim(plan="holding", remote="blind", at=moment))
    scene.rescue()
    rescued = scene.rescue()
    assert amounts(scene) == sent
    inquest = Inquest.over(scene.store)
    assert inquest.unsettled == [1]
    assert inquest.wrongs(scene.ledger.state(), {1: "holding"}, [rescued]) == []


def test_recovery_without_the_function_leaves_the_holds_to_who_has_it(scene: Scene) -> None:
    scene.die(scene.victim(plan="holding", at=f"{FIRST_RELEASE} before"))
    (one,) = scene.rescue(lacks="actions").passes[-1]
    assert one.outcome == "no_handler"
    assert "bank.mail" in one.words
    assert amounts(scene) == [11]
    scene.rescue(watch=20.0)
    assert amounts(scene) == [11, 12, 13]


def test_a_release_that_was_not_written_is_caught(scene: Scene) -> None:
    """The negative control: without the record that it may have been sent, it is sent twice."""
    scene.die(scene.victim(plan="holding", at="charge 2 after", faults=("no_release",)))
    scene.rescue(watch=20.0)
    assert [
        wrong for wrong in Inquest.over(scene.store).wrongs(scene.ledger.state(), {1: "holding"}) if "twice" in wrong
    ]
