"""Faults planted into the real store: the exploration must find each of them."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from saga_core import codec, frame
from saga_core.engine.io import SyncIo
from saga_core.engine.session import Session
from saga_core.stores import fork, lock, replay
from saga_core.stores.committer import Committer
from saga_core.stores.journal import Journal
from saga_core.stores.log import FileLog
from saga_core.stores.names import Names

from .exploration import Effort

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from saga_core.frame import Parsed
    from saga_core.stores.copies import Copy
    from saga_core.stores.log import Unproven
    from saga_core.stores.replay import Logs
    from saga_core.stores.store import Log
    from saga_core.stores.system import System

# A planted fault reaches for what is private in the code that it spoils.
# pyright: reportPrivateUsage=false
# ruff: noqa: SLF001


def retry_without_rewriting(patch: pytest.MonkeyPatch) -> None:
    """A failed sync of a log is retried as it is."""
    sync_file = FileLog.sync_file

    def bare(log: FileLog, unproven: Unproven) -> None:
        log._must_rewrite = False
        sync_file(log, unproven)

    patch.setattr(FileLog, "sync_file", bare)


def glue(patch: pytest.MonkeyPatch) -> None:
    """What a killed process left behind the last good frame stays, and the next owner appends behind it."""
    make_ready = FileLog._make_ready

    def glued(log: FileLog) -> None:
        end = log._system.fstat(log._descriptor).st_size
        if 0 < log.end < end:
            log.end = end
        make_ready(log)

    patch.setattr(FileLog, "_make_ready", glued)


def swallowed_log_error(patch: pytest.MonkeyPatch) -> None:
    """A log's failed sync counts as a good one."""
    sync_file = FileLog.sync_file

    def deaf(log: FileLog, unproven: Unproven) -> None:
        try:
            sync_file(log, unproven)
        except OSError:
            return

    patch.setattr(FileLog, "sync_file", deaf)


def swallowed_journal_error(patch: pytest.MonkeyPatch) -> None:
    """The journal's failed sync counts as a good one."""
    write = Journal.write

    def deaf(journal: Journal, copies: list[Copy]) -> None:
        end = journal._end
        try:
            write(journal, copies)
        except OSError:
            journal._end = max(journal._end, end + 1)

    patch.setattr(Journal, "write", deaf)


def hasty_acknowledgement(patch: pytest.MonkeyPatch) -> None:
    """A barrier is over before anything is on disk."""

    def nothing(_: Journal, __: list[Copy]) -> None:
        return

    patch.setattr(Journal, "write", nothing)


def skipped_record(patch: pytest.MonkeyPatch) -> None:
    """A reader passes over what it cannot read."""
    parse = frame.parse

    def skipping(data: bytes, **options: Any) -> Parsed:
        found = parse(data, **options)
        if found.header is None:
            return found
        seal = frame.seal_of(found.header.salt)
        frames = list(found.frames)
        at = found.good_end
        while (at := data.find(seal.mark, at)) >= 0:
            head = frame._head_at(data, at, seal)
            payload = b"" if head is None else data[at + frame.FRAME_HEADER : at + frame.FRAME_HEADER + head.length]
            if head is not None and head.length == len(payload) and payload[-1:] != b"\0":
                frames.append(frame.Frame(at, head.kind, head.epoch, head.seq, payload))
            at += 1
        frames = [one for one in frames if _can_be_decoded(one.payload)]
        return found._replace(frames=frames, damage=None, tail=b"")

    patch.setattr(frame, "parse", skipping)


def _can_be_decoded(payload: bytes) -> bool:
    try:
        codec.decode(payload)
    except ValueError:
        return False
    return True


def no_look(patch: pytest.MonkeyPatch) -> None:
    """A file that was replaced or moved between the open and the lock is taken for the saga's."""

    def take(system: System, path: str, *, patience: float = 0.0) -> int | None:
        descriptor = system.open(path, os.O_RDWR | os.O_CLOEXEC)
        fork.descriptors.add(descriptor)
        try:
            system.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fork.close(descriptor)
            return None
        return descriptor

    patch.setattr(lock, "take", take)


def no_lock(patch: pytest.MonkeyPatch) -> None:
    """A log is taken although somebody holds it."""

    def take(system: System, path: str, *, patience: float = 0.0) -> int | None:
        descriptor = system.open(path, os.O_RDWR | os.O_CLOEXEC)
        fork.descriptors.add(descriptor)
        return descriptor

    patch.setattr(lock, "take", take)


def unnamed_journal(patch: pytest.MonkeyPatch) -> None:
    """The journal's name is never synced."""
    write = Journal.write

    def careless(journal: Journal, copies: list[Copy]) -> None:
        journal._is_named = True
        write(journal, copies)

    patch.setattr(Journal, "write", careless)


def unnamed_log(patch: pytest.MonkeyPatch) -> None:
    """The name of a log that is synced by itself is never synced."""

    def nothing(_: Names, __: int) -> None:
        return

    patch.setattr(Names, "prove", nothing)


def early_deletion(patch: pytest.MonkeyPatch) -> None:
    """A journal is deleted although its logs are not on disk."""

    def found(logs: Logs, saga: str, _: list[Copy]) -> str | None:
        return logs.find(saga)

    patch.setattr(replay, "_sync", found)


