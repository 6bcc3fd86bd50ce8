"""Charges whose answer is lost: whatever the network did, the ledger and the saga agree in the end."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import stripe

from saga_connectors.stripe import AnswerLost, ChargeCanceled, charge
from saga_connectors.stripe import client as client_module
from saga_connectors.sync import stripe as stripe_sync
from saga_connectors.testing import LocalServer
from saga_core import Saga, Store, open_store, recovery, saga_scope

pytestmark = pytest.mark.anyio

CREATE = "POST /v1/payment_intents"
CONFIRM = "POST /v1/payment_intents/*/confirm"
ALL_TRIES = 3
"""The package sends a request without an answer this often."""


CANCELED: tuple[list[str], list[int]] = (["canceled"], [])
REFUNDED: tuple[list[str], list[int]] = (["succeeded"], [4200])


class Hallucination(Exception):
    """The run fails after its effects."""


def world(server: LocalServer) -> tuple[list[str], list[int], dict[str, dict[str, int]]]:
    """Return the payments' statuses, the refunds' amounts and the money."""
    seen = server.snapshot()
    return (
        [intent["status"] for intent in seen["payment_intents"].values()],
        [made["amount"] for made in seen["refunds"].values()],
        seen["net"],
    )


async def fail(
    error: type[BaseException],
    store: Store,
    body: Callable[[], Awaitable[object]],
    *,
    unwind: timedelta = timedelta(seconds=20),
) -> Saga:
    """Run a body in a saga that it leaves by `error`, and return the saga."""
    sagas: list[Saga] = []
    with pytest.raises(error):
        async with saga_scope("test", store=store, unwind_timeout=unwind) as saga:
            sagas.append(saga)
            await body()
    return sagas[0]


def until(happened: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


@pytest.mark.parametrize("step", [CREATE, CONFIRM])
async def test_one_lost_answer_is_made_good_by_the_same_key(
    server: LocalServer, store: Store, customer: str, credential: str, step: str
) -> None:
    server.arm("drop", on=step, when="after")
    async with saga_scope("test", store=store):
        charged = await charge(customer_id=customer, amount=4200, credential_ref=credential)
    assert charged["status"] == "succeeded"
    assert world(server) == (["succeeded"], [], {customer: {"usd": 4200}})


@pytest.mark.parametrize("step", [CREATE, CONFIRM])
async def test_all_answers_lost_is_still_one_charge_and_one_refund(
    server: LocalServer, each_store: Store, customer: str, credential: str, step: str
) -> None:
    server.arm("drop", on=step, when="after", count=ALL_TRIES)

    async def run() -> None:
        charged = await charge(customer_id=customer, amount=4200, credential_ref=credential)
        assert charged["status"] == "succeeded"
        assert world(server) == (["succeeded"], [], {customer: {"usd": 4200}})
        raise Hallucination

    saga = await fail(Hallucination, each_store, run)
    assert world(server) == (["succeeded"], [4200], {customer: {"usd": 0}})
    assert saga.report.state == "rolled_back"


@pytest.mark.parametrize("kind", ["drop", "late"])
async def test_a_confirmation_that_never_came_is_closed_for_good(
    server: LocalServer, store: Store, customer: str, credential: str, kind: Any
) -> None:
    server.arm(kind, on=CONFIRM, count=ALL_TRIES)
    async with saga_scope("test", store=store) as saga:
        with pytest.raises(ChargeCanceled):
            await charge(customer_id=customer, amount=4200, credential_ref=credential)
    assert [step.state for step in saga.report.steps] == ["not_landed"]
    server.release()
    assert world(server) == (["canceled"], [], {})


@pytest.mark.parametrize(("when", "left"), [("before", "canceled"), ("after", "succeeded")])
async def test_silence_ends_with_the_clients_patience(
    server: LocalServer,
    store: Store,
    customer: str,
    credential: str,
    monkeypatch: pytest.MonkeyPatch,
    when: Any,
    left: str,
) -> None:
    monkeypatch.setattr(client_module, "ANSWER_SECONDS", 0.3)
    server.arm("hang", on=CONFIRM, when=when, count=ALL_TRIES)
    async with saga_scope("test", store=store) as saga:
        try:
            status = (await charge(customer_id=customer, amount=4200, credential_ref=credential))["status"]
        except ChargeCanceled:
            status = "canceled"
    assert status == left
    assert world(server)[0] == [left]
    assert [step.state for step in saga.report.steps] == ["applied" if left == "succeeded" else "not_landed"]


async def test_a_payment_that_never_arrived_closes_without_a_person(
    server: LocalServer,
    store: Store,
    customer: str,
    credential: str,
    lands_within: Callable[[float], None],
) -> None:
    lands_within(0.2)
    server.arm("drop", on=CREATE, count=ALL_TRIES)
    saga = await fail(AnswerLost, store, lambda: charge(customer_id=customer, amount=4200, credential_ref=credential))
    assert world(server) == ([], [], {})
    assert [step.state for step in saga.report.steps] == ["not_landed"]
    assert saga.report.state == "rolled_back"
    assert saga.report.cases == ()


async def test_a_payment_that_lands_late_is_canceled(
    server: LocalServer,
    store: Store,
    customer: str,
    credential: str,
    lands_within: Callable[[float], None],
) -> None:
    lands_within(2.5)  # longer than the engine asks while the caller waits
    server.arm("late", on=CREATE, count=ALL_TRIES)
    saga = await fail(
        AnswerLost,
        store,
        lambda: charge(customer_id=customer, amount=4200, credential_ref=credential),
        unwind=timedelta(seconds=0.1),
    )
    assert [step.state for step in saga.report.steps] == ["in_doubt"], "too early to tell"
    server.release()
    until(lambda: saga.report.state == "rolled_back")
    assert world(server) == (["canceled"], [], {})
    assert [step.state for step in saga.report.steps] == ["undone"]
    assert saga.report.cases == ()


@pytest.mark.parametrize(("when", "left"), [("before", CANCELED), ("after", REFUNDED)])
async def test_a_charge_that_its_caller_gave_up_waiting_for_is_undone(
    server: LocalServer, store: Store, customer: str, credential: str, when: Any, left: Any
) -> None:
    server.arm("hang", on=CONFIRM, when=when)

    async def run() -> None:
        async with asyncio.timeout(0.5):
            await charge(customer_id=customer, amount=4200, credential_ref=credential)

    saga = await fail(TimeoutError, store, run)
    assert world(server)[:2] == left
    assert sum(sums["usd"] for sums in world(server)[2].values()) == 0
    assert saga.report.state == "rolled_back"


async def test_a_payment_is_found_among_hundreds(
    client: stripe.StripeClient, server: LocalServer, store: Store, customer: str, credential: str
) -> None:
    server.arm("hang", on=CREATE, when="after")

    async def run() -> None:
        try:
            async with asyncio.timeout(0.5):
                await charge(customer_id=customer, amount=4200, credential_ref=credential)
        finally:
            for _ in range(101):
                client.v1.payment_intents.create({"amount": 100, "currency": "usd", "customer": customer})

    saga = await fail(TimeoutError, store, run)
    statuses = world(server)[0]
    assert statuses == ["canceled"] + 101 * ["requires_payment_method"], "ours was the oldest"
    assert saga.report.state == "rolled_back"


async def test_a_500_stored_for_the_payment_gives_way_to_a_new_attempt(
    server: LocalServer,
    store: Store,
    customer: str,
    credential: str,
    lands_within: Callable[[float], None],
) -> None:
    lands_within(0)
    server.arm("answer", on=CREATE, status=500)
    async with saga_scope("test", store=store) as saga:
        with pytest.raises(AnswerLost):
            await charge.at("order-1")(customer_id=customer, amount=4200, credential_ref=credential)
        charged = await charge.at("order-1")(customer_id=customer, amount=4200, credential_ref=credential)
    assert charged["status"] == "succeeded"
    assert world(server) == (["succeeded"], [], {customer: {"usd": 4200}})
    assert [step.state for step in saga.report.steps] == ["not_landed", "applied"]
    tried = {entry["key"] for entry in server.snapshot()["requests"] if f"{entry['method']} {entry['path']}" == CREATE}
    assert len(tried) == 2, "the second attempt has a key of its own"


async def test_a_500_after_the_payment_was_made_is_one_payment(
    server: LocalServer, store: Store, customer: str, credential: str
) -> None:
    server.arm("answer", on=CREATE, when="after", status=500)
    async with saga_scope("test", store=store):
        charged = await charge(customer_id=customer, amount=4200, credential_ref=credential)
    assert charged["status"] == "succeeded"
    assert world(server) == (["succeeded"], [], {customer: {"usd": 4200}})


def test_a_synchronous_caller_has_the_same_charge(
    server: LocalServer, each_store: Store, customer: str, credential: str
) -> None:
    server.arm("drop", on=CONFIRM, when="after")
    sagas: list[Saga] = []
    with pytest.raises(Hallucination), saga_scope("test", store=each_store) as saga:
        sagas.append(saga)
        charged = stripe_sync.charge(saga, customer_id=customer, amount=4200, credential_ref=credential)
        assert charged["status"] == "succeeded"
        raise Hallucination
    assert stripe_sync.charge.name == charge.name == "stripe.charge"
    assert sagas[0].report.state == "rolled_back"
    assert world(server) == (["succeeded"], [4200], {customer: {"usd": 0}})


AGENT = textwrap.dedent(
    """
    import asyncio, sys
    import stripe
    from saga_connectors.stripe import charge
    from saga_core import saga_scope

    stripe.enable_telemetry = False

    async def main(store, customer):
        async with saga_scope("agent", store=store):
            await charge(customer_id=customer, amount=4200, credential_ref="stripe_test", currency="usd")
            raise RuntimeError("the agent hallucinated a field")

    asyncio.run(main(*sys.argv[1:]))
    """
)


@pytest.mark.parametrize(
    ("where", "when", "left"),
    [
        (CREATE, "after", CANCELED),
        (CONFIRM, "before", CANCELED),
        (CONFIRM, "after", REFUNDED),
        ("POST /v1/refunds", "before", REFUNDED),
        ("POST /v1/refunds", "after", REFUNDED),
    ],
)
def test_a_killed_agents_charge_is_undone_by_recovery(
    server: LocalServer, tmp_path: Path, customer: str, credential: str, where: str, when: Any, left: Any
) -> None:
    server.arm("hang", on=where, when=when)
    url = f"file:{tmp_path / 'sagas'}"
    agent = subprocess.Popen([sys.executable, "-c", AGENT, url, customer], env=os.environ.copy())
    until(lambda: bool(server.snapshot()["running_keys"]))
    agent.send_signal(signal.SIGKILL)
    assert agent.wait() == -signal.SIGKILL
    until(lambda: not server.snapshot()["running_keys"])
    server.act("prune_keys")
    store = open_store(url)
    for _ in range(2):
        recovery.recover(store)
    store.close()
    assert world(server)[:2] == left
    assert sum(sums["usd"] for sums in world(server)[2].values()) == 0


def test_an_agent_that_is_not_killed_is_undone_by_itself(
    server: LocalServer, tmp_path: Path, customer: str, credential: str
) -> None:
    agent = subprocess.run(
        [sys.executable, "-X", "dev", "-c", AGENT, f"file:{tmp_path / 'sagas'}", customer],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "rolled back; 1 of 1 effects undone" in agent.stderr
    assert "Warning" not in agent.stderr, "every connection is closed"
    assert world(server) == (["succeeded"], [4200], {customer: {"usd": 0}})
