"""A local org per test, and the vendor's unmodified library to look at it."""

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter
from simple_salesforce.api import Salesforce

from saga_connectors.credentials import variable
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


@pytest.fixture(scope="session")
def running_server() -> Iterator[LocalServer]:
    with LocalServer.in_thread(SalesforceOrg()) as running:
        yield running


@pytest.fixture
def server(running_server: LocalServer) -> LocalServer:
    """A fresh org."""
    running_server.reset()
    return running_server


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


@pytest.fixture
def give_credential(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Puts a credential for the local org into the environment, and returns its reference."""

    def give(ref: str | None = None, /, **fields: str) -> str:
        ref = ref or f"sf_{uuid4().hex}"
        monkeypatch.setenv(variable(ref), json.dumps({"instance_url": server.url, **fields}))
        return ref

    return give


@pytest.fixture
def credential_ref(server: LocalServer, give_credential: Callable[..., str]) -> str:
    """A reference to the org's connected app, whose sessions can be renewed."""
    secrets = server.act("credential")
    return give_credential(client_id=secrets["client_id"], client_secret=secrets["client_secret"])
