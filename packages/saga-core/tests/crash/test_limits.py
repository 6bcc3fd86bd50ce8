"""Disks that are full, read-only or not there: what cannot be logged is not begun, what landed is recovered."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from saga_core.frame import FILE_HEADER

from .inquest import Inquest
from .orders import Told
from .scene import EVERYTHING, ended, go_on, said

if TYPE_CHECKING:
    from .scene import Scene

NOBODY = 65534


@pytest.mark.parametrize("plan", ["committing", "half", "failing_async", *(["failing"] if EVERYTHING else [])])
def test_wherever_the_disk_is_full_the_ledger_nets_to_what_was_committed(scene: Scene, plan: str) -> None:
    scene.live(scene.victim(plan=plan, base=1))
    (whole,) = scene.store.glob("done/*/*.log")
    limits = range(FILE_HEADER, whole.stat().st_size + 40, 7 if EVERYTHING else 89)
    orders = [scene.victim(plan=plan, base=base, limit=limit) for base, limit in enumerate(limits, 2)]
    ends = scene.live_all(orders)
    assert {end.error for end in ends} - {""} <= {"StoreError", "StoreFull", "OutcomeNotLogged", "Hallucinated"}
    rescued = scene.rescue(watch=60.0)
    plans = dict.fromkeys((one.base for one in orders), plan)
    assert Inquest.over(scene.store).wrongs(scene.ledger.state(), plans, [rescued]) == []
    assert list(scene.store.glob("open/*.log")) == []


def test_a_disk_that_has_room_again_lets_the_saga_end_itself(scene: Scene) -> None:
    scene.live(scene.victim(plan="relieved", base=1))
    (whole,) = scene.store.glob("done/*/*.log")
    limits = range(400, whole.stat().st_size, 7 if EVERYTHING else 89)
    orders = [scene.victim(plan="relieved", base=base, limit=limit) for base, limit in enumerate(limits, 2)]
    ends = scene.live_all(orders)
    assert {(end.error, end.state) for end in ends} == {("Hallucinated", "rolled_back")}
    plans = dict.fromkeys((one.base for one in orders), "relieved")
    assert Inquest.over(scene.store).wrongs(scene.ledger.state(), plans) == []


def test_wherever_a_recoverer_finds_the_disk_full_the_next_one_goes_on(scene: Scene) -> None:
    orders = [scene.victim(base=base, at="charge 2 after") for base in range(1, 25 if EVERYTHING else 10)]
    scene.die_all(orders)
    size = max(log.stat().st_size for log in scene.store.glob("open/*.log"))
    outcomes: set[str] = set()
    for number, _ in enumerate(orders):
        (found,) = scene.rescue(wait=5.0, limit=size + number * 61).passes
        outcomes |= {one.outcome for one in found}
    assert "failed" in outcomes
    rescued = scene.rescue(watch=60.0)
    plans = dict.fromkeys((one.base for one in orders), "failing")
    assert Inquest.over(scene.store).wrongs(scene.ledger.state(), plans, [rescued]) == []


def test_a_log_that_was_deleted_lets_no_further_effect_start(scene: Scene) -> None:
    victim = scene.start(scene.victim(plan="committing", at="write 5 before", act="pause"))
    said(victim, "write 5 before")
    (log,) = scene.store.glob("open/*.log")
    log.unlink()
    go_on(victim)
    assert msgspec.json.decode(ended(victim), type=Told).error == "StoreError"
    assert list(scene.ledger.state().charges.values()) == [11]
    assert scene.ledger.state().refunds == {}


def test_a_saga_that_could_not_begin_leaves_nothing_behind(scene: Scene) -> None:
    scene.live(scene.victim(base=1))
    end = scene.live(scene.victim(plan="retrying", base=2, limit=FILE_HEADER + 8))
    assert end.results == ["StoreError", "StoreError", "StoreError", "0 descriptors more", "committed"]
    assert list(scene.store.glob("open/*")) == []


def test_a_saga_that_could_not_be_resumed_can_be_once_there_is_room(scene: Scene) -> None:
    scene.die(scene.victim(plan="resume", key="k", at="charge 2 before"))
    (log,) = scene.store.glob("open/*.log")
    end = scene.live(scene.victim(plan="retrying", key="k", limit=log.stat().st_size + 8))
    assert end.results == ["StoreError", "StoreError", "StoreError", "0 descriptors more", "committed"]


@pytest.mark.parametrize("what", ["the store", "its open sagas"])
def test_a_store_that_may_not_be_written_refuses_and_nothing_is_called(scene: Scene, what: str) -> None:
    scene.live(scene.victim(base=1))
    for parent in scene.store.parents[:3]:
        parent.chmod(0o755)
    scene.store.chmod(0o755)
    for path in scene.store.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    if what == "the store":
        (scene.store / "open").chmod(0o777)
        (scene.store / "open").rename(scene.store / "elsewhere")
    end = scene.live(scene.victim(base=2, user=NOBODY))
    assert end.error == "StoreError"
    assert [amount for amount in scene.ledger.state().charges.values() if amount // 10 == 2] == []


def test_missing_parents_are_made(scene: Scene) -> None:
    deep = scene.store / "a" / "b"
    end = scene.live(scene.victim(base=1, plan="committing", store=str(deep)))
    assert (end.state, len(list(Path(deep).glob("done/*/*.log")))) == ("committed", 1)


def test_a_parent_that_is_a_file_refuses_and_nothing_is_called(scene: Scene) -> None:
    scene.store.parent.mkdir(exist_ok=True)
    scene.store.write_text("in the way")
    end = scene.live(scene.victim(base=1, store=os.fspath(scene.store / "below")))
    assert end.error == "StoreError"
    assert scene.ledger.state().charges == {}
