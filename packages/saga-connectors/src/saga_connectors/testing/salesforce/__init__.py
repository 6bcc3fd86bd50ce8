"""A local Salesforce org: real HTTP, real state, and the vendor's documented behaviour.

The moves that other people can make in it (`LocalServer.act`) are the methods of `Moves`.
"""

from saga_connectors.testing.salesforce.vendor import Moves, SalesforceOrg

__all__ = ["Moves", "SalesforceOrg", "vendor"]


def vendor() -> SalesforceOrg:
    """Return a fresh org."""
    return SalesforceOrg()
