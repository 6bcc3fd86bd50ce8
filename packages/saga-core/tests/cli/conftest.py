from collections.abc import Callable
from pathlib import Path

import pytest

from .desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A desk at which a saga was committed, one rolled back, one refused a wire, one was left by a killed process."""
    desk = Desk(tmp_path_factory.mktemp("story"))
    desk.python('with saga_scope("kept", tags={"team": "sales"}): charge(1_00)')
    desk.python('with saga_scope("failed"):\n charge(1_00)\n charge(2_00, note="two")\n raise ValueError("bad field")')
    desk.python('with saga_scope("refused"):\n charge(3_00)\n wire(4_00)')
    desk.kill('with saga_scope("killed", key="order-17"):\n charge(5_00)\n stuck(6_00)')
    return desk


@pytest.fixture
def make_desk(tmp_path: Path) -> Callable[[str], Desk]:
    def make(name: str) -> Desk:
        folder = tmp_path / name
        folder.mkdir()
        return Desk(folder)

    return make
