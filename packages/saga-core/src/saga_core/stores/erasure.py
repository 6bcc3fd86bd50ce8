"""Erasing one settled saga: afterwards its store holds no readable byte of what its log said."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from saga_core.errors import LogDamaged, SagaUnsettled, StoreError
from saga_core.ids import start_date
from saga_core.stores import copies, packing, tombstone, upkeep
from saga_core.stores.tombstone import Tombstone

if TYPE_CHECKING:
    from saga_core.stores.file import FileStore
    from saga_core.stores.system import System


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
        LogDamaged: The pack of its day is damaged and could not be written anew, or a damaged journal holds some of it.
        StoreError: The disk failed; some of it may still be there.
    """
    archive = store.archive
    with upkeep.turn(store.system, os.path.dirname(archive.path)):
        try:
            packing.clear_drafts(archive)
            stone = _bury(store, saga, now, by)
            if stone is not None:
                packing.drop_erased(archive, start_date(saga))
                for path in store.journals_with(saga):
                    _blank(store.system, path, saga)
        except OSError as error:
            raise StoreError(
                f"saga {saga} could not be erased: {error.strerror}",
                saga_id=saga,
                world="some of it may still be there",
                next="repair the disk under the store, then run it again",
            ) from error
    return stone


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
    store.permits.forget(saga)  # first: what completes an erasure that was cut off looks at logs only
    store.control.forget_changes()
    stone = Tombstone(saga, "erased", now, by)
    archive.write(archive.tombstone_path(saga), tombstone.pack(stone))
    return stone


def _blank(system: System, path: str, saga: str) -> None:
    """Overwrite a saga's frames in a journal that a running process keeps, or that is damaged.

    Its process only writes behind what stands there, and nobody replays the frames of a saga that has a tombstone.

    Raises:
        LogDamaged: The journal cannot be read where it names the saga.
    """
    name = copies.name_of(os.path.basename(path).rpartition(".")[0])
    try:
        descriptor = system.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # its process has given it up meanwhile
    try:
        blanks = None if name is None else copies.blanks(name.salt, system.read_all(descriptor), saga)
        for blank in blanks or ():
            system.write_all(descriptor, blank.head, blank.offset)
        system.sync_data(descriptor)  # first: a copy whose bytes had changed under its old head would be damage
        for blank in blanks or ():
            system.write_all(descriptor, bytes(blank.size), blank.offset + copies.COPY_HEAD)
        system.sync_data(descriptor)
    finally:
        system.close(descriptor)
    if blanks is None:
        raise LogDamaged(
            f"saga {saga} is erased, but {path} may hold records of it where it is damaged",
            saga_id=saga,
            world="they can be read there and nowhere else",
            next="delete that journal once the cases of its process are settled, then run it again",
        )
