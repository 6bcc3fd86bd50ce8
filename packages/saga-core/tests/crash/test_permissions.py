"""A process that is killed around its permission: what was approved happens once, what was metered is metered once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SAGA = Path(sys.executable).with_name("saga")
MODULE = """
import os, signal
from datetime import timedelta
from saga_core import Gate, Landed, NotLanded, compensable, current_step, inverse, saga_scope
from saga_core.engine.session import Session
from saga_core.rules import above, budget
from saga_core.stores.permits import Permits

def paid():
    try:
        return [line.split() for line in open("paid")]
    except FileNotFoundError:
        return []

@inverse("bank.back", keyed=True)
def back(key: str) -> None:
    with open("back", "a") as ledger:
        ledger.write(f"{key}\\n")

@compensable("bank.pay", money=("amount", "usd"), lands_within=timedelta(0), undo=lambda call: back.bind(call.result))
def pay(amount: int) -> str:
    with open("paid", "a") as ledger:
        ledger.write(f"{amount} {current_step().key}\\n")
    return current_step().key

@pay.probe
def find(attempt):
    return Landed(attempt.key) if any(key == attempt.key for _, key in paid()) else NotLanded()

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def run(where):
    write, dispatch, count = Session.write, Permits.dispatch, {}

    def written(session, record):
        kind = type(record).__name__
        count[kind] = count.get(kind, 0) + 1
        if where == f"before {kind} {count[kind]}":
            die()
        position = write(session, record)
        if where == f"after {kind} {count[kind]}":
            session.log.sync(position)
            die()
        return position

    def dispatched(permits, wanted):
        if where == "before dispatch":
            die()
        answer = dispatch(permits, wanted)
        if where == "after dispatch":
            die()
        return answer

    Session.write, Permits.dispatch = written, dispatched
    gate = Gate(above({"usd": 500}), budget({"usd": 1000}, per=timedelta(days=1)))
    with saga_scope("pay", key="k", gate=gate):
        pay(900)
"""
POINTS = ["before Asked 1", "after Asked 1"]
ANSWERED = [
    "before Answered 1",
    "after Answered 1",
    "before dispatch",
    "after dispatch",
    "before Permitted 1",
    "after Permitted 1",
    "before Intended 1",
]
SENT = ["before Applied 1", "after Applied 1", "before Committed 1", "after Committed 1"]


def typed(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SAGA_")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def run(folder: Path, where: str = "nowhere") -> subprocess.CompletedProcess[str]:
    (folder / "pays.py").write_text(MODULE)
    return typed(folder, sys.executable, "-c", f"import pays; pays.run({where!r})")


def waiting(folder: Path) -> list[str]:
    listed = json.loads(typed(folder, SAGA, "approvals", "list", "--json").stdout)
    return [one["id"] for one in listed["approvals"]]


def approve(folder: Path) -> None:
    (request,) = waiting(folder)
    assert typed(folder, SAGA, "approvals", "approve", request, "--by", "ana").returncode == 0


def paid(folder: Path) -> int:
    path = folder / "paid"
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.mark.parametrize("where", POINTS)
def test_a_question_that_was_cut_off_is_put_once(tmp_path: Path, where: str) -> None:
    assert run(tmp_path, where).returncode == -9
    assert "ApprovalPending" in run(tmp_path).stderr
    approve(tmp_path)
    assert run(tmp_path).returncode == 0
    assert (paid(tmp_path), waiting(tmp_path)) == (1, [])


@pytest.mark.parametrize("where", ANSWERED + SENT)
def test_what_was_approved_happens_once_wherever_the_process_dies(tmp_path: Path, where: str) -> None:
    assert "ApprovalPending" in run(tmp_path).stderr
    approve(tmp_path)
    assert run(tmp_path, where).returncode == -9
    last = run(tmp_path)
    assert last.returncode == 0 or "SagaClosed" in last.stderr, last.stderr
    assert (paid(tmp_path), waiting(tmp_path)) == (1, [])
    assert not (tmp_path / "back").exists()


def test_what_was_proven_never_sent_asks_again_and_is_metered_again(tmp_path: Path) -> None:
    """The approval was for one attempt, and that is over."""
    run(tmp_path)
    approve(tmp_path)
    assert run(tmp_path, "after Intended 1").returncode == -9
    assert paid(tmp_path) == 0
    assert "ApprovalPending" in run(tmp_path).stderr
    approve(tmp_path)
    assert "GateRefused" in run(tmp_path).stderr, "the first attempt's share of the budget stays taken"
    assert paid(tmp_path) == 0


def test_a_process_that_forgets_its_permission_is_caught(tmp_path: Path) -> None:
    """The negative control: with a permission that is not kept, the budget alone would refuse the second run."""
    run(tmp_path)
    approve(tmp_path)
    assert run(tmp_path, "after dispatch").returncode == -9
    forget = "import pays; pays.Permits.is_kept = lambda *_: False; pays.Session.key_of = lambda *_: 'other'; "
    typed(tmp_path, sys.executable, "-c", forget + "pays.run('nowhere')")
    assert paid(tmp_path) == 0
