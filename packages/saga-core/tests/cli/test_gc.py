import json
import subprocess
from pathlib import Path

import pytest

from .desk import SAGA, Desk


def settle(desk: Desk, days_ago: int, *, sagas: int = 1, more: str = "") -> list[str]:
    """Commit sagas in a process whose clock stands some days back; return their ids."""
    before = {path.stem for path in desk.store.glob("done/*/*.log")}
    desk.python(
        f"import time\nreal = time.time_ns\ntime.time_ns = lambda: real() - {days_ago * 86_400}*10**9\n"
        f'for number in range({sagas}):\n with saga_scope(f"of {days_ago} days ago"{more}):\n  charge(number + 1)'
    )
    return sorted({path.stem for path in desk.store.glob("done/*/*.log")} - before)


def test_old_sagas_are_packed_and_still_listed_and_shown(desk: Desk) -> None:
    old, young = settle(desk, 5, sagas=2), settle(desk, 0)
    listed = desk.saga("ls", "--utc").stdout
    shown = desk.saga("show", old[0], "--records", "--utc").stdout
    typed = desk.saga("gc")
    assert (typed.returncode, typed.stderr) == (0, "")
    assert typed.stdout.startswith("2 sagas of ")
    assert typed.stdout.endswith(" packed\n")
    assert [path.stem for path in desk.store.glob("done/*/*.log")] == young
    assert desk.saga("ls", "--utc").stdout == listed
    assert desk.saga("show", old[0], "--records", "--utc").stdout == shown
    assert desk.saga("show", old[1][:-1]).returncode == 0
    assert desk.saga("gc").stdout.startswith("nothing to pack or drop in ")


def test_a_dry_run_changes_nothing(desk: Desk) -> None:
    settle(desk, 5)
    settle(desk, 200)
    before = desk.bytes()
    typed = desk.saga("gc", "--dry-run")
    assert "1 saga of" in typed.stdout
    assert typed.stdout.count("would be packed") == 1
    assert typed.stdout.count("would be dropped") == 1
    assert desk.bytes() == before
    document = desk.json("gc", "--dry-run")
    assert desk.bytes() == before
    done = desk.json("gc")
    assert document.pop("dry_run")
    assert not done.pop("dry_run")
    assert done == document
    assert set(done) == {"schema_version", "store", "kept_since", "packed", "dropped", "left", "damaged"}


def test_older_than_drops_what_the_default_keeps(desk: Desk) -> None:
    (old,) = settle(desk, 30)
    desk.saga("gc")
    assert desk.saga("show", old).returncode == 0
    assert " dropped" in desk.saga("gc", "--older-than", "20").stdout
    gone = desk.saga("show", old)
    assert gone.returncode == 3
    assert "dropped" in gone.stderr
    assert "gc" in gone.stderr


@pytest.mark.parametrize("text", ["soon", "-1", "1.5", "1000000000000"])
def test_what_is_no_number_of_days_ends_with_2(desk: Desk, text: str) -> None:
    settle(desk, 5)
    before = desk.bytes()
    assert desk.saga("gc", "--older-than", text).returncode == 2
    assert desk.bytes() == before


def test_a_damaged_pack_ends_with_6_and_the_other_days_are_packed(desk: Desk) -> None:
    settle(desk, 6)
    desk.saga("gc")
    (pack,) = desk.store.glob("done/*.pack")
    pack.write_bytes(pack.read_bytes()[:-1])
    settle(desk, 6)
    settle(desk, 5)
    typed = desk.saga("gc")
    assert typed.returncode == 6
    assert f"left: {pack}" in typed.stderr
    assert len(list(desk.store.glob("done/*.pack"))) == 2


def test_two_at_once_and_a_reader_beside_them_lose_nothing(desk: Desk) -> None:
    sagas = settle(desk, 5, sagas=40)
    command = [SAGA, "gc", "--json"]
    both = [
        subprocess.Popen(
            command, cwd=desk.folder, env=desk.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    while any(one.poll() is None for one in both):
        assert desk.saga("ls", "--limit", "0").stdout.count("of 5 days ago") == 40
    packed = [json.loads(one.communicate()[0])["packed"] for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert sorted(sum(days.values()) for days in packed) == [0, 40]
    listed = desk.json("ls", "--limit", "0")["sagas"]
    assert sorted(one["id"] for one in listed) == sagas
    assert {one["state"] for one in listed} == {"committed"}


def test_a_key_whose_saga_was_dropped_is_still_refused(desk: Desk) -> None:
    settle(desk, 100, more=', key="order-1"')
    desk.saga("gc")
    told = desk.python(
        "from saga_core import SagaClosed\n"
        "try:\n"
        ' with saga_scope("again", key="order-1"): charge(1)\n'
        "except SagaClosed as closed:\n"
        " print(closed)\n"
    )
    assert "dropped" in told
    assert desk.ledger() == (1, 0)
    desk.python('with saga_scope("again", key="order-1", if_settled="new"): charge(1)')
    assert desk.ledger() == (2, 0)


def test_there_must_be_a_store(desk: Desk, tmp_path: Path) -> None:
    assert desk.saga("gc").returncode == 3
    assert not desk.store.exists()
    assert tmp_path.exists()
