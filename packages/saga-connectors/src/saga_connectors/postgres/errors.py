"""What the PostgreSQL actions raise: whether the database changed is in each class.

The server's own words are never repeated, not even as a cause: they quote rows, arguments and sometimes the DSN.
"""

from saga_core import SagaError


class PostgresError(SagaError):
    """Base of the errors of this connector."""

    code = "SG630"


class EffectsTableMissing(PostgresError):
    """The database has no effects table that the role can write. Nothing was changed; the text holds the DDL to run."""

    code = "SG631"


class UpdateUnsupported(PostgresError):
    """The table or the arguments do not allow an update that could be undone. Nothing was sent or changed."""

    code = "SG632"


class RolledBack(PostgresError):
    """The transaction ended before its commit was sent: nothing of it stands.

    Attributes:
        sqlstate: What the server answered, None if it was not the server that ended it.
    """

    code = "SG633"
    sqlstate: str | None = None


class RowCountMismatch(RolledBack):
    """The update touched another number of rows than was expected, and was rolled back."""

    code = "SG634"


class TooMuchToUndo(RolledBack):
    """The update touched more than can be recorded for its undo, and was rolled back."""

    code = "SG635"


class CommitInDoubt(PostgresError):
    """The commit was sent and its answer was lost: the update may stand. Its probe can tell."""

    code = "SG636"


class DatabaseUnreachable(PostgresError):
    """No connection could be opened: nothing was sent."""

    code = "SG637"
