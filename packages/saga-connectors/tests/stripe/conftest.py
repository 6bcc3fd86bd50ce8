"""A local Stripe on a real port, and the real `stripe` package talking to it."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import stripe

from saga_connectors.stripe import charge
from saga_connectors.testing import LocalServer
from saga_connectors.testing.stripe import vendor
from saga_core import Store, open_store

KEY = "sk_test_planted0123456789abcdef"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def no_telemetry() -> Iterator[None]:
    """The package's telemetry writes into the home directory; it has no switch but this one."""
    stripe.enable_telemetry = False
    yield
    stripe.enable_telemetry = True


@pytest.fixture(scope="session")
def running_server() -> Iterator[LocalServer]:
    with LocalServer.in_thread(vendor()) as server:
        yield server


@pytest.fixture
def server(running_server: LocalServer) -> LocalServer:
    running_server.reset()
    return running_server


@pytest.fixture
def client(server: LocalServer) -> Iterator[stripe.StripeClient]:
    """A synchronous client that sends each request once."""
    http_client = stripe.RequestsClient(timeout=5)
    yield stripe.StripeClient(KEY, base_addresses={"api": server.url}, http_client=http_client, max_network_retries=0)
    http_client.close()


@pytest.fixture
def make_customer(client: stripe.StripeClient) -> Callable[[str], str]:
    """Make a customer with a test card as the default payment method and return its id."""

    def make(card: str) -> str:
        made = client.v1.customers.create(
            {"payment_method": card, "invoice_settings": {"default_payment_method": card}}
        )
        return made.id

    return make


@pytest.fixture
def customer(make_customer: Callable[[str], str]) -> str:
    """A customer whose default card is good."""
    return make_customer("pm_card_visa")


@pytest.fixture
def credential(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """The reference of a credential for the local Stripe; the package retries it without waiting long."""
    monkeypatch.setattr(stripe.HTTPClient, "INITIAL_DELAY", 0.01)
    monkeypatch.setenv("SAGA_CREDENTIAL_STRIPE_TEST", json.dumps({"api_key": KEY, "base_url": server.url}))
    return "stripe_test"


@pytest.fixture
def store() -> Iterator[Store]:
    opened = open_store("memory:")
    yield opened
    opened.close()


@pytest.fixture(params=["memory", "file"])
def each_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = open_store("memory:" if request.param == "memory" else f"file:{tmp_path / 'sagas'}")
    yield opened
    opened.close()


@pytest.fixture
def lands_within(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Shorten the time after which Stripe's "not there" counts, which is minutes."""

    def shorten(seconds: float) -> None:
        declaration = charge._declaration  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        monkeypatch.setattr(declaration, "lands_within", timedelta(seconds=seconds))

    return shorten
