from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from ..ledger import LedgerProcess  # noqa: TID252 -- the one ledger stands beside this folder
from .scene import Scene

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def ledger() -> Iterator[LedgerProcess]:
    """A remote that knows no keys: each refund that is sent takes effect."""
    with LedgerProcess(keyed=False) as process:
        yield process


@pytest.fixture
def keyed_ledger() -> Iterator[LedgerProcess]:
    with LedgerProcess() as process:
        yield process


@pytest.fixture
def scene(ledger: LedgerProcess, tmp_path: Path) -> Iterator[Scene]:
    with closing(Scene(ledger, tmp_path / "sagas")) as scene:
        yield scene


@pytest.fixture
def keyed_scene(keyed_ledger: LedgerProcess, tmp_path: Path) -> Iterator[Scene]:
    with closing(Scene(keyed_ledger, tmp_path / "sagas")) as scene:
        yield scene
