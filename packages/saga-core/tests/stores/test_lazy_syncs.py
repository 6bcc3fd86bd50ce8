"""An outcome goes to the disk with the next barrier, or once its log is left alone: no sync is its own before."""

import asyncio
import threading
import time
from pathlib import Path

import pytest

from saga_core import Attempt, Landed, compensable, inverse, open_store, saga_scope
from saga_core.ids import new_saga_id
from saga_core.records import Noted
from saga_core.stores import committer
from saga_core.stores.file import FileStore


@inverse("lazy.undo", keyed=True)
def undo() -> None: ...


@compensable("lazy.step", undo=lambda _: undo.bind())
async def step(number: int) -> int:
    """Do nothing."""
    return number


@step.probe
def probe(attempt: Attempt) -> Landed[int]:
    return Landed(attempt.args["number"])


def test_steps_close_to_each_other_cost_one_sync_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "DELAY", 60.0)  # however slow the machine: closer than that
    store = open_store(f"file:{tmp_path / 'store'}")
    assert isinstance(store, FileStore)
    syncs: list[float] = []
    plain = store.system.sync_data
    store.system.sync_data = lambda descriptor: (syncs.append(time.monotonic()), plain(descriptor))[1]

    async def main() -> None:
        async with saga_scope(store=store):
            await step(0)
            syncs.clear()
            for number in range(20):
                await step(number)
            assert len(syncs) == 20

    asyncio.run(main())


def test_a_log_that_is_left_alone_is_synced_up_to_its_last_outcome(tmp_path: Path) -> None:
    store = open_store(f"file:{tmp_path / 'store'}")
    assert isinstance(store, FileStore)
    synced = threading.Event()
    plain = store.system.sync_data

    async def main() -> None:
        async with saga_scope(store=store):
            await step(1)
            store.system.sync_data = lambda descriptor: (plain(descriptor), synced.set())[0]
            assert await asyncio.to_thread(synced.wait, 10)

    asyncio.run(main())


def test_an_outcome_that_no_barrier_serves_is_synced_while_others_keep_coming(tmp_path: Path) -> None:
    """As those of calls do that began together and end one after the other."""
    store = open_store(f"file:{tmp_path / 'store'}")
    assert isinstance(store, FileStore)
    log = store.create(new_saga_id())
    until = time.monotonic() + 60
    while log.durable == 0 and time.monotonic() < until:
        log.append(Noted(1, {}))
        log.sync_soon()
        time.sleep(committer.DELAY / 4)
    assert log.durable > 0
    log.release()
