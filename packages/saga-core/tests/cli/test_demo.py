import json
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import pytest

from saga_core import RollbackIncomplete, Saga, saga_scope
from saga_core.demo import actions, client
from saga_core.demo.acts import AMOUNT, Scripted, run
from saga_core.demo.simulated import SimulatedWorld, open_world

from .desk import SAGA, Desk

HOLDINGS = ("name", "net", "charges", "refunds", "lead", "rows_restored", "wires")
ACTS = [
    dict(zip(HOLDINGS, act, strict=True))
    for act in (
        ("unprotected", 42_000, 1, 0, "Won", False, 0),
        ("rolled_back", 0, 1, 1, "New", True, 0),
        ("killed", 0, 1, 1, "New", True, 0),
        ("refused", 0, 0, 0, "New", True, 0),
    )
]


def package(site: Path, name: str, entry_points: str) -> None:
    """Put a distribution on a path; one of the same name further back is not seen."""
    info = site / f"{name.replace('-', '_')}-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(entry_points)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Desk, "subprocess.CompletedProcess[str]"]:
    """The demo as typed where nothing but saga-core is installed."""
    desk = Desk(tmp_path_factory.mktemp("played"))
    package(desk.folder / "site", "saga-connectors", "")
    return desk, desk.saga("demo", "--dir", "left", PYTHONPATH=str(desk.folder / "site"))


def test_json_tells_what_the_world_holds_after_each_act(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "saga_core.demo", "--json", "--dir", str(tmp_path / "left")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    output, errors = process.communicate()
    assert (process.returncode, errors) == (0, b"")
    document = json.loads(output)
    assert document["acts"] == ACTS
    assert document["store"] == f"file:{(tmp_path / 'left' / 'store').resolve()}"
    assert left_running(process.pid) == []


def left_running(session: int) -> list[int]:
    """Return the processes of a session that are still there."""
    return [process.pid for process in psutil.process_iter() if session_of(process) == session]


def session_of(process: psutil.Process) -> int | None:
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[3])


def test_the_output_tells_calls_undos_and_what_the_world_holds(
    played: tuple[Desk, "subprocess.CompletedProcess[str]"],
) -> None:
    _, demo = played
    assert demo.returncode == 0
    first, unprotected, rolled_back, killed, refused, end = demo.stdout.split("\n\n")
    assert first.startswith("The world: ")
    assert arrows(unprotected) == ["-> demo.crm", "-> demo.orders", "-> demo.card", "!! Hallucinated:"]
    assert arrows(rolled_back) == [*arrows(unprotected), "<- 3", "<- 2", "<- 1"]
    assert '420.00 usd stands charged (1 charge, 0 refunds), Lead "Won", rows changed, 0 wires' in unprotected
    undone = '0.00 usd stands charged (1 charge, 1 refund), Lead "New", rows as before, 0 wires'
    assert rolled_back.endswith(undone)
    assert "$ kill -9 " in killed
    assert killed.index("420.00 usd") < killed.index("1 settled") < killed.index("<- 3") < killed.index(undone)
    assert killed.index(undone) < killed.index("nothing is open") < killed.rindex(undone)
    assert "GateRefused" in refused
    assert "0.00 usd stands charged (0 charges, 0 refunds)" in refused
    assert "saga ls --store file:" in end


def arrows(act: str) -> list[str]:
    lines = [line.strip() for line in act.splitlines()]
    calls = [line.split(".")[0:2] for line in lines if line.startswith("->")]
    others = [" ".join(line.split()[:2]) for line in lines if line.startswith(("<-", "!!"))]
    return [".".join(call) for call in calls] + others


def test_the_store_is_left_behind_and_the_told_command_shows_the_killed_saga(
    played: tuple[Desk, "subprocess.CompletedProcess[str]"],
) -> None:
    desk, demo = played
    (told,) = [line for line in demo.stdout.splitlines() if "(the killed one)" in line]
    shown = desk.saga(*told.split("(")[0].split()[1:])
    assert shown.returncode == 0
    lines = [line for line in shown.stdout.splitlines() if " s  " in line]
    assert "demo.card.charge" in lines[2]
    assert lines[2].endswith("cut off: no outcome was recorded")
    assert "taken over by pid" in lines[3]
    names = [one["name"] for one in desk.json("ls", "--store", "left/store")["sagas"]]
    assert names == ["pay-supplier", "close-deal", "close-deal"]


