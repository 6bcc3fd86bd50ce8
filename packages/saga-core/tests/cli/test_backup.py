import signal
from pathlib import Path

from .desk import Desk


def test_a_store_in_use_is_copied_and_nothing_is_done_in_the_name_of_the_copy(desk: Desk) -> None:
    desk.python('with saga_scope("kept", key="order-1"): charge(1)')
    child = desk.start('with saga_scope("running"): stuck(1)')
    typed = desk.saga("backup", "copy")
    assert (typed.returncode, typed.stderr) == (0, "")
    assert typed.stdout.startswith("1 settled and 1 unsettled sagas of file:")
    assert str(desk.folder / "copy") in typed.stdout
    assert "not in it: journals/" in typed.stdout
    child.send_signal(signal.SIGKILL)
    child.communicate()
    listed = desk.json("ls", "--store", "copy")["sagas"]
    assert [(one["name"], one["state"]) for one in listed] == [("running", "damaged"), ("kept", "committed")]
    recovered = desk.saga("recover", "--import", "shop", "--store", "copy")
    assert recovered.returncode == 6
    assert "a restored copy, perhaps" in recovered.stdout
    assert desk.ledger() == (2, 0)
    assert desk.saga("recover", "--import", "shop").returncode == 0
    assert desk.ledger() == (2, 1)
    told = desk.python(
        'from saga_core import SagaClosed\ntry:\n with saga_scope("again", key="order-1", store="copy"): charge(1)\n'
        "except SagaClosed: print('closed')"
    )
    assert told.endswith("closed\n")
    assert desk.ledger() == (2, 1)


def test_the_restored_store_goes_on(desk: Desk) -> None:
    desk.python('with saga_scope("before"): charge(1)')
    before = desk.json("ls")["sagas"]
    assert desk.json("backup", "copy")["settled"] == 1
    lost = desk.folder / "lost"
    desk.store.rename(lost)
    (desk.folder / "copy").rename(desk.store)
    assert [one["id"] for one in desk.json("ls")["sagas"]] == [one["id"] for one in before]
    desk.python('with saga_scope("after"): charge(1)\nwith saga_scope("failed"):\n charge(1)\n raise ValueError')
    assert [one["state"] for one in desk.json("ls")["sagas"]] == ["rolled_back", "committed", "committed"]
    assert desk.saga("verify").returncode == 0
    assert desk.ledger() == (3, 1)


def test_a_directory_that_holds_something_is_refused(desk: Desk, tmp_path: Path) -> None:
    desk.python('with saga_scope("kept"): charge(1)')
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "note").write_text("mine")
    typed = desk.saga("backup", "full")
    assert typed.returncode == 1
    assert "is not empty" in typed.stderr
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["note"]
    assert desk.saga("backup", "copy", "--store", "nowhere").returncode == 3
    assert desk.saga("backup").returncode == 2


def test_damaged_logs_end_with_6_and_are_named(desk: Desk) -> None:
    desk.python('with saga_scope("hurt"): charge(1)')
    (path,) = desk.store.glob("done/*/*.log")
    data = bytearray(path.read_bytes())
    data[150] ^= 1
    path.write_bytes(data)
    typed = desk.saga("backup", "copy")
    assert typed.returncode == 6
    assert f"left: done/{path.parent.name}/{path.name}: copied as it stands: damaged" in typed.stderr
    assert (desk.folder / "copy" / "done" / path.parent.name / path.name).read_bytes() == data
