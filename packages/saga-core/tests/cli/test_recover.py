import json
import os
import pty
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from .desk import SAGA, Desk

KILLED = 'with saga_scope("killed"):\n charge(5_00)\n stuck(6_00)'


def test_what_a_killed_process_left_is_refunded_once_and_a_second_pass_changes_nothing(desk: Desk) -> None:
    desk.kill(KILLED)
    assert desk.ledger() == (2, 0)
    first = desk.saga("recover", "--import", "shop")
    assert first.returncode == 0
    assert "1 open saga in" in first.stdout
    assert "1 settled" in first.stdout
    assert "2 of 2 effects undone" in first.stdout
    assert desk.ledger() == (2, 2)
    after = desk.bytes()
    second = desk.saga("recover", "--import", "shop")
    assert (second.returncode, second.stdout.startswith("nothing is open in")) == (0, True)
    assert desk.ledger() == (2, 2)
    assert desk.bytes() == after


def test_without_the_handlers_nothing_is_touched_and_a_person_is_asked_to_name_them(desk: Desk) -> None:
    desk.kill(KILLED)
    before = desk.bytes()
    typed = desk.saga("recover")
    assert typed.returncode == 4
    assert "1 without their handlers here" in typed.stdout
    assert "inverse 'shop.refund' (is not registered)" in typed.stdout
    assert "--import MODULE" in typed.stdout
    assert desk.bytes() == before
    assert desk.ledger() == (2, 0)


@pytest.mark.parametrize("way", ["argument", "environment", "installed"])
def test_handlers_come_from_the_argument_the_environment_or_an_installed_package(desk: Desk, way: str) -> None:
    desk.kill(KILLED)
    environment: dict[str, str] = {}
    if way == "environment":
        environment["SAGA_IMPORT"] = "json, shop"
    if way == "installed":
        environment["PYTHONPATH"] = str(installed(desk.folder / "site", "shop"))
    typed = desk.saga("recover", *(["--import", "json", "shop"] if way == "argument" else []), **environment)
    assert typed.returncode == 0
    assert desk.ledger() == (2, 2)


def installed(site: Path, value: str) -> Path:
    """Make a site directory in which a distribution offers a module under `saga.actions`."""
    info = site / "made_up-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: made-up\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[saga.actions]\nmade_up = {value}\n")
    return site


def test_an_installed_package_that_cannot_be_imported_does_not_hold_up_the_others(desk: Desk) -> None:
    desk.kill(KILLED)
    site = installed(desk.folder / "site", "no_such_module_at_all")
    typed = desk.saga("recover", "--import", "shop", PYTHONPATH=str(site))
    assert typed.returncode == 0
    assert "the actions of 'no_such_module_at_all' are left out" in typed.stderr
    assert desk.ledger() == (2, 2)


def test_a_named_module_that_cannot_be_imported_ends_with_2_before_anything_is_done(desk: Desk) -> None:
    desk.kill(KILLED)
    (desk.folder / "broken.py").write_text("import shop\nraise LookupError('no such table')\n")
    typed = desk.saga("recover", "--import", "broken")
    assert typed.returncode == 2
    assert f"'broken' cannot be imported: LookupError: no such table ({desk.folder / 'broken.py'}:2)" in typed.stderr
    assert typed.stdout == ""
    assert desk.saga("recover", SAGA_IMPORT="shop,absent").returncode == 2
    assert desk.ledger() == (2, 0)


def test_an_effect_that_did_not_land_is_not_undone(desk: Desk) -> None:
    desk.kill('with saga_scope("killed"):\n charge(5_00)\n stuck(6_00, lands=False)')
    typed = desk.saga("recover", "--import", "shop", "--wait", "0")
    assert typed.returncode == 0
    assert "1 waiting for an answer that counts later" in typed.stdout
    assert desk.ledger() == (1, 1)  # the charge before it is given back at once: it stands on its own
    assert desk.json("ls")["sagas"][0]["state"] == "unwinding"


def test_what_only_a_person_can_settle_ends_with_4_however_often_it_is_run(desk: Desk) -> None:
    desk.kill('with saga_scope("killed"):\n charge(5_00)\n blind(6_00)')
    first = desk.saga("recover", "--import", "shop")
    assert first.returncode == 4
    assert f"case {desk.only_id()}:1 step 2 shop.blind: it may have landed" in first.stdout
    assert "saga show ID" in first.stdout
    after = desk.bytes()
    again = desk.saga("recover", "--import", "shop")
    assert again.returncode == 4
    assert "saga show ID" in again.stdout
    assert desk.json("recover", "--import", "shop")["counts"] == {"needs_human": 1}
    assert desk.bytes() == after
    assert desk.ledger() == (2, 1)


