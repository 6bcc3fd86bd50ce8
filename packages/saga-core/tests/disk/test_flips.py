"""One damaged byte, wherever it is: the exact history, a torn end dropped, or a case. Never another history."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from saga_core import frame
from saga_core.stores import copies

from .exploration import Explorer
from .flips import MASKS, check, committed, flipped, journal_flips, lost_sectors, read, sample, unsynced_end
from .machine import Machine
from .programs import Program, long_records
from .stage import stage
from .witness import Violation

if TYPE_CHECKING:
    from collections.abc import Callable

    from .programs import Play


@pytest.mark.parametrize("same_boot", [True, False], ids=["same boot", "other boot"])
@pytest.mark.parametrize("act", [unsynced_end, committed])
def test_a_damaged_byte_of_a_log_never_makes_another_history(
    act: Callable[[Play], None], tally: Callable[[str, int], None], *, same_boot: bool
) -> None:
    became: Counter[str] = Counter()
    with stage() as on:
        found = sample(on, Explorer(on).with_store(), Program(act.__name__, act))
        on.use(Machine(found.boot if same_boot else "boot-2"))
        for at, data in flipped(found.data):
            became[check(found, at, read(found, data), same_boot=same_boot)] += 1
    tally("flipped logs", became.total())
    assert became.total() == len(MASKS) * len(found.data) > 1000
    assert became["case"] > len(MASKS) * found.synced - 100
    assert ("dropped" in became) == (act is unsynced_end and not same_boot)


def test_a_reader_that_drops_whatever_it_cannot_read_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        return

    monkeypatch.setattr(frame, "_judge_tail", never)
    with stage() as on, pytest.raises(Violation, match="in silence"):
        found = sample(on, Explorer(on).with_store(), Program("unsynced_end", unsynced_end))
        on.use(Machine("boot-2"))
        for at, data in flipped(found.data):
            check(found, at, read(found, data), same_boot=False)


def test_a_lost_sector_of_a_log_never_makes_another_history(tally: Callable[[str, int], None]) -> None:
    """A disk that lost a sector gives zeros, or what stood there before."""
    became: Counter[str] = Counter()
    with stage() as on:
        found = sample(on, Explorer(on).with_store(), Program("long", long_records))
        for same_boot in (True, False):
            on.use(Machine(found.boot if same_boot else "boot-2"))
            for at, known, data in lost_sectors(found):
                became[check(found._replace(synced=known), at, read(found, data), same_boot=same_boot)] += 1
    tally("logs with a lost sector", became.total())
    assert became["case"] >= 5


def test_a_damaged_byte_of_a_journal_never_makes_another_history(tally: Callable[[str, int], None]) -> None:
    """Each saga is as it was, or the end of the last batch is missing, or its process's sagas are cases."""
    with stage() as on:
        became = journal_flips(on, Explorer(on).with_store())
    tally("flipped journals", became.total())
    assert became.total() > 1000
    assert became["case"] > became["dropped"] > 0


def test_a_journal_whose_damage_nobody_looks_at_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    parse = copies.parse

    def blind(salt: bytes, data: bytes) -> copies.Contents:
        return parse(salt, data)._replace(damage=None)

    monkeypatch.setattr(copies, "parse", blind)
    with stage() as on, pytest.raises(Violation, match="dropped in silence"):
        journal_flips(on, Explorer(on).with_store())
