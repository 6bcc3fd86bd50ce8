"""A thread whose process was killed goes on in another one, whatever its checkpoints know of what was done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .world import Ledger


def play(folder: Path, durability: str, given: str, die_in: str = "", when: str = "before") -> int:
    program = str(Path(__file__).with_name("thread.py"))
    done = subprocess.run(
        [sys.executable, program, str(folder), durability, given, die_in, when],
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in {0, -signal.SIGKILL}, done.stderr
    return done.returncode


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_what_landed_before_the_kill_stands_once_when_the_thread_has_gone_on(
    tmp_path: Path, durability: str, when: str
) -> None:
    assert play(tmp_path, durability, "input", "b", when) == -signal.SIGKILL
    given = "input" if durability == "exit" else "nothing"  # at the durability `exit` there is nothing to go on from
    assert play(tmp_path, durability, given) == 0
    ledger = Ledger(tmp_path / "ledger")
    assert sorted(ledger.standing) == ["a", "b", "c"]


def test_a_step_that_the_checkpoint_knows_is_not_repeated(tmp_path: Path) -> None:
    assert play(tmp_path, "sync", "input", "b") == -signal.SIGKILL
    assert play(tmp_path, "sync", "nothing") == 0
    ledger = Ledger(tmp_path / "ledger")
    assert ledger.landed == ["a", "b", "c"]
    assert ledger.undone == []


def test_a_step_that_no_checkpoint_knows_is_undone_before_it_is_made_again(tmp_path: Path) -> None:
    assert play(tmp_path, "exit", "input", "b") == -signal.SIGKILL
    assert play(tmp_path, "exit", "input") == 0
    ledger = Ledger(tmp_path / "ledger")
    assert ledger.landed == ["a", "a", "b", "c"]
    assert ledger.undone == ["a"]
