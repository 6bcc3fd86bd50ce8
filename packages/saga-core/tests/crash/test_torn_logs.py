"""Logs as a kill or a loss of power leaves them: cut, short, empty, or with a byte that is not what it was."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from saga_core.frame import FILE_HEADER
from saga_core.recovery import recover

from .inquest import Inquest
from .scene import AT_ONCE, EVERYTHING, Scene

if TYPE_CHECKING:
    from ..ledger import LedgerProcess  # noqa: TID252 -- the one ledger stands beside this folder


def on_disk(log: Path, disk: Path) -> int:
    """Return how much of a log was brought to the disk before its owner died."""
    known = disk / str(log.stat().st_ino)
    sizes = known.read_text(encoding="ascii").split() if known.exists() else []
    return int(sizes[-1]) if sizes else 0


def lose_power(log: Path, disk: Path, kept: str) -> None:
    """Lose what of a log is not on the disk: all of it, some of it, or its contents with its length kept."""
    synced, size = on_disk(log, disk), log.stat().st_size
    if kept == "zeros":
        data = log.read_bytes()
        log.write_bytes(data[:synced] + bytes(size - synced))
    else:
        os.truncate(log, synced if kept == "nothing" else (synced + size) // 2)


LOSSES = (
    [(plan, kept) for plan in ("failing", "half", "committing") for kept in ("nothing", "half", "zeros")]
    if EVERYTHING
    else [("failing", "nothing"), ("half", "zeros"), ("committing", "half")]
)


@pytest.mark.parametrize(("plan", "kept"), LOSSES)
def test_whatever_a_loss_of_power_takes_the_ledger_nets_to_what_was_committed(
    scene: Scene, tmp_path: Path, plan: str, kept: str
) -> None:
    moments = [moment for moment in scene.moments(scene.victim(plan=plan)) if "torn" not in moment]
    disk = tmp_path / "disk"
    disk.mkdir()
    orders = [scene.victim(plan=plan, base=base, at=moment, disk=str(disk)) for base, moment in enumerate(moments, 2)]
    scene.die_all(orders)
    told = scene.live(scene.victim(plan=plan, base=1000, disk=str(disk)))
    for log in [*scene.store.glob("open/*.log"), *scene.store.glob("done/*/*.log")]:
        if log.parent.name == "open" or (disk / str(log.stat().st_ino)).exists():
            lose_power(log, disk, kept)
            log.rename(scene.store / "open" / log.name)  # a move is not on the disk before its directories are
    rescues = [scene.rescue(watch=60.0, faults=("other_boot",))]
    plans = dict.fromkeys([1000, *(one.base for one in orders)], plan)
    inquest = Inquest.over(scene.store)
    assert inquest.wrongs(scene.ledger.state(), plans, rescues) == []
    assert [body.state for body in inquest.bodies[1000]] == [told.state]
    # Where a commit record may have been lost, and only there, a person is asked.
    assert len(inquest.unsettled) <= (0 if plan == "failing" else 1)


def test_a_log_cut_anywhere_in_its_last_record_loses_that_record_only(scene: Scene) -> None:
    """Same boot: the kernel has the rest, whatever was synced."""
    lengths = range(1, 60, 1 if EVERYTHING else 6)
    orders = [scene.victim(base=base, at="write 8 after") for base, _ in enumerate(lengths, 1)]
    scene.die_all(orders)
    for log, length in zip(sorted(scene.store.glob("open/*.log")), lengths, strict=True):
        os.truncate(log, log.stat().st_size - length)
    rescued = scene.rescue(watch=60.0)
    assert {one.outcome for one in rescued.passes[-1]} == {"settled"}
    plans = dict.fromkeys((one.base for one in orders), "failing")
    assert Inquest.over(scene.store).wrongs(scene.ledger.state(), plans, [rescued]) == []


@pytest.mark.parametrize("faults", [(), ("other_boot",)])
def test_a_flipped_byte_costs_its_own_saga_only(scene: Scene, faults: tuple[str, ...]) -> None:
    """Where no journal is left that makes it good."""
    scene.die_all(scene.victim(base=base, at="write 9 after") for base in range(1, 19))
    for journal in scene.store.glob("journals/*.j"):
        journal.unlink()
    logs = sorted(scene.store.glob("open/*.log"))
    sound, damaged = logs[:3], logs[3:]
    for number, log in enumerate(damaged):
        data = bytearray(log.read_bytes())
        # The last record of an earlier boot may be torn; every other one is known to have been on the disk.
        place = 8 + number * (len(data) * (2 if faults else 3) // 3 - 8) // len(damaged)
        data[place] ^= 0x10
        log.write_bytes(data)
    files = scene.files()
    (found,) = scene.rescue(watch=0.0, wait=20.0, faults=faults).passes
    outcomes = {one.saga: one.outcome for one in found}
    assert outcomes == {log.stem: "settled" for log in sound} | {log.stem: "damaged" for log in damaged}
    after, world = scene.files(), scene.ledger.state()
    assert {name: after.get(name) for name in (f"open/{log.name}" for log in damaged)} == {
        name: files[name] for name in (f"open/{log.name}" for log in damaged)
    }
    assert len(world.refunds) == 2 * len(sound)
    assert all(one.outcome == "damaged" for one in scene.rescue(faults=faults).passes[0])


def test_a_process_killed_at_any_call_of_the_system_leaves_a_store_that_works(
    ledger: LedgerProcess, tmp_path: Path
) -> None:
    """From the first directory to the first record: whatever stands there, the next saga finds its place."""

    def die_and_begin_again(base: int, moment: str) -> list[str]:
        with closing(Scene(ledger, tmp_path / f"store{base}")) as scene:
            scene.die(scene.victim(base=base, at=moment, system=True))
            again = scene.live(scene.victim(plan="committing", base=base))
            recover(str(scene.store))
            left = [log.name for log in scene.store.glob("open/*.log")]
            return [again.error, *left, *Inquest.over(scene.store).wrongs(ledger.state(), {base: "committing"})]

    with closing(Scene(ledger, tmp_path / "store")) as scene:
        passed = scene.live(scene.victim(base=1, system=True)).moments
    begun = next(at for at, moment in enumerate(passed) if moment.startswith("write 1 after"))
    calls = [moment for moment in passed[:begun] if moment.startswith("call")]
    assert len(calls) > 20
    with ThreadPoolExecutor(AT_ONCE) as pool:
        ends = dict(zip(calls, pool.map(die_and_begin_again, range(2, len(calls) + 2), calls), strict=True))
    assert {moment: wrongs for moment, wrongs in ends.items() if wrongs != [""]} == {}


@pytest.mark.parametrize("size", [0, 1, FILE_HEADER // 2, FILE_HEADER - 1, FILE_HEADER])
def test_a_log_that_never_got_its_first_record_is_put_away(scene: Scene, size: int) -> None:
    scene.die(scene.victim(at="write 1 after"))
    world = scene.ledger.state()
    (log,) = scene.store.glob("open/*.log")
    os.truncate(log, size)
    assert scene.rescue(faults=("other_boot",)).passes == [[]]
    assert list(scene.store.glob("open/*.log")) == []
    assert scene.ledger.state().requests == world.requests
