"""The vendors of the demo, started once, and the world that is made of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from saga_connectors.demo.world import LocalWorld, open_world


@pytest.fixture(scope="session")
def opened_world() -> Iterator[LocalWorld]:
    with open_world(Path()) as opened:
        yield opened


@pytest.fixture
def world(opened_world: LocalWorld) -> LocalWorld:
    """A world as new."""
    opened_world.prepare()
    return opened_world
