"""The connector's clients: one per credential and loop, gone with the loop; and what a missing library says."""

import asyncio
import json
import subprocess
import sys

import pytest

from saga_connectors.stripe.client import LANDS_WITHIN, client_of
from saga_connectors.stripe.client import _loops as loops  # pyright: ignore[reportPrivateUsage]
from saga_connectors.stripe.errors import StripeUnavailable, told

pytestmark = pytest.mark.anyio


async def test_a_loop_has_one_client_per_credential(credential: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = await client_of(credential)
    assert await client_of(credential) is first
    monkeypatch.setenv("SAGA_CREDENTIAL_STRIPE_TEST", json.dumps({"api_key": "sk_test_rotated"}))
    assert await client_of(credential) is not first


@pytest.mark.usefixtures("credential")
def test_another_loop_has_another_client_and_neither_outlives_its_loop() -> None:
    before = set(loops)

    async def use() -> object:
        client = await client_of("stripe_test")
        await client.v1.accounts.retrieve_current_async()
        assert set(loops) - before == {asyncio.get_running_loop()}
        return client

    clients = [asyncio.run(use()) for _ in range(2)]
    assert clients[0] is not clients[1]
    assert set(loops) == before


async def test_an_address_that_cannot_be_called_is_an_answer_that_did_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = json.dumps({"api_key": "sk_test_x", "base_url": "http://127.0.0.1:port"})
    monkeypatch.setenv("SAGA_CREDENTIAL_BROKEN", broken)
    client = await client_of("broken")
    with pytest.raises(StripeUnavailable), told("show the account"):
        await client.v1.accounts.retrieve_current_async({}, {"max_network_retries": 0})


def test_a_request_is_doubted_for_longer_than_stripe_works_on_it() -> None:
    assert LANDS_WITHIN.total_seconds() > 80


@pytest.mark.parametrize(
    ("module", "library", "extra"),
    [
        ("saga_connectors.stripe", "stripe", "stripe"),
        ("saga_connectors.stripe", "httpx", "stripe"),
        ("saga_connectors.sync.stripe", "stripe", "stripe"),
        ("saga_connectors.testing", "starlette", "testing"),
        ("saga_connectors.testing", "uvicorn", "testing"),
        ("saga_connectors.testing.stripe", "stripe", "stripe"),
    ],
)
def test_a_missing_library_names_its_extra(module: str, library: str, extra: str) -> None:
    script = f"import sys; sys.modules[{library!r}] = None\nimport {module}"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert f'pip install "saga-connectors[{extra}]"' in run.stderr
