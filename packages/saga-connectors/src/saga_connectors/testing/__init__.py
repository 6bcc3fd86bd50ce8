"""Local vendor servers to test agents against: honest about state and idempotency, with faults to arm."""

from saga_connectors.testing.server import LocalServer, Vendor

__all__ = ["LocalServer", "Vendor"]
