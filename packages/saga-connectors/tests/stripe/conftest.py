"""A local Stripe on a real port, and the real `stripe` package talking to it."""

from collections.abc import Callable, Iterator

import pytest
import stripe

from saga_connectors.testing import LocalServer
from saga_connectors.testing.stripe import vendor

KEY = "sk_test_planted0123456789abcdef"


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