def test_a_saga_with_a_key_is_left_for_a_while_to_whoever_resumes_it(desk: Desk) -> None:
    desk.kill('with saga_scope("killed", key="order-1"): stuck(1)')
    typed = desk.saga("recover", "--import", "shop")
    assert (typed.returncode, desk.ledger()) == (0, (1, 0))
    assert "1 not due yet" in typed.stdout
    assert desk.saga("recover", "--import", "shop", "--resume-grace", "0").returncode == 0
    assert desk.ledger() == (1, 1)


def test_a_live_owner_is_left_alone_and_is_a_conflict_where_only_its_saga_was_asked_for(desk: Desk) -> None:
    child = desk.start('with saga_scope("busy"): stuck(1)')
    typed = desk.saga("recover", "--import", "shop")
    assert typed.returncode == 0
    assert f"owned by pid {child.pid}" in typed.stdout
    assert desk.saga("recover", "--import", "shop", "--only", desk.only_id()[:10]).returncode == 5
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert desk.saga("recover", "--import", "shop", "--only", desk.only_id()[:10]).returncode == 0
    assert desk.ledger() == (1, 1)


def test_a_suspended_saga_waits_for_its_key(desk: Desk) -> None:
    desk.python('with saga_scope("asked", key="order-2") as saga:\n charge(1)\n saga.suspend("waits for Ada")')
    assert desk.saga("ls").stdout.startswith("⏸ suspended  asked")
    typed = desk.saga("recover", "--import", "shop", "--resume-grace", "0")
    assert typed.returncode == 0
    assert "1 open saga in" in typed.stdout
    assert "1 suspended" in typed.stdout
    assert desk.json("recover", "--import", "shop")["counts"] == {"suspended": 1}
    named = desk.saga("recover", "--import", "shop", "--only", desk.only_id())
    assert "suspended (waits for Ada); a scope with key 'order-2' resumes it" in named.stdout
    assert desk.ledger() == (1, 0)


def test_only_one_saga_is_recovered_where_one_is_named(desk: Desk) -> None:
    desk.kill('with saga_scope("first"): stuck(1)')
    first = desk.only_id()
    desk.kill('with saga_scope("second"): stuck(2)')
    assert desk.saga("recover", "--import", "shop", "--only", first).returncode == 0
    assert [(one["name"], one["state"]) for one in desk.json("ls")["sagas"]] == [
        ("second", "running"),
        ("first", "rolled_back"),
    ]
    again = desk.saga("recover", "--import", "shop", "--only", first)
    assert f"saga {first} is settled already" in again.stdout
    assert desk.saga("recover", "--import", "shop", "--only", "7ZZZZZZZ").returncode == 3
    assert desk.ledger() == (2, 1)


def test_a_damaged_log_ends_with_6_and_the_others_are_recovered(desk: Desk) -> None:
    desk.kill(KILLED)
    (log,) = desk.store.glob("open/*.log")
    data = bytearray(log.read_bytes())
    data[-200] ^= 0xFF
    log.write_bytes(data)
    hurt = log.read_bytes()
    desk.kill('with saga_scope("well"): stuck(1)')
    typed = desk.saga("recover", "--import", "shop")
    assert typed.returncode == 6
    assert "1 settled, 1 with a damaged log" in typed.stdout
    assert desk.ledger() == (3, 1)
    assert log.read_bytes() == hurt


def test_json_is_the_only_thing_on_standard_output_whatever_handlers_print(desk: Desk) -> None:
    desk.kill(KILLED)
    typed = desk.saga("recover", "--import", "shop", "--json")
    document = json.loads(typed.stdout)
    assert set(document) == {"schema_version", "store", "needs_person", "counts", "found"}
    assert (document["counts"], document["needs_person"]) == ({"settled": 1}, False)
    (found,) = document["found"]
    assert (found["id"], found["name"], found["outcome"], found["state"]) == (
        desk.only_id(),
        "killed",
        "settled",
        "rolled_back",
    )
    assert found["steps"] == ["1. shop.charge: landed, undone", "2. shop.stuck: landed, undone"]
    assert "the shop is open" in typed.stderr
    assert "the shop refunds" in typed.stderr


