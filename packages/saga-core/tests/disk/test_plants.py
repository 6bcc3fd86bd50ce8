"""Every fault that is planted into the real code is found, and its case shows it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .exploration import Effort, Explorer, case_of
from .plants import RACE_PLANTS, STORE_PLANTS, TRADE_PLANTS
from .stage import stage
from .test_races import one_race
from .trade import TradeExplorer, program_of
from .witness import Violation

if TYPE_CHECKING:
    from collections.abc import Callable

    Plant = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("plant", STORE_PLANTS, ids=lambda plant: plant.__name__)
def test_a_fault_in_the_store_is_found_and_its_case_shows_it_again(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    search = STORE_PLANTS[plant]
    with stage() as on:
        explorer = Explorer(on)
        explorer.kinds = frozenset({"eio"})
        explorer.befalls = frozenset({"sync_data", "sync_dir"})
        with pytest.raises(Violation, match=search.shows) as found:
            explorer.explore(explorer.program_of(search.program), search.effort)
    with stage() as on, pytest.raises(Violation, match=search.shows):
        Explorer(on).replay(case_of(str(found.value).rsplit("replay: ", 1)[1]))


@pytest.mark.parametrize("plant", RACE_PLANTS, ids=lambda plant: plant.__name__)
def test_a_fault_in_the_locks_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(Violation, match=r"is settled, and was handed out|has two owners"):
        one_race(RACE_PLANTS[plant])


@pytest.mark.parametrize("plant", TRADE_PLANTS, ids=lambda plant: plant.__name__)
def test_a_fault_in_the_engine_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with stage() as on, pytest.raises(Violation, match=r"G[1-5]: "):
        TradeExplorer(on).explore(program_of(f"trade-{TRADE_PLANTS[plant]}"), Effort(crash=16, faulty=0, nested=0))
