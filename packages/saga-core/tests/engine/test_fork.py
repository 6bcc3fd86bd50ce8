"""A scope is the process's that opened it: a forked child does nothing in its name."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from saga_core import open_store

from ..ledger import LedgerProcess  # noqa: TID252
from .world import done, left_open

PROGRAM = Path(__file__).with_name("forks.py")


@pytest.fixture
def ledger() -> Iterator[LedgerProcess]:
    with LedgerProcess() as found:
        yield found


def run(ledger: LedgerProcess, store: Path, scenario: str, ends: str) -> list[str]:
    command = [sys.executable, "-W", "error", str(PROGRAM), str(ledger.port), str(store), f"{scenario}:{ends}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr, ended.stderr
    return json.loads(ended.stdout)


def items(ledger: LedgerProcess) -> list[str]:
    state = ledger.state()
    return [state.keys[charge_id].split()[0] for charge_id in state.standing]


@pytest.mark.parametrize("ends", ["fails", "succeeds"])
def test_a_call_in_the_child_is_refused_and_the_parents_saga_goes_on(
    ledger: LedgerProcess, tmp_path: Path, ends: str
) -> None:
    said = run(ledger, tmp_path / "store", "calls_in_the_child", ends)
    assert said == ["SagaForked", "SagaForked", "rolled_back" if ends == "fails" else "committed"]
    assert len(ledger.state().charges) == 2
    assert items(ledger) == ([] if ends == "fails" else ["before", "behind"])


@pytest.mark.parametrize("ends", ["fails", "succeeds"])
def test_a_child_that_leaves_the_scope_ends_nothing(ledger: LedgerProcess, tmp_path: Path, ends: str) -> None:
    child, parent = run(ledger, tmp_path / "store", "the_child_leaves_the_scope", ends)
    assert child == ("its error None" if ends == "fails" else " None")
    assert parent == ("rolled_back" if ends == "fails" else "committed")
    assert items(ledger) == ([] if ends == "fails" else ["before"])
    assert len(ledger.state().refunds) == (1 if ends == "fails" else 0)


@pytest.mark.parametrize("ends", ["fails", "succeeds"])
def test_a_child_may_open_scopes_of_its_own(ledger: LedgerProcess, tmp_path: Path, ends: str) -> None:
    said = run(ledger, tmp_path / "store", "the_child_opens_its_own", ends)
    assert said == ["returned committed"] * 2 + ["rolled_back" if ends == "fails" else "committed"]
    assert items(ledger) == ([] if ends == "fails" else ["before"]) + ["child", "child"]
    store = open_store(f"file:{tmp_path / 'store'}")
    assert len(done(store)) == 3
    assert left_open(store) == []
    store.close()


@pytest.mark.parametrize("ends", ["fails", "succeeds"])
def test_a_child_forked_inside_a_loop_is_refused_too(ledger: LedgerProcess, tmp_path: Path, ends: str) -> None:
    said = run(ledger, tmp_path / "store", "the_child_is_async", ends)
    assert said == ["SagaForked", "rolled_back" if ends == "fails" else "committed"]
    assert items(ledger) == ([] if ends == "fails" else ["before", "behind"])


@pytest.mark.parametrize("ends", ["fails", "succeeds"])
def test_a_child_that_drops_the_scope_ends_nothing(ledger: LedgerProcess, tmp_path: Path, ends: str) -> None:
    said = run(ledger, tmp_path / "store", "the_child_collects_the_scope", ends)
    assert said == ["returned collected", "rolled_back" if ends == "fails" else "committed"]
    assert items(ledger) == ([] if ends == "fails" else ["before"])
