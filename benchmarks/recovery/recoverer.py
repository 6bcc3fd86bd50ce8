"""A fresh process that makes one pass over a store; `python -m benchmarks.recovery.recoverer URL` prints JSON."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.recovery.actions import UNDONE
from saga_core.recovery import recover

_PEAK = re.compile(r"VmHWM:\s*(\d+) kB")


def peak() -> int:
    """Return the kilobytes that this process has held at the most since `forget_peak`."""
    found = _PEAK.search(Path("/proc/self/status").read_text(encoding="ascii"))
    assert found is not None
    return int(found[1])


def forget_peak() -> None:
    """Count from what is held now."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def bare_sync(folder: str) -> float:
    """Return the seconds of one write and sync of a record's size on the store's disk: the floor of each undo."""
    taken: list[float] = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(20):
            started = time.perf_counter()
            file.write(b"x" * 220)
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - started)
    return median(taken)


def main(url: str) -> None:
    """Recover and print."""
    forget_peak()
    before = peak()
    started = time.perf_counter()
    done = recover(url)
    taken = time.perf_counter() - started
    found = {"ms": taken * 1000, "mb": (peak() - before) / 1024}
    found["sync_ms"] = bare_sync(str(Path(url.removeprefix("file:")).parent)) * 1000
    print(json.dumps({**found, "settled": done.count("settled"), "undone": len(UNDONE)}))


if __name__ == "__main__":
    main(sys.argv[1])
