"""What importing costs: whole process starts, by an interpreter that sees msgspec and saga_core and nothing else."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import msgspec

import saga_core
from benchmarks.measure import in_turn, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

STARTS = {
    "bare": "pass",
    "msgspec": "import msgspec",
    "core": "import saga_core",
    "names": "from saga_core import compensable, current_step, inverse, saga_scope",
}


def _start(folder: Path, statement: str) -> None:
    command = f"import sys; sys.path.append({str(folder)!r}); {statement}"
    subprocess.run([sys.executable, "-I", "-S", "-c", command], check=True)


def figures(folder: Path, *, starts: int) -> Iterator[tuple[str, float]]:
    """Yield the figures."""
    for package in (msgspec, saga_core):
        assert package.__file__ is not None
        (folder / package.__name__).symlink_to(Path(package.__file__).parent)
    contenders = {name: partial(seconds, partial(_start, folder, code)) for name, code in STARTS.items()}
    taken = {name: median(values) for name, values in in_turn(contenders, rounds=starts).items()}
    yield "import_over_msgspec", taken["core"] / taken["msgspec"]
    yield "import_names_over_msgspec", taken["names"] / taken["msgspec"]
    yield "import_msgspec_over_nothing", taken["msgspec"] / taken["bare"]
