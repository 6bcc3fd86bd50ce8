"""What this package raises beside the errors of saga_core and of the SDK."""

from agents import AgentsException

from saga_core.errors import ScopeMisuse


class InterruptedWithoutKey(ScopeMisuse, AgentsException):
    """A run waits for an approval and its saga has no key to be found again by: what the run did is undone."""
