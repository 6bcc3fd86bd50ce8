"""The world that other tests trust does what its faults say."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ..ledger import AnswerLost, Fault, LedgerProcess, LedgerRefused, charge, find, refund  # noqa: TID252


def test_a_charge_is_found_by_its_key_and_refunded_once() -> None:
    with LedgerProcess() as ledger:
        made = charge(ledger.port, "k1", 500)
        assert find(ledger.port, "k1") == made == {"id": "ch_1", "key": "k1", "amount": 500}
        assert charge(ledger.port, "k1", 500) == made
        back = refund(ledger.port, "k2", made["id"])
        assert refund(ledger.port, "k2", made["id"]) == back == find(ledger.port, "k2")
        with pytest.raises(LedgerRefused, match="given back before"):
            refund(ledger.port, "k3", made["id"])
        with pytest.raises(LedgerRefused, match="no charge"):
            refund(ledger.port, "k4", "ch_9")
        state = ledger.state()
    assert state.standing == {}
    assert state.net == 0
    assert state.sent("refund") == ["k2", "k2", "k3", "k4"]


def test_without_keys_every_repeat_takes_effect() -> None:
    with LedgerProcess(keyed=False) as ledger:
        first, second = charge(ledger.port, "k", 5), charge(ledger.port, "k", 5)
        assert (first["id"], second["id"]) == ("ch_1", "ch_2")
        refund(ledger.port, "r", "ch_1")
        refund(ledger.port, "r", "ch_1")
        assert ledger.state().net == 0
        assert ledger.state().standing == {"ch_2": 5}


def test_a_lost_answer_stands_and_a_dropped_request_does_not() -> None:
    with LedgerProcess() as ledger:
        ledger.fail("lose_answer")
        ledger.fail("drop")
        ledger.fail("refuse", times=2)
        with pytest.raises(AnswerLost):
            charge(ledger.port, "lost", 1)
        with pytest.raises(AnswerLost):
            charge(ledger.port, "dropped", 2)
        for _ in range(2):
            with pytest.raises(LedgerRefused):
                charge(ledger.port, "refused", 4)
        charge(ledger.port, "fine", 8)
        state = ledger.state()
    assert {state.keys[charge_id] for charge_id in state.charges} == {"lost", "fine"}
    assert [became for _, _, became in state.requests] == ["done", "drop", "refuse", "refuse", "done"]


def test_a_late_request_lands_at_its_release() -> None:
    with LedgerProcess() as ledger:
        ledger.fail("late")
        with pytest.raises(AnswerLost):
            charge(ledger.port, "late", 1)
        assert ledger.state().held == 1
        assert ledger.state().charges == {}
        ledger.release()
        assert ledger.wait_until(lambda state: bool(state.charges)).standing == {"ch_1": 1}


@pytest.mark.parametrize(("fault", "stands"), [("hold", {}), ("hold_answer", {"ch_1": 7})])
def test_a_held_request_waits_for_its_release(fault: Fault, stands: dict[str, int]) -> None:
    with LedgerProcess() as ledger, ThreadPoolExecutor(1) as pool:
        ledger.fail(fault)
        answer = pool.submit(charge, ledger.port, "k", 7)
        assert ledger.wait_until(lambda state: state.held == 1).standing == stands
        ledger.release()
        assert answer.result(10)["id"] == "ch_1"


def test_the_service_ends_with_the_process_that_started_it() -> None:
    script = "import os, ledger; print(ledger.LedgerProcess().__enter__().port, flush=True); os._exit(9)"
    folder = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 9
    with pytest.raises(AnswerLost):
        for _ in range(1000):
            find(int(done.stdout), "k")
