"""Random sagas on a disk that fails at a random moment: after it is mended, recovery leaves nothing untold."""

from __future__ import annotations

import itertools
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from saga_core.fold import fold
from saga_core.recovery import recover
from saga_core.report import report_of

from .disks import Disk, store_on
from .programs import Block, End, Run, blocks, check_steps, ends, outermost, steady
from .world import World, eventually


class Moments:
    """Tells, use by use, whether it fails: from the first bad one on, a number of times."""

    def __init__(self, first: int, times: int) -> None:
        self._uses = itertools.count()
        self._bad = range(first, first + times)

    def fails(self, _: bytes = b"") -> bool:
        return next(self._uses) in self._bad


@settings(max_examples=150, deadline=None)
@given(
    block=blocks,
    end=ends,
    fault=st.sampled_from(["write", "sync"]),
    first=st.integers(0, 30),
    times=st.sampled_from([1, 2, 3, 1000]),
    is_async=st.booleans(),
)
def test_after_any_fault_of_the_disk_nothing_is_lost_untold(
    block: Block, end: End, fault: Literal["write", "sync"], first: int, times: int, *, is_async: bool
) -> None:
    disk = Disk()
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        steady(patch)
        store = store_on(disk, Path(directory))
        setattr(disk, f"fail_{fault}", Moments(first, times).fails)
        run = Run(World())
        saga, error = outermost(run, block, end, is_async=is_async, store=store)
        disk.fail_write = disk.fail_sync = Moments(0, 0).fails
        if saga is None:
            assert run.world.charges == []
            return
        saga_id = saga.id
        eventually(lambda: store.owner(saga_id) is None)
        recover(store, wait=timedelta(0))
        reading = store.read(saga_id)
        assert reading is not None
        assert reading.damage is None
        view = fold(reading.records)
        store.close()
    report = report_of(view)
    event(f"{report.state}{' clean' if report.is_clean else ''}{' after an error' if error else ''}")
    assert run.world.violations == []
    check_steps(view, run)
    standing = {charge.id for charge in run.world.charges if charge.back is None and not run.is_hidden(charge)}
    kept = {charge.id for charge in run.world.charges if charge.id in run.kept and not run.is_hidden(charge)}
    assert report.state in {"committed", "rolled_back", "needs_human"}
    assert report.is_clean or report.cases
    if report.state == "committed":
        assert end == "succeed"
        assert kept <= standing
    elif report.is_clean:
        assert standing == set()
    if end == "succeed" and error is None:
        assert report.state == "committed"