def stale_journal(patch: pytest.MonkeyPatch) -> None:
    """An old journal is taken for the whole truth: what a log holds beyond it is cut off."""
    extend = replay._extend

    def cutting(logs: Logs, saga: str, held: list[Copy]) -> str | None:
        path = extend(logs, saga, held)
        if path is not None:
            descriptor = logs.system.open(path, os.O_RDWR | os.O_CLOEXEC)
            logs.system.truncate(descriptor, max(copy.offset + len(copy.data) for copy in held))
            logs.system.sync_data(descriptor)
            logs.system.close(descriptor)
        return path

    patch.setattr(replay, "_extend", cutting)


def forgotten_failure(patch: pytest.MonkeyPatch) -> None:
    """A journal is retired without writing its copies again, although another sync of its logs has failed."""

    def never(_: Committer) -> bool:
        return False

    patch.setattr(Committer, "_failed_so_far", never)


def trusted_adoption(patch: pytest.MonkeyPatch) -> None:
    """So is one whose logs another process had, which may have failed to sync them."""
    write = Journal.write

    def trusting(journal: Journal, copies: list[Copy]) -> None:
        for log in logs:
            log.is_adopted = False
        write(journal, copies)

    logs: list[FileLog] = []
    resume = FileLog.resume

    def resumed(log: FileLog, data: bytes, found: Parsed) -> None:
        resume(log, data, found)
        logs.append(log)

    patch.setattr(FileLog, "resume", resumed)
    patch.setattr(Journal, "write", trusting)


def trusting_replay(patch: pytest.MonkeyPatch) -> None:
    """A replay writes only what the file does not show, whoever's replay put it there."""
    write_all = replay._extend

    def trusting(logs: Logs, saga: str, held: list[Copy]) -> str | None:
        path = logs.find(saga)
        if path is not None:
            descriptor = logs.system.open(path, os.O_RDONLY | os.O_CLOEXEC)
            end = frame.parse(logs.system.read_all(descriptor), boot="").good_end
            logs.system.close(descriptor)
            held = [copy for copy in held if copy.offset + len(copy.data) > end]
        return write_all(logs, saga, held)

    patch.setattr(replay, "_extend", trusting)


def unsynced_replay(patch: pytest.MonkeyPatch) -> None:
    """A journal is replayed and deleted, and the logs are not synced."""
    extend = replay._extend

    def unsynced(logs: Logs, saga: str, held: list[Copy]) -> str | None:
        system = logs.system
        real = system.sync_data
        system.sync_data = lambda _: None  # pyright: ignore[reportAttributeAccessIssue]
        try:
            return extend(logs, saga, held)
        finally:
            system.sync_data = real  # pyright: ignore[reportAttributeAccessIssue]

    patch.setattr(replay, "_extend", unsynced)


def no_barrier(patch: pytest.MonkeyPatch) -> None:
    """The engine waits for no barrier."""

    async def nothing(_: SyncIo, __: Log, ___: int) -> None:
        return

    patch.setattr(SyncIo, "barrier", nothing)


def fresh_keys(patch: pytest.MonkeyPatch) -> None:
    """Each process sends an undo under a key of its own."""
    key_of = Session.key_of

    def fresh(session: Session, position: str, purpose: str, attempt: int) -> str:
        key = key_of(session, position, purpose, attempt)
        return f"{key}-{id(session)}" if purpose == "undo" else key

    patch.setattr(Session, "key_of", fresh)


class Search(NamedTuple):
    """Where a planted fault shows.

    Attributes:
        program: The program.
        effort: How long it is searched.
        shows: What is said of it.
    """

    program: str
    effort: Effort
    shows: str = "lost, and promised"


_CRASHES = Effort(crash=24, faulty=0, nested=0)
_FAULTS = Effort(crash=0, faulty=10, nested=0)
_RESCUES = Effort(crash=0, faulty=0, nested=60, nested_each=20)

STORE_PLANTS: dict[Callable[[pytest.MonkeyPatch], None], Search] = {
    retry_without_rewriting: Search("two_sagas", _FAULTS),
    glue: Search("taken_over", _CRASHES),
    swallowed_log_error: Search("two_sagas", _FAULTS),
    swallowed_journal_error: Search("one_saga", _FAULTS),
    hasty_acknowledgement: Search("one_saga", _CRASHES),
    skipped_record: Search("long_records", _CRASHES._replace(crash=100), "was never appended there"),
    unnamed_journal: Search("one_saga", _CRASHES),
    unnamed_log: Search("one_saga", _FAULTS),
    early_deletion: Search("two_days", _CRASHES),
    stale_journal: Search("left_journals", _CRASHES),
    forgotten_failure: Search("journals", _FAULTS),
    trusted_adoption: Search("handed_over", _FAULTS),
    trusting_replay: Search("one_saga", _RESCUES),
    unsynced_replay: Search("one_saga", _RESCUES),
}
"""Each fault, and the search that finds it."""

RACE_PLANTS: dict[Callable[[pytest.MonkeyPatch], None], str] = {
    no_look: "settled_meanwhile",
    no_lock: "two_recoverers",
}

TRADE_PLANTS: dict[Callable[[pytest.MonkeyPatch], None], str] = {no_barrier: "kept", fresh_keys: "undone"}