def test_a_directory_that_holds_a_store_is_not_played_in(
    played: tuple[Desk, "subprocess.CompletedProcess[str]"],
) -> None:
    desk, _ = played
    again = desk.saga("demo", "--dir", "left", PYTHONPATH=str(desk.folder / "site"))
    assert again.returncode == 2
    assert "is there already; name another directory" in again.stderr
    assert len(desk.json("ls", "--store", "left/store")["sagas"]) == 3


def test_an_installed_package_may_bring_a_fuller_demo(desk: Desk) -> None:
    site = desk.folder / "site"
    package(site, "saga-connectors", "[saga.demo]\nfull = fuller:play\n")
    (site / "fuller.py").write_text("def play(argv):\n print(*argv)\n return 7\n")
    typed = desk.saga("demo", "--json", "--dir", "there", PYTHONPATH=str(site))
    assert (typed.returncode, typed.stdout) == (7, "--json --dir there\n")


def test_where_the_fuller_demo_lacks_something_it_says_so_and_the_simulated_world_is_shown(desk: Desk) -> None:
    site = desk.folder / "site"
    package(site, "saga-connectors", "[saga.demo]\nfull = fuller:play\n")
    (site / "fuller.py").write_text("raise ImportError('pip install \"saga-connectors[demo]\"')\n")
    typed = desk.saga("demo", "--json", "--dir", "there", PYTHONPATH=str(site))
    assert json.loads(typed.stdout)["acts"] == ACTS
    assert 'needs more: pip install "saga-connectors[demo]"' in typed.stderr


class Sabotaged(SimulatedWorld):
    """A world whose charge is made beside its action, so that nothing can undo it."""

    def calls(self) -> list[Scripted]:
        *others, charge = super().calls()
        return [*others, charge._replace(recorded=charge.directly)]


def test_a_world_that_is_not_as_promised_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The negative control of the demo's own check."""

    @contextmanager
    def sabotaged(directory: Path) -> Generator[SimulatedWorld]:
        world = Sabotaged(directory)
        try:
            yield world
        finally:
            world.close()

    with pytest.MonkeyPatch.context() as patch:
        restore_environment(patch)
        assert run(["--dir", str(tmp_path)], sabotaged) == 1
    captured = capsys.readouterr()
    assert "the world is not as promised after: rolled_back" in captured.err
    assert "which is not as promised" in captured.out


def restore_environment(patch: pytest.MonkeyPatch) -> None:
    for name in (client.VENDOR, client.ORDERS):
        patch.setenv(name, "")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedWorld]:
    restore_environment(monkeypatch)
    with open_world(tmp_path) as found:
        found.prepare()
        yield found


def test_a_key_charges_once_and_a_charge_is_refunded_once(world: SimulatedWorld) -> None:
    first = client.charge("cus_ada", AMOUNT, "usd", "a key")
    assert client.charge("cus_ada", AMOUNT, "usd", "a key") == first
    assert actions.refund.fn(charge_id=first["id"]) is None
    assert actions.refund.fn(charge_id=first["id"]) is not None
    assert world.read_back()[:3] == (0, 1, 1)


def test_what_somebody_else_changed_since_is_left_alone(world: SimulatedWorld, tmp_path: Path) -> None:
    def change(scope: Saga) -> None:
        actions.patch_lead(scope, patch={"Status": "Won"})
        actions.mark_orders(scope, ids=["A-17", "A-18"], status="paid")
        client.patch_lead({"Status": "Lost"})
        client.mark_orders(["A-18"], "returned")
        scope.rollback("the agent gave up")

    with (
        pytest.raises(RollbackIncomplete) as incomplete,
        saga_scope("contested", store=f"file:{tmp_path / 'store'}") as scope,
    ):
        change(scope)
    assert incomplete.value.report is not None
    assert [step.state for step in incomplete.value.report.steps] == ["conflict", "conflict"]
    assert world.read_back().lead == "Lost"
    with closing(client.orders()) as connection:
        assert client.read_orders(connection) == {"A-17": "paid", "A-18": "returned", "A-19": "held"}


def test_the_vendors_end_with_whoever_started_them(world: SimulatedWorld) -> None:
    (vendor,) = [child for child in psutil.Process().children() if "vendor.py" in " ".join(child.cmdline())]
    world.close()
    assert not vendor.is_running()


def test_the_demo_is_found_by_its_own_help(desk: Desk) -> None:
    typed = subprocess.run([SAGA, "demo", "--help"], capture_output=True, text=True, check=True, env=desk.environment())
    assert "--dir DIR" in typed.stdout
