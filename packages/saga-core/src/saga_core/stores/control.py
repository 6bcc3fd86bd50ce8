"""The control database: what was decided, as against what happened."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from saga_core.errors import StoreError
from saga_core.ids import key_digest
from saga_core.stores import fork

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Generator

    from saga_core.stores.permits import Permits
    from saga_core.stores.system import System

WAIT = 5.0
"""Seconds for which a writer queues behind others."""

_PAUSE = 0.002
_EXTRA = 3
_KEYS = """
create table if not exists keys (
    digest text not null, generation integer not null, saga text not null, at integer not null,
    primary key (digest, generation)
) without rowid
"""
_VERSION = 2


_inherited: list[object] = []
"""What a forked child holds of its parent's: closing it here would not be the parent's doing."""


class Control:
    """A SQLite file: opened for each look, and kept open for changes, which threads make one after the other.

    SQLite's own waiting starves the unlucky; writers therefore queue on a lock file before they begin. Of a key only a
    digest is kept, so that the row can outlive an erased saga and still refuse the key.
    """

    def __init__(self, system: System, directory: str) -> None:
        self._system = system
        self._path = os.path.join(directory, "control.db")
        self._lock_path = os.path.join(directory, "control.lock")
        self._permits: Permits | None = None
        self._kept: tuple[sqlite3.Connection, os.stat_result] | None = None

    def key_holder(self, key: str) -> tuple[str, int] | None:
        """Return the saga of a key's highest generation and that generation."""
        with self.look() as connection:
            return None if connection is None else _newest(connection, key_digest(key))

    def take_key(self, key: str, saga: str, generation: int) -> bool:
        """Bind a key's next generation to a saga; False if the highest is not the one before. Durable at return."""
        with self.change() as connection:
            digest = key_digest(key)
            held = _newest(connection, digest)
            if (held[1] if held else 0) != generation - 1:
                return False
            connection.execute("insert into keys values (?, ?, ?, ?)", (digest, generation, saga, time.time_ns()))
            return True

    @property
    def permits(self) -> Permits:
        """What people and ledgers allow."""
        with fork.gate:
            if self._permits is None:
                from saga_core.stores.permits import Permits  # noqa: PLC0415 -- where nobody is asked, nobody pays

                self._permits = Permits(self.change, self.look)
            return self._permits

    @contextmanager
    def change(self) -> Generator[sqlite3.Connection]:
        """Hold a connection inside a transaction: committed, and durable, at the end; undone by an error.

        Raises:
            StoreError: Others held the database for too long, or SQLite refuses.
        """
        with fork.calm, self._turn(), self._kept_connection() as connection:
            connection.execute("begin immediate")
            try:
                if not _is_made(connection):
                    from saga_core.stores.permits import SCHEMA  # noqa: PLC0415 -- as above

                    for statement in (_KEYS, *SCHEMA.split(";")):
                        connection.execute(statement)
                    connection.execute(f"pragma user_version = {_VERSION}")
                yield connection
            except BaseException:
                connection.execute("rollback")
                raise
            connection.execute("commit")

    @contextmanager
    def look(self) -> Generator[sqlite3.Connection | None]:
        """Hold a connection to read from; None where nothing was ever decided.

        Raises:
            StoreError: SQLite refuses.
        """
        if not self._system.exists(self._path):
            yield None
            return
        with fork.calm, self._connection() as connection:
            yield connection if _is_made(connection) else None

    def close(self) -> None:
        """Close what is kept open."""
        with fork.calm:
            kept, self._kept = self._kept, None
            if kept is not None:
                kept[0].close()

    def die_in_child(self) -> None:
        """Begin anew in a forked child: the connection is the parent's, and is not to be closed here."""
        _inherited.append(self._kept)
        self._kept = None
        if self._permits is not None:
            self._permits.renew()

    def copy_to(self, path: str) -> None:
        """Copy the database into a new file, which is on disk at return; nothing is copied where there is none.

        Raises:
            StoreError: SQLite refuses.
        """
        import sqlite3  # noqa: PLC0415 -- a saga without a key never pays for it

        if not self._system.exists(self._path):
            return
        descriptor = self._system.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with fork.calm, self._connection() as connection, closing(sqlite3.connect(path)) as target:
                connection.backup(target)
            self._system.sync_data(descriptor)
        finally:
            self._system.close(descriptor)

    def problem(self) -> str | None:
        """Return what SQLite finds wrong with the file, in words; None where nothing is, or no file is."""
        if not self._system.exists(self._path):
            return None
        try:
            with fork.calm, self._connection() as connection:
                (found,) = connection.execute("pragma integrity_check(1)").fetchone()
        except StoreError as error:
            return str(error.args[0])
        return None if found == "ok" else str(found)

    def forget_changes(self) -> None:
        """Delete SQLite's kept journal: the former bytes of changed pages stay readable in it.

        Raises:
            StoreError: Somebody holds it.
        """
        if not self._system.exists(self._path):
            return
        journal = self._path + "-journal"
        with fork.calm, self._turn(), self._connection() as connection:
            self.close()
            connection.execute("pragma journal_mode = delete")
            if self._system.exists(journal):
                raise _refusal(f"{journal} is in use")

    @contextmanager
    def _turn(self) -> Generator[None]:
        """Hold the writers' lock file.

        Raises:
            StoreError: Others held it for the whole wait, or it cannot be made.
        """
        try:
            with fork.gate:
                descriptor = self._system.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                fork.descriptors.add(descriptor)
        except OSError as error:
            raise _refusal(f"{self._lock_path} could not be opened: {error.strerror}") from error
        try:
            until = time.monotonic() + WAIT
            while not self._is_locked(descriptor):
                if time.monotonic() >= until:
                    raise _refusal(f"others held {self._lock_path} for {WAIT:.0f} s")
                time.sleep(_PAUSE)
            yield
        finally:
            fork.close(descriptor)

    def _is_locked(self, descriptor: int) -> bool:
        try:
            self._system.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection]:
        import sqlite3  # noqa: PLC0415 -- a saga without a key never pays for it

        try:
            with closing(self._opened()) as connection:
                yield connection
        except sqlite3.Error as error:
            raise _refusal(f"{self._path}: {error}") from error

    @contextmanager
    def _kept_connection(self) -> Generator[sqlite3.Connection]:
        """Hold the connection that is kept, opened anew where the file is another one now, or SQLite failed."""
        import sqlite3  # noqa: PLC0415 -- a saga without a key never pays for it

        try:
            if self._kept is not None and not (
                self._system.exists(self._path) and os.path.samestat(os.stat(self._path), self._kept[1])
            ):
                self.close()
            if self._kept is None:
                self._kept = (self._opened(), os.stat(self._path))
            yield self._kept[0]
        except sqlite3.Error as error:
            self.close()
            raise _refusal(f"{self._path}: {error}") from error

    def _opened(self) -> sqlite3.Connection:
        import sqlite3  # noqa: PLC0415 -- a saga without a key never pays for it

        is_new = not self._system.exists(self._path)
        connection = sqlite3.connect(self._path, timeout=WAIT, isolation_level=None, check_same_thread=False)
        try:
            if is_new:
                os.chmod(self._path, 0o600)
            mode = connection.execute("pragma journal_mode = persist").fetchone()[0]
            connection.execute("pragma synchronous = extra")
            connection.execute("pragma secure_delete = on")
            level = connection.execute("pragma synchronous").fetchone()[0]
            if (mode, level) != ("persist", _EXTRA):
                raise _refusal(f"SQLite keeps journal_mode {mode} and synchronous {level}: a commit may be lost")
        except BaseException:
            connection.close()
            raise
        return connection


def _newest(connection: sqlite3.Connection, digest: str) -> tuple[str, int] | None:
    rows = connection.execute(
        "select saga, generation from keys where digest = ? order by generation desc limit 1", (digest,)
    )
    return rows.fetchone()


def _is_made(connection: sqlite3.Connection) -> bool:
    """Tell whether the tables are there; False for an empty file.

    Raises:
        StoreError: They are of another version: what is looked for in them in vain would be decided a second time.
    """
    (version,) = connection.execute("pragma user_version").fetchone()
    if version == _VERSION:
        return True
    if version or connection.execute("select 1 from sqlite_master").fetchone():
        raise _refusal(f"control.db is of version {version}, this is version {_VERSION}")
    return False


def _refusal(what: str) -> StoreError:
    return StoreError(
        f"the control database cannot be used: {what}",
        world="nothing was decided and nothing was called",
        next="try again; if it stays, look at the disk and at who else uses the store",
    )
