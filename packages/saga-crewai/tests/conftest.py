"""CrewAI without its telemetry, its version check and its traces, and without what a test may leave in its hooks."""

import os
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the tests' crews run in processes of their own too, by these names

os.environ |= {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_DISABLE_VERSION_CHECK": "true",
    "CREWAI_STORAGE_DIR": tempfile.mkdtemp(prefix="crewai-"),
    "CREWAI_TESTING": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "OTEL_SDK_DISABLED": "true",
}

import crews
from crews import World


def pytest_configure(config: pytest.Config) -> None:
    # CrewAI reads its own deprecated fields whenever an agent is made.
    for message in ("function_calling_llm is deprecated", "deprecated$"):
        config.addinivalue_line("filterwarnings", f"ignore:{message}:DeprecationWarning")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("CREW_WORLD", str(tmp_path / "ledger.txt"))
    monkeypatch.setenv("SAGA_STORE", f"file:{tmp_path / 'saga'}")
    crews.begun.clear()
    crews.may_land.clear()
    return World(tmp_path / "ledger.txt")


@pytest.fixture(params=[True, False], ids=["native", "text"])
def native(request: pytest.FixtureRequest) -> bool:
    """Whether the model calls tools as an API does, or in CrewAI's text protocol."""
    return bool(request.param)
