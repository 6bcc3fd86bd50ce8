"""PostgreSQL for synchronous callers."""

from saga_connectors import postgres

update = postgres.update.blocking()

__all__ = ["update"]
