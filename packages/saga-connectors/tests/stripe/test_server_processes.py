"""A server in an OS process of its own: same handle, and it lives exactly as long as it should."""

import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest
import stripe

from saga_connectors.testing import LocalServer
from saga_connectors.testing.stripe import vendor


@pytest.fixture
def own_process() -> Iterator[LocalServer]:
    with LocalServer.in_process("stripe") as server:
        yield server


def pay_in_a_process_that_is_killed(url: str) -> int:
    """Pay in a child that is killed by SIGKILL while it waits for the answer of its next request."""
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent(
                f"""
                import stripe
                stripe.enable_telemetry = False
                client = stripe.StripeClient("sk_test_x", base_addresses={{"api": "{url}"}})
                client.v1.customers.create({{}})
                print("first", flush=True)
                client.v1.customers.create({{}})
                """
            ),
        ],
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"first\n"
    child.send_signal(signal.SIGKILL)
    child.stdout.close()
    return child.wait()


def test_a_server_of_its_own_outlives_a_killed_client(own_process: LocalServer) -> None:
    own_process.arm("hang", on="POST /v1/customers", nth=2)
    assert pay_in_a_process_that_is_killed(own_process.url) == -signal.SIGKILL
    assert len(own_process.snapshot()["customers"]) == 1
    own_process.reset()
    assert own_process.snapshot()["customers"] == {}


def test_a_server_of_its_own_ends_with_the_process_that_started_it() -> None:
    script = (
        "from saga_connectors.testing import LocalServer\n"
        "print(LocalServer.in_process('stripe').url, flush=True)\n"
        "import os; os.kill(os.getpid(), 9)"
    )
    starter = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    orphan = LocalServer(starter.stdout.strip(), stop=lambda: None)
    for _ in range(1000):
        try:
            orphan.snapshot()
        except OSError:
            return
    pytest.fail("the server lives on")


def test_a_closed_server_answers_nobody() -> None:
    server = LocalServer.in_thread(vendor())
    http_client = stripe.RequestsClient(timeout=5)
    client = stripe.StripeClient("sk_test_x", base_addresses={"api": server.url}, http_client=http_client)
    client.v1.customers.create({})
    server.close()
    server.close()
    with pytest.raises(stripe.APIConnectionError):
        client.v1.customers.create({})
    http_client.close()


def test_a_server_that_does_not_exist_does_not_start() -> None:
    with pytest.raises(OSError, match="nobody"):
        LocalServer.in_process("nobody")
