"""One damaged byte, wherever it is: the exact history, a torn end dropped, or a case. Never another history."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from saga_core import frame

from .exploration import Explorer
from .flips import MASKS, check, committed, flipped, look, lost_power, promised, read, sample, unsynced_end
from .machine import Machine, restart
from .programs import Program
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


def test_a_damaged_byte_of_a_journal_never_makes_another_history(tally: Callable[[str, int], None]) -> None:
    """Each saga is as it was, or the end of the last batch is missing, or its process's sagas are cases."""
    became: Counter[str] = Counter()
    with stage() as on:
        machine = Explorer(on).with_store()
        machine.is_watched = True
        machine = on.use(machine)
        promises = promised(on)
        lost = lost_power(machine.look())
        (journal,) = [names for names in lost.folders[lost.resolve("/sim/store/journals")].items() if ".j" in names[0]]
        whole = bytes(lost.files[journal[1]].data)
        written = whole.rstrip(b"\0")
        for _, data in flipped(written):
            files = {number: bytes(file.data) for number, file in lost.files.items()}
            files[journal[1]] = data + whole[len(data) :]
            on.use(restart("boot-2", files, lost.folders, {}))
            became[look(on, promises)] += 1
    tally("flipped journals", became.total())
    assert became.total() == len(MASKS) * len(written) > 1000
    assert became["case"] > became["dropped"] > 0
