"""A local org per test, and the vendor's unmodified library to look at it."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter
from simple_salesforce.api import Salesforce

from saga_connectors.testing import LocalServer
from saga_connectors.testing.salesforce import SalesforceOrg


class Loopback(HTTPAdapter):
    """Carries the library's hard-wired https requests, whatever their host, to the local org."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url

    def send(self, request: PreparedRequest, **options: Any) -> Response:  # pyright: ignore[reportIncompatibleMethodOverride]
        address = urlsplit(request.url or "")
        request.url = f"{self._url}{address.path}" + (f"?{address.query}" if address.query else "")
        return super().send(request, **options)


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with LocalServer.in_thread(SalesforceOrg()) as running:
        yield running


@pytest.fixture
def wire(server: LocalServer) -> Iterator[Session]:
    """A session whose requests all end at the local org."""
    with Session() as session:
        session.mount("https://", Loopback(server.url))
        yield session


@pytest.fixture
def library(server: LocalServer, wire: Session) -> Salesforce:
    """The vendor's library, logged in with a token that it cannot renew."""
    token = server.act("log_in")["access_token"]
    return Salesforce(instance_url="https://org.example", session_id=token, session=wire)


@pytest.fixture
def lead(server: LocalServer) -> str:
    """A lead that a person created yesterday."""
    fields = {"LastName": "Okafor", "FirstName": "Ada", "Company": "Okafor Cranes", "Status": "Open - Not Contacted"}
    return server.act("create", object_type="Lead", fields=fields)["id"]
