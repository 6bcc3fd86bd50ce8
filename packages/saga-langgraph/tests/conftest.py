from collections.abc import Iterator
from pathlib import Path

import pytest

from .world import Ledger, use


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """A ledger in which nothing is given back twice, and no key is used for two effects."""
    found = Ledger(tmp_path / "ledger")
    use(found)
    yield found
    keys = [(what, key) for what, _, key in found.lines()]
    assert len(keys) == len(set(keys))


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"file:{tmp_path / 'store'}"
