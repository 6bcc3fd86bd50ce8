"""One transaction on a connection of its own: it ends by a commit that was answered, or it says what is known."""

from collections.abc import Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Protocol, Self, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from saga_connectors.credentials import resolve
from saga_connectors.postgres.errors import CommitInDoubt, DatabaseUnreachable, PostgresError, RolledBack

STATEMENT_TIMEOUT = timedelta(seconds=15)
LOCK_TIMEOUT = timedelta(seconds=5)
IDLE_TIMEOUT = timedelta(seconds=5)
_CONNECT_SECONDS = 10

LANDS_WITHIN = IDLE_TIMEOUT + STATEMENT_TIMEOUT + timedelta(seconds=5)
"""When a transaction whose client is gone has surely ended.

The server waits `IDLE_TIMEOUT` for a commit that is still under way, and gives it `STATEMENT_TIMEOUT`.
"""

# A client's own timeout says nothing about the server, so the server's comes first and is the one that is heard.
_ANSWER_TIMEOUT = STATEMENT_TIMEOUT + timedelta(seconds=5)

# Values are read and written as text, and these settings decide what a text means. The search path is not among them:
# the triggers of a table run inside this transaction and need the path that their role has always had.
PINS = {
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "xmloption": "content",
    "array_nulls": "on",
    "quote_all_identifiers": "off",
    "statement_timeout": f"{STATEMENT_TIMEOUT.total_seconds():.0f}s",
    "lock_timeout": f"{LOCK_TIMEOUT.total_seconds():.0f}s",
    "idle_in_transaction_session_timeout": f"{IDLE_TIMEOUT.total_seconds():.0f}s",
}
_PIN = """
SELECT pg_catalog.set_config(pin.name, pin.value, true)
FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.text[]), pg_catalog.unnest($2::pg_catalog.text[])) AS pin(name, value)
"""
# What a commit answers is taken for durable. A role that has turned that off gets it back for this transaction.
_WAIT_FOR_DISK = """
SELECT pg_catalog.set_config('synchronous_commit', 'on', true)
WHERE pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.=) 'off'
"""

_NOTHING_STANDS = "the PostgreSQL transaction ended before its commit was sent: nothing of it stands"


class Connection(Protocol):
    """What is used of an asyncpg connection."""

    async def execute(self, query: str, *args: object) -> str:
        """Run a statement and return its tag."""
        ...

    async def fetch(self, query: str, *args: object) -> Sequence[Sequence[Any]]:
        """Run a statement and return its rows."""
        ...

    def terminate(self) -> None:
        """Close the connection without a word to the server."""
        ...


class Transaction:
    """A transaction under pinned settings, opened with `async with`. Without `commit` it leaves nothing.

    Attributes:
        effects_schema: Where the credential says that the effects table is.
    """

    def __init__(self, credential_ref: str, *, search_path: str | None = None) -> None:
        self._ref = credential_ref
        self._search_path = search_path
        self._connection: Connection | None = None
        self._is_committing = False
        self.effects_schema = "saga"

    async def __aenter__(self) -> Self:
        try:
            credential = resolve(self._ref, needs=("dsn",))
            self.effects_schema = str(credential.get("effects_schema") or self.effects_schema)
            self._connection = await _connect(self._ref, credential["dsn"])
            await self.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
            pins = PINS if self._search_path is None else {**PINS, "search_path": self._search_path}
            await self.fetch(_PIN, list(pins), list(pins.values()))
            await self.fetch(_WAIT_FOR_DISK)
        except BaseException as error:
            self._end(error)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end(error)

    async def fetch(self, query: str, *args: object) -> Sequence[Sequence[Any]]:
        """Run one statement and return its rows."""
        return await self._open.fetch(query, *args)

    async def execute(self, query: str, *args: object) -> str:
        """Run one statement and return its tag."""
        return await self._open.execute(query, *args)

    async def commit(self) -> None:
        """Commit.

        Raises:
            CommitInDoubt: The answer was lost, or was not understood.
            RolledBack: The server answered that it rolled back.
        """
        self._is_committing = True
        tag = await self._open.execute("COMMIT")
        if tag != "COMMIT":
            raise RolledBack("the server rolled back instead of committing", world="nothing was changed")

    @property
    def _open(self) -> Connection:
        assert self._connection is not None
        return self._connection

    def _end(self, error: BaseException | None) -> None:
        """Give the connection up, turn what a driver raised into one of our errors, and prove what can be proven."""
        if self._connection is not None:
            # Never used again: an unanswered commit leaves a connection whose state nobody knows.
            self._connection.terminate()
        if error is None or isinstance(error, PostgresError):
            return
        if self._is_committing:
            if isinstance(error, Exception):
                raise CommitInDoubt(
                    f"the commit was sent and its answer was lost ({type(error).__name__})",
                    world="the rows may have been changed",
                    next="nothing: the step is settled by asking the server what became of its transaction",
                ) from None
            return
        if isinstance(error, (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)):
            raise rolled_back(error) from None
        error.add_note(_NOTHING_STANDS)


def is_proof(error: BaseException) -> bool:
    """Say whether an error that left a transaction proves that nothing of it stands."""
    if isinstance(error, PostgresError):
        return not isinstance(error, CommitInDoubt)
    return _NOTHING_STANDS in getattr(error, "__notes__", ())


def rolled_back(error: Exception) -> RolledBack:
    """Return what a driver's error says about the database, in words that quote none of its values."""
    told = RolledBack(
        f"the transaction was rolled back: {condition(error)}",
        world="nothing was changed",
        next="mend what the server objects to, or try again later if it is a lock, a deadlock or a timeout",
    )
    told.sqlstate = getattr(error, "sqlstate", None)
    return told


def condition(error: Exception) -> str:
    """Return the name of what happened and of the objects concerned, without the server's message."""
    words = type(error).__name__
    sqlstate: str | None = getattr(error, "sqlstate", None)
    if sqlstate:
        words += f" ({sqlstate})"
    for label in ("table", "column", "constraint"):
        name: str | None = getattr(error, f"{label}_name", None)
        if name:
            words += f", {label} {name}"
    return words


async def _connect(ref: str, dsn: str) -> Connection:
    try:
        return cast(
            "Connection",
            await asyncpg.connect(  # pyright: ignore[reportUnknownMemberType]
                dsn,
                timeout=_CONNECT_SECONDS,
                command_timeout=_ANSWER_TIMEOUT.total_seconds(),
                # Behind a pooler the next transaction meets another server, which knows none of the statements.
                statement_cache_size=0,
                server_settings={"application_name": "saga"},
            ),
        )
    except Exception as error:  # noqa: BLE001 - whatever it is, its text may quote the DSN
        raise DatabaseUnreachable(
            f"no connection with the credential {ref!r}: {condition(error)}",
            world="nothing was sent",
            next="check that the server runs and that the DSN behind this credential is right",
        ) from None
