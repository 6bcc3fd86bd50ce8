"""Erasing one settled saga: afterwards its store holds no readable byte of what its log said."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from saga_core.errors import SagaUnsettled, StoreError
from saga_core.ids import start_date
from saga_core.stores import packing, tombstone, upkeep
from saga_core.stores.tombstone import Tombstone

_logger = logging.getLogger("saga_core.store")

if TYPE_CHECKING:
    from saga_core.stores.file import FileStore


def erase(store: FileStore, saga: str, *, now: int, by: str | None = None) -> Tombstone | None:
    """Erase a saga and return its tombstone, which stays; None if there is no such saga. On disk at return.

    The tombstone comes first, and from then on nobody reads the log: a crash leaves an erasure that the next call for
    the saga completes, or the next `saga gc`.

    Args:
        store: Where it lies.
        saga: The saga.
        now: The time, in nanoseconds since 1970.
        by: Who erases it.

    Raises:
        SagaUnsettled: It is not settled; nothing was erased.
        StoreBusy: Another process has the turn.
        LogDamaged: The pack of its day is damaged and could not be written anew.
        StoreError: The disk failed; some of it may still be there.
    """
    archive = store.archive
    with upkeep.turn(store.system, os.path.dirname(archive.path)):
        try:
            packing.clear_drafts(archive)
            _tell_of_journals(saga, store.journals_with(saga))
            stone = _bury(store, saga, now, by)
            if stone is not None:
                packing.drop_erased(archive, start_date(saga))
                store.control.forget_changes()
        except OSError as error:
            raise StoreError(
                f"saga {saga} could not be erased: {error.strerror}",
                saga_id=saga,
                world="some of it may still be there",
                next="repair the disk under the store, then run it again",
            ) from error
    return stone


def _tell_of_journals(saga: str, paths: list[str]) -> None:
    for path in paths:
        _logger.warning(
            "saga %s is erased, and readable in %s as long as its process needs that: a minute, or until it ends",
            saga,
            path,
        )


def _bury(store: FileStore, saga: str, now: int, by: str | None) -> Tombstone | None:
    """Return the saga's tombstone, made now unless it has one."""
    archive = store.archive
    stone = archive.tombstone(saga)
    if stone is not None and stone.why == "erased":
        return stone
    reading = store.read(saga)
    if reading is None:
        return None
    if not reading.settled:
        raise SagaUnsettled(
            f"saga {saga} is not settled",
            saga_id=saga,
            world="nothing was erased: what its undo needs is in its log",
            next=f"end it first: saga recover, or settle its cases; look: saga show {saga}",
        )
    directory = os.path.dirname(archive.tombstone_path(saga))
    with suppress(FileExistsError):
        store.system.mkdir(directory, 0o700)
    store.system.sync_dir(archive.path)  # who made it need not have brought its name to the disk
    stone = Tombstone(saga, "erased", now, by)
    archive.write(archive.tombstone_path(saga), tombstone.pack(stone))
    return stone
