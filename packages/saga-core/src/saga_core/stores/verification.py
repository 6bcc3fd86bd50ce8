"""Reading every log of a store: whether each can be read to its end, makes sense, and lies where it belongs."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from saga_core import fold
from saga_core.errors import LogDamaged, StoreError
from saga_core.stores import pack, replay

if TYPE_CHECKING:
    from collections.abc import Iterator

    from saga_core.stores.file import FileStore
    from saga_core.stores.pack import Entry, Pack
    from saga_core.stores.store import Reading


class Checked(NamedTuple):
    """One thing that was looked at.

    Attributes:
        kind: An `open` saga, a `done` one, a `packed` one, a `tombstone`, a `pack`, a damaged `journal` or
            the `control` database.
        saga: The saga, where it is about one.
        place: Where it lies, from the store's directory on.
        problem: What is wrong with it, in words; None where nothing is.
    """

    kind: str
    saga: str | None
    place: str
    problem: str | None


def verify(store: FileStore) -> Iterator[Checked]:
    """Look at everything that a store keeps, one log in memory at a time; a running store may go on.

    Raises:
        StoreError: The store cannot be listed.
    """
    unsettled = set(store.open_sagas())
    for saga in sorted(unsettled):
        yield _unsettled(store, saga)
    for date in store.archive.dates():
        yield from _files(store, date)
        yield from _pack(store, date)
    yield from _journals(store)
    yield Checked("control", None, "control.db", store.control.problem())


def _unsettled(store: FileStore, saga: str) -> Checked:
    path = store.path_of(saga)
    place = "" if path is None else os.path.relpath(os.path.dirname(path), os.path.dirname(store.archive.path))
    try:
        reading = store.read(saga)
    except StoreError as error:
        return Checked("open", saga, place, _unreadable(error))
    if reading is None or reading.settled:  # it has no record yet, or has ended meanwhile
        return Checked("open", saga, place, None)
    return Checked("open", saga, place, reading.damage or _misfit(reading))


def _files(store: FileStore, date: str) -> Iterator[Checked]:
    archive = store.archive
    logs, erased = archive.loose(date)
    for saga in logs:
        place = os.path.join("done", date)
        try:
            reading = archive.read_file(saga)
        except (OSError, StoreError) as error:
            yield Checked("done", saga, place, _unreadable(error))
            continue
        if reading is not None:  # else it was packed meanwhile
            problem = reading.damage or _misfit(reading)
            if saga in erased:
                problem = "it was erased, and its log is still there"
            yield Checked("done", saga, place, problem)
    for saga in sorted(erased):
        yield Checked("tombstone", saga, os.path.join("done", date), None)


def _pack(store: FileStore, date: str) -> Iterator[Checked]:
    place = os.path.join("done", date + pack.SUFFIX)
    try:
        found = store.archive.open_pack(date)
        if found is None:
            return
        with found:
            found.check_index()
            yield Checked("pack", None, place, None)
            for entry in found.entries():
                yield _packed(store, found, entry, place)
    except LogDamaged as damage:
        yield Checked("pack", None, place, str(damage.args[0]))
    except OSError as error:
        yield Checked("pack", None, place, _unreadable(error))


def _packed(store: FileStore, found: Pack, entry: Entry, place: str) -> Checked:
    saga = entry.saga
    kind = "packed" if entry.kind == pack.LOG else "tombstone"
    try:
        body = found.body(entry)
    except LogDamaged as damage:
        return Checked(kind, saga, place, str(damage.args[0]))
    if entry.kind != pack.LOG:
        return Checked(kind, saga, place, None)
    try:
        reading = store.archive.judge(body, saga, None)
    except StoreError as error:
        return Checked(kind, saga, place, _unreadable(error))
    problem = reading.damage or _misfit(reading)
    with suppress(FileNotFoundError):
        if problem is None and store.system.read_file(store.archive.log_path(saga)) != body:
            problem = "its log also lies there as a file, with other bytes"
    return Checked(kind, saga, place, problem)


def _journals(store: FileStore) -> Iterator[Checked]:
    directory = os.path.join(os.path.dirname(store.archive.path), "journals")
    for name in sorted(store.archive.names_in(directory)):
        if name.endswith(replay.DAMAGED):
            words = "damaged before it was replayed: the unsettled sagas of its process are cases"
            yield Checked("journal", None, os.path.join("journals", name), words)


def _unreadable(error: OSError | StoreError) -> str:
    return f"it cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error.args[0])


def _misfit(reading: Reading) -> str | None:
    """Return why the records make no sense together, or do not belong where they lie."""
    try:
        view = fold.fold(reading.records)
    except fold.FoldError as misfit:
        return f"its records contradict each other: {misfit}"
    if reading.settled and not view.is_settled and (view.began is not None or reading.dropped):
        return f"it lies among the settled sagas, and is {view.state.replace('_', ' ')} as far as it can be read"
    return None