def test_a_pass_tells_of_each_saga_only_where_it_takes_longer_than_a_second(desk: Desk) -> None:
    desk.kill('with saga_scope("first"): stuck(1)')
    assert "settled:" not in desk.saga("recover", "--import", "shop").stderr
    desk.kill('with saga_scope("second"): stuck(1)')
    desk.kill('with saga_scope("third"): stuck(1)')
    told = desk.saga("recover", "--import", "shop", SHOP_DELAY="0.6").stderr
    assert "second  settled: 1 of 1 effects undone" in told
    assert "third  settled: 1 of 1 effects undone" in told


def test_a_pass_tells_of_each_saga_where_somebody_watches(desk: Desk) -> None:
    desk.kill('with saga_scope("seen"): stuck(1)')
    watched, terminal = pty.openpty()
    command = [SAGA, "recover", "--import", "shop"]
    subprocess.run(
        command, cwd=desk.folder, env=desk.environment(), stdout=subprocess.PIPE, stderr=terminal, check=True
    )
    os.close(terminal)
    with os.fdopen(watched, "rb") as screen:
        assert b"seen  settled: 1 of 1 effects undone" in screen.read1()


def test_two_passes_at_once_refund_once(desk: Desk) -> None:
    for number in range(4):
        desk.kill(f'with saga_scope("killed {number}"): stuck(1)')
    command = [SAGA, "recover", "--import", "shop"]
    pipe = subprocess.PIPE
    at_once = [
        subprocess.Popen(command, cwd=desk.folder, env=desk.environment(), stdout=pipe, stderr=pipe) for _ in range(2)
    ]
    for one in at_once:
        one.communicate()
    assert [one.returncode for one in at_once] == [0, 0]
    assert desk.ledger() == (4, 4)


def test_a_moved_store_is_recovered_by_nobody_on_its_own(desk: Desk) -> None:
    desk.kill(KILLED)
    shutil.copytree(desk.store, desk.folder / "copy")
    typed = desk.saga("recover", "--import", "shop", "--store", "copy")
    assert typed.returncode == 6
    assert "a restored copy, perhaps" in typed.stdout
    assert desk.ledger() == (2, 0)


def wall_clock_off_by(days: int) -> str:
    """Return lines after which a program's wall clock stands so many days ahead."""
    return (
        f"import saga_core.clock as c, time\nc.SystemClock.wall = lambda self: time.time_ns() + {days * 86_400}*10**9\n"
    )


def test_a_saga_that_may_be_a_restored_copy_is_undone_only_where_a_person_names_it(desk: Desk) -> None:
    desk.kill(wall_clock_off_by(-3) + KILLED)
    desk.kill('with saga_scope("fresh"): stuck(1)')
    old, _ = sorted(path.stem for path in desk.store.glob("open/*.log"))
    before = (desk.store / "open" / f"{old}.log").read_bytes()
    typed = desk.saga("recover", "--import", "shop")
    assert typed.returncode == 4
    assert "1 settled, 1 too old to be undone unasked" in typed.stdout
    assert "nothing was written in it, or due, for 2 d" in typed.stdout
    assert "--auto-undo-within 30d" in typed.stdout
    assert desk.ledger() == (3, 1)
    assert (desk.store / "open" / f"{old}.log").read_bytes() == before
    assert desk.saga("recover", "--import", "shop", "--only", old).returncode == 4
    assert desk.ledger() == (3, 1)
    assert desk.json("recover", "--import", "shop", "--only", old, "--auto-undo-within", "96h")["counts"] == {
        "settled": 1
    }
    assert desk.ledger() == (3, 3)


def test_a_clock_that_was_set_back_holds_up_nothing_while_the_machine_runs_on(desk: Desk) -> None:
    desk.kill(wall_clock_off_by(3) + KILLED)
    assert desk.saga("recover", "--import", "shop").returncode == 0
    assert desk.ledger() == (2, 2)


def test_a_suspended_saga_never_grows_too_old(desk: Desk) -> None:
    desk.python(
        wall_clock_off_by(-90)
        + 'with saga_scope("asked", key="order-2") as saga:\n charge(1)\n saga.suspend("waits for Ada")'
    )
    typed = desk.saga("recover", "--import", "shop")
    assert (typed.returncode, "1 suspended" in typed.stdout) == (0, True)


def test_a_span_that_is_none_ends_with_2(desk: Desk) -> None:
    desk.kill(KILLED)
    for text in ("soon", "-1", "1w", "d", ""):
        assert desk.saga("recover", "--import", "shop", "--auto-undo-within", text).returncode == 2
    assert desk.ledger() == (2, 0)
