"""`saga recover` finds the connectors' handlers by itself."""

import os
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from saga_connectors.demo.world import LocalWorld
from saga_core.demo.acts import AMOUNT, Holdings

from .terminal import saga, saga_without

LEFT = Holdings(AMOUNT, 1, 0, "Won", rows_restored=False, wires=0)
RECOVERED = Holdings(0, 1, 1, "New", rows_restored=True, wires=0)


@pytest.fixture
def store(world: LocalWorld, tmp_path: Path) -> str:
    """The store of an agent that was killed after its charge had landed."""
    url = f"file:{tmp_path / 'store'}"
    world.withhold_answer()
    with subprocess.Popen(world.agent, env={**os.environ, "SAGA_STORE": url}) as agent:
        while not world.has_charged(timedelta(seconds=1)):
            assert agent.poll() is None
        agent.kill()
    assert world.read_back() == LEFT
    return url


def test_without_an_extra_its_sagas_are_left_alone_and_with_it_they_are_recovered(
    world: LocalWorld, store: str
) -> None:
    lacking = saga_without("asyncpg", "recover", "--store", store)
    assert lacking.returncode == 4
    assert "the actions of 'saga_connectors.postgres' are left out" in lacking.stderr
    assert "without their handlers here" in lacking.stdout
    assert world.read_back() == LEFT
    done = saga("recover", "--store", store)
    assert done.returncode == 0
    assert "left out" not in done.stderr
    assert "3 of 3 effects undone" in done.stdout
    assert world.read_back() == RECOVERED
