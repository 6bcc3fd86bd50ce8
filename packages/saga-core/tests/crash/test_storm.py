"""Many processes, many sagas, one store: killed anywhere, recovered by several at once."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import msgspec

from .inquest import Inquest
from .orders import Rescued
from .scene import ended

if TYPE_CHECKING:
    from .scene import Scene

PROCESSES = 8
SAGAS = 20
"""About how many each process gets through before it is killed; one takes three requests."""
PLANS = ("failing", "committing", "half")


def test_eight_processes_killed_at_random_leave_what_they_committed(scene: Scene) -> None:
    seed = int(os.environ.get("SAGA_STORM_SEED", "0")) or random.randrange(1, 10**6)
    chance = random.Random(seed)
    bases = [1000 * number for number in range(1, PROCESSES + 1)]
    victims = [scene.start(scene.victim(plan="storm", base=base)) for base in bases]
    chance.shuffle(victims)
    for requests in sorted(chance.sample(range(PROCESSES * 3, PROCESSES * SAGAS * 3), PROCESSES)):
        scene.ledger.wait_until(lambda state, enough=requests: len(state.requests) >= enough, seconds=60.0)
        victim = victims.pop()
        victim.kill()
        victim.communicate()
    rescues = scene.rescue_at_once(4, watch=60.0)
    plans = {base + number: PLANS[number % 3] for base in bases for number in range(999)}
    assert Inquest.over(scene.store).wrongs(scene.ledger.state(), plans, rescues) == [], f"SAGA_STORM_SEED={seed}"
    assert list(scene.store.glob("open/*.log")) == []


def test_processes_that_contend_for_keys_and_are_killed_and_recovered_charge_once(scene: Scene) -> None:
    """Sixty keys, six processes that resume them, two recoverers without grace, and deaths at random."""
    seed = int(os.environ.get("SAGA_STORM_SEED", "0")) or random.randrange(1, 10**6)
    chance = random.Random(seed)
    victims = [scene.start(scene.victim(plan="contending", base=100)) for _ in range(6)]
    recoverers = [scene.start(scene.rescuer(watch=3.0, stays=True)) for _ in range(2)]
    for requests in sorted(chance.sample(range(6, 90), len(victims))):
        scene.ledger.wait_until(lambda state, enough=requests: len(state.requests) >= enough, seconds=60.0)
        victim = victims.pop()
        victim.kill()
        victim.communicate()
    rescues = [msgspec.json.decode(ended(process), type=Rescued) for process in recoverers]
    rescues += scene.rescue_at_once(2, watch=60.0)
    plans = dict.fromkeys(range(100, 160), "resume")
    assert Inquest.over(scene.store).wrongs(scene.ledger.state(), plans, rescues) == [], f"SAGA_STORM_SEED={seed}"
    assert list(scene.store.glob("open/*.log")) == []


def test_a_child_forked_inside_a_scope_neither_acts_nor_keeps_the_saga(scene: Scene) -> None:
    victim = scene.start(scene.victim(plan="forking"))
    assert victim.stdout is not None
    assert victim.stdout.readline() == b"SagaForked\n"
    assert [one.outcome for one in scene.rescue().passes[0]] == ["owned"]
    victim.kill()
    victim.wait()
    (found,) = scene.rescue(watch=20.0).passes[-1]
    assert found.outcome == "settled"
    world = scene.ledger.state()
    assert list(world.charges.values()) == [11]
    assert Inquest.over(scene.store).wrongs(world, {1: "forking"}) == []
