"""The vendors, started once, and a world that is as new for each test."""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the agent's process imports the same modules, by these names

os.environ |= {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_DISABLE_VERSION_CHECK": "true",
    "CREWAI_STORAGE_DIR": tempfile.mkdtemp(prefix="crewai-"),
    "CREWAI_TESTING": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OTEL_SDK_DISABLED": "true",
}

from world import World

from saga_connectors.demo.vendors import Vendors, running


def pytest_configure(config: pytest.Config) -> None:
    # CrewAI reads its own deprecated fields whenever an agent is made.
    for message in ("function_calling_llm is deprecated", "deprecated$"):
        config.addinivalue_line("filterwarnings", f"ignore:{message}:DeprecationWarning")


@pytest.fixture(scope="session")
def vendors() -> Iterator[Vendors]:
    with running() as started:
        yield started


@pytest.fixture
def world(vendors: Vendors, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return World(vendors)


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"file:{tmp_path / 'saga'}"
