"""A session whose process dies in the middle of a rewinding, or forks."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from saga_core.adapter import Session
from saga_core.conformance.adapter.ledger import Ledger

from . import programs

PROGRAM = Path(__file__).parent / "programs.py"


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.setenv("SAGA_TEST_LEDGER", str(tmp_path / "ledger"))
    return Ledger(tmp_path / "ledger")


def run(tmp_path: Path, program: str, death: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PROGRAM), str(tmp_path / "ledger"), f"file:{tmp_path / 'store'}", program]
    environment = {**os.environ, programs.DEATH: death}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("death", ["before c", "after c", "before b", "after b"])
@pytest.mark.parametrize("program", ["rewind", "in_a_savepoint"])
def test_a_rewinding_that_was_killed_is_finished_before_the_resumed_session_goes_on(
    tmp_path: Path, ledger: Ledger, program: str, death: str
) -> None:
    died = run(tmp_path, program, death)
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert sorted(ledger.landed) == ["a", "b", "c"]

    async def resume() -> str:
        session = await Session.open(store=f"file:{tmp_path / 'store'}", key="order")
        assert ledger.standing == ["a"]
        assert ledger.undone == ["c", "b"]
        await programs.play(session, "call-a", "a")
        scope = session.savepoint("part", place="node") if program == "in_a_savepoint" else session
        await programs.play(scope, "call-b", "b")
        if scope is not session:
            await scope.end()
        await session.end()
        return session.report.state

    assert asyncio.run(resume()) == "committed"
    assert ledger.standing == ["a", "b"]
    assert ledger.landed.count("a") == 1
    assert ledger.violations == []


def test_a_forked_child_changes_nothing_and_is_held_up_by_nothing(tmp_path: Path, ledger: Ledger) -> None:
    ended = run(tmp_path, "fork")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == ["0 SagaForked", "1 SagaForked", "2 SagaForked", "6 ScopeMisuse"]
    assert ledger.standing == ["a", "b"]
    assert ledger.undone == []
