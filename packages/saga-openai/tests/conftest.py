import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from saga_core.conformance.adapter.ledger import Ledger, told_of


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """The world of the scenarios' tools, in which nothing is ever undone twice or without having landed."""
    with told_of(tmp_path / "ledger") as found:
        yield found
        assert found.violations == []


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"file:{tmp_path / 'store'}"


@pytest.fixture
def thread_loop() -> Iterator[None]:
    """Close the loop that the SDK leaves open for the thread's next synchronous run."""
    yield
    asyncio.get_event_loop().close()
