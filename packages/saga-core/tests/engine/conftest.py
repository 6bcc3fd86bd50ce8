from collections.abc import Iterator
from pathlib import Path

import pytest

from saga_core import Store, open_store

from .world import World


@pytest.fixture
def world() -> Iterator[World]:
    """A ledger in which, whatever a test does, nothing is given back that was not made, and nothing twice."""
    found = World()
    yield found
    assert found.violations == []


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store of either kind."""
    found = open_store("memory:" if request.param == "memory" else f"file:{tmp_path / 'store'}")
    yield found
    found.close()


@pytest.fixture
def file_store(tmp_path: Path) -> Iterator[Store]:
    found = open_store(f"file:{tmp_path / 'store'}")
    yield found
    found.close()
