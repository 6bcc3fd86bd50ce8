"""PostgreSQL: updates of rows that a saga can undo, exactly, from any process."""

from saga_connectors.errors import MissingExtra

try:
    from saga_connectors.postgres._effect import install_sql
    from saga_connectors.postgres._update import update
except ModuleNotFoundError as missing:
    if missing.name != "asyncpg":
        raise
    raise MissingExtra("saga_connectors.postgres", "postgres", library="asyncpg") from missing

__all__ = ["install_sql", "update"]
