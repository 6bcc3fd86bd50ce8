"""Measure and print; `python -m benchmarks.adapters [--json] [--rounds N]`."""

import importlib
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.adapters.actions import CALLS
from benchmarks.measure import medians, options, show

FRAMEWORKS = ("langgraph", "crewai", "openai")
RECORD = b"x" * 220
QUIET = {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_DISABLE_VERSION_CHECK": "true",
    "CREWAI_TESTING": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OTEL_SDK_DISABLED": "true",
}


def bare_sync(folder: str) -> Callable[[], object]:
    """Return what writes and syncs a record, `CALLS` times."""
    handle = os.open(Path(folder) / "floor", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def run() -> None:
        for _ in range(CALLS):
            os.write(handle, RECORD)
            os.fdatasync(handle)

    return run


def figures(taken: dict[str, float]) -> Iterator[tuple[str, float]]:
    """Yield what a call costs, from the seconds of whole runs."""
    for name in FRAMEWORKS:
        own, wrapped = taken[f"{name}_plain"], taken[f"{name}_wrapped"]
        yield f"{name}_added_ms", (wrapped - own) / CALLS * 1000
        yield f"{name}_own_ms", own / CALLS * 1000
        yield f"{name}_added_over_own", (wrapped - own) / own
    yield "langgraph_any_middleware_ms", (taken["langgraph_plain"] - taken["langgraph_bare"]) / CALLS * 1000
    yield "bare_sync_ms", taken["bare_sync"] / CALLS * 1000


def main() -> None:
    """Measure and print."""
    chosen = options("What a wrapped tool call costs over a plain one, in each framework.")
    os.environ |= QUIET
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        contenders: dict[str, Callable[[], object]] = {"bare_sync": bare_sync(folder)}
        for name in FRAMEWORKS:
            contenders |= importlib.import_module(f"benchmarks.adapters.{name}").contenders(f"file:{folder}/saga")
        show(dict(figures(medians(contenders, rounds=chosen.rounds))), as_json=chosen.json)


if __name__ == "__main__":
    main()
