"""What a process leaves that dies before it has given a file its name."""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from typing import TYPE_CHECKING

from saga_core.stores import drafts

from .exploration import Explorer
from .programs import PROGRAMS
from .stage import PLACE, stage
from .survivors import Doubts, kills, revive

if TYPE_CHECKING:
    from .machine import Machine


def drafts_on(machine: Machine) -> list[str]:
    folders = [machine.folders[machine.resolve(f"{PLACE}/{name}")] for name in ("open", "journals")]
    return [name for names in folders for name in names if name.endswith(drafts.SUFFIX)]


def test_the_drafts_of_killed_processes_are_cleared_and_nothing_else() -> None:
    left: Counter[str] = Counter()
    program = next(program for program in PROGRAMS if program.name == "two_sagas")
    with stage() as on:
        explorer = Explorer(on)
        ran = explorer.run(program)
        assert ran is not None
        for before, moment in zip(ran.moments, ran.moments[1:], strict=False):
            for survivor in kills(moment):
                machine = on.use(revive(moment, before, survivor, Doubts()))
                found = drafts_on(machine)
                left.update(name.rpartition(".")[0][:5] for name in found)
                store = on.open("tidier")
                logs = [*store.open_sagas(), *store.done_sagas()]
                store.tidy()
                assert drafts_on(machine) == []
                assert [*store.open_sagas(), *store.done_sagas()] == logs
    assert left["boot-"] > 0, "no kill left a journal's draft"
    assert left["01JQ0"] > 0, "no kill left a log's draft"


def test_the_draft_of_a_living_process_stays() -> None:
    with stage() as on:
        machine = on.use(Explorer(on).with_store())
        store = on.open("tidier")
        maker = on.open("maker").system
        path = f"{PLACE}/open/01JQ000000000000000000000A.log{drafts.SUFFIX}"
        descriptor = maker.open(path, os.O_RDWR | os.O_CREAT)
        maker.flock(descriptor, fcntl.LOCK_EX)
        store.tidy()
        assert len(drafts_on(machine)) == 1
        machine.kill("maker")
        machine.files[machine.resolve(path)].touched = 2**63 - 1
        store.tidy()
        assert len(drafts_on(machine)) == 1, "it may have been made just now"
