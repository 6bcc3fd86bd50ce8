"""Charges in sagas, against the local Stripe: what its ledger says when the scope has ended."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import stripe

from saga_connectors.errors import CredentialMissing
from saga_connectors.stripe import (
    ChargeDeclined,
    NotChargeable,
    NothingCharged,
    RequestRefused,
    StripeUnavailable,
    charge,
)
from saga_connectors.testing import LocalServer
from saga_core import Report, Saga, Store, saga_scope

pytestmark = pytest.mark.anyio


class Hallucination(Exception):
    """The run fails after its effects."""


def net(server: LocalServer, customer: str, currency: str = "usd") -> int:
    return server.snapshot()["net"].get(customer, {}).get(currency, 0)


def posts(server: LocalServer, path: str = "/v1/refunds") -> list[dict[str, Any]]:
    return [
        entry for entry in server.snapshot()["requests"] if entry["method"] == "POST" and entry["path"].endswith(path)
    ]


def states(report: Report) -> list[str]:
    return [step.state for step in report.steps]


async def charge_and_fail(store: Store, *calls: dict[str, Any]) -> Saga:
    """Make the charges in one saga whose run then fails."""
    sagas: list[Saga] = []
    with pytest.raises(Hallucination):
        async with saga_scope("test", store=store) as saga:
            sagas.append(saga)
            for call in calls:
                await charge(saga, **call)
            raise Hallucination
    return sagas[0]


async def test_a_charge_of_a_saga_that_succeeds_is_kept(
    server: LocalServer, each_store: Store, customer: str, credential: str
) -> None:
    async with saga_scope("test", store=each_store) as saga:
        charged = await charge(customer_id=customer, amount=4200, credential_ref=credential)
    assert saga.report.is_clean
    assert charged == {
        "payment_intent": charged["payment_intent"],
        "amount": 4200,
        "currency": "usd",
        "status": "succeeded",
    }
    assert net(server, customer) == 4200
    assert posts(server) == []


async def test_a_charge_of_a_saga_that_fails_is_refunded_once(
    server: LocalServer, each_store: Store, customer: str, credential: str
) -> None:
    saga = await charge_and_fail(each_store, {"customer_id": customer, "amount": 4200, "credential_ref": credential})
    world = server.snapshot()
    assert world["net"] == {customer: {"usd": 0}}
    assert [refund["amount"] for refund in world["refunds"].values()] == [4200]
    assert saga.report.state == "rolled_back"
    assert saga.report.is_clean
    assert not any(entry.get("replayed") for entry in world["requests"]), "each key was sent once"


async def test_two_equal_charges_are_two_charges_and_two_refunds(
    server: LocalServer, each_store: Store, customer: str, credential: str
) -> None:
    call = {"customer_id": customer, "amount": 500, "credential_ref": credential}
    saga = await charge_and_fail(each_store, call, call)
    world = server.snapshot()
    assert [intent["amount"] for intent in world["payment_intents"].values()] == [500, 500]
    assert [refund["amount"] for refund in world["refunds"].values()] == [500, 500]
    assert len({refund["payment_intent"] for refund in world["refunds"].values()}) == 2
    assert saga.report.state == "rolled_back"


async def test_the_currency_is_the_customers_and_is_recorded(
    server: LocalServer, store: Store, customer: str, credential: str
) -> None:
    server.act("bill", customer=customer, currency="eur")
    async with saga_scope("test", store=store) as saga:
        charged = await charge(customer_id=customer, amount=4200, credential_ref=credential)
    assert charged["currency"] == "eur"
    assert saga.report.steps[0].currency == "eur"
    assert net(server, customer, "eur") == 4200


async def test_a_customer_without_a_currency_has_the_accounts(
    server: LocalServer, store: Store, customer: str, credential: str
) -> None:
    server.act("settle_account", default_currency="jpy")
    async with saga_scope("test", store=store) as saga:
        await charge(customer_id=customer, amount=4200, credential_ref=credential)
    assert saga.report.steps[0].currency == "jpy"
    assert net(server, customer, "jpy") == 4200


async def test_a_named_currency_is_recorded_as_stripe_writes_it(
    server: LocalServer, store: Store, customer: str, credential: str
) -> None:
    async with saga_scope("test", store=store) as saga:
        await charge(customer_id=customer, amount=4200, credential_ref=credential, currency="EUR")
    assert saga.report.steps[0].currency == "eur"
    assert net(server, customer, "eur") == 4200


async def test_a_declined_charge_did_not_land_and_leaves_nothing_open(
    server: LocalServer, each_store: Store, make_customer: Callable[[str], str], credential: str
) -> None:
    customer = make_customer("pm_card_chargeCustomerFail")
    async with saga_scope("test", store=each_store) as saga:
        with pytest.raises(ChargeDeclined) as raised:
            await charge(customer_id=customer, amount=4200, credential_ref=credential)
    assert raised.value.reason == "generic_decline"
    assert "4200" not in str(raised.value)
    assert states(saga.report) == ["not_landed"]
    assert saga.report.is_clean
    assert [intent["status"] for intent in server.snapshot()["payment_intents"].values()] == ["canceled"]
    assert net(server, customer) == 0


async def test_a_card_that_wants_its_owner_is_declined(
    server: LocalServer, store: Store, make_customer: Callable[[str], str], credential: str
) -> None:
    customer = make_customer("pm_card_authenticationRequired")
    async with saga_scope("test", store=store) as saga:
        with pytest.raises(ChargeDeclined) as raised:
            await charge(customer_id=customer, amount=4200, credential_ref=credential)
    assert raised.value.reason == "authentication_required"
    assert states(saga.report) == ["not_landed"]


async def test_a_decline_is_proven_even_if_its_payment_cannot_be_canceled(
    server: LocalServer, store: Store, make_customer: Callable[[str], str], credential: str
) -> None:
    server.arm("drop", on="POST /v1/payment_intents/*/cancel", count=3)
    customer = make_customer("pm_card_chargeCustomerFail")
    async with saga_scope("test", store=store) as saga:
        with pytest.raises(ChargeDeclined):
            await charge(customer_id=customer, amount=4200, credential_ref=credential)
    assert states(saga.report) == ["not_landed"]


async def test_a_customer_without_a_card_is_not_chargeable(
    client: stripe.StripeClient, server: LocalServer, store: Store, credential: str
) -> None:
    customer = client.v1.customers.create({}).id
    async with saga_scope("test", store=store) as saga:
        with pytest.raises(NotChargeable):
            await charge(customer_id=customer, amount=4200, credential_ref=credential)
    assert states(saga.report) == ["not_landed"]
    assert server.snapshot()["payment_intents"] == {}


@pytest.mark.parametrize("amount", [1, 100_000_000])
async def test_a_request_that_stripe_refuses_did_not_land(
    server: LocalServer, store: Store, customer: str, credential: str, amount: int
) -> None:
    async with saga_scope("test", store=store) as saga:
        with pytest.raises(RequestRefused) as raised:
            await charge(customer_id=customer, amount=amount, credential_ref=credential)
    assert raised.value.reason in {"amount_too_small", "amount_too_large"}
    assert states(saga.report) == ["not_landed"]
    assert server.snapshot()["payment_intents"] == {}


async def test_an_unknown_customer_is_refused_before_the_intent(
    server: LocalServer, store: Store, credential: str
) -> None:
    async with saga_scope("test", store=store) as saga:
        with pytest.raises(RequestRefused) as raised:
            await charge(customer_id="cus_nobody", amount=4200, credential_ref=credential)
    assert raised.value.reason == "resource_missing"
    assert "cus_nobody" not in str(raised.value)
    assert saga.report.steps == ()
    assert posts(server, "/v1/payment_intents") == []


async def test_a_missing_credential_is_found_before_anything_is_asked(
    server: LocalServer, store: Store, customer: str
) -> None:
    before = server.snapshot()["requests"]
    async with saga_scope("test", store=store) as saga:
        with pytest.raises(CredentialMissing, match="SAGA_CREDENTIAL_NOT_THERE"):
            await charge(customer_id=customer, amount=4200, credential_ref="not there", currency="usd")
    assert saga.report.steps == ()
    assert server.snapshot()["requests"] == before


async def test_a_refused_key_did_not_land(
    server: LocalServer, store: Store, customer: str, credential: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = f'{{"api_key": "sk_live_wrong", "base_url": "{server.url}"}}'
    monkeypatch.setenv("SAGA_CREDENTIAL_STRIPE_TEST", wrong)
    async with saga_scope("test", store=store) as saga:
        with pytest.raises(RequestRefused):
            await charge(customer_id=customer, amount=4200, credential_ref=credential, currency="usd")
    assert states(saga.report) == ["not_landed"]


async def test_an_outage_before_anything_was_asked_did_not_land(
    server: LocalServer, store: Store, customer: str, credential: str
) -> None:
    server.arm("drop", on="GET /v1/customers/*", count=3)
    async with saga_scope("test", store=store) as saga:
        with pytest.raises(StripeUnavailable):
            await charge(customer_id=customer, amount=4200, credential_ref=credential, currency="usd")
        assert isinstance(StripeUnavailable("x"), NothingCharged)
        await charge(customer_id=customer, amount=4200, credential_ref=credential, currency="usd")
    assert states(saga.report) == ["not_landed", "applied"]
    assert net(server, customer) == 4200


async def test_no_secret_reaches_the_store_the_log_or_an_error(
    server: LocalServer,
    tmp_path: Path,
    customer: str,
    make_customer: Callable[[str], str],
    credential: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    directory = tmp_path / "sagas"
    poor = make_customer("pm_card_chargeCustomerFail")
    url = f"file:{directory}"
    with pytest.raises(ChargeDeclined) as raised:
        async with saga_scope("test", store=url):
            await charge(customer_id=customer, amount=4200, credential_ref=credential)
            await charge(customer_id=poor, amount=4200, credential_ref=credential)
    secrets = [intent["client_secret"] for intent in server.snapshot()["payment_intents"].values()]
    assert len(secrets) == 2
    stored = b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())
    assert b"stripe.charge" in stored, "this is where the records are"
    # The vendor's package logs whole answers at DEBUG, client secrets with them; ours and the engine's do not.
    ours = "".join(str(record.getMessage()) for record in caplog.records if record.name.startswith("saga"))
    assert "undone" in ours
    for secret in secrets:
        assert secret.encode() not in stored
        assert secret not in ours
        assert secret not in str(raised.value)
    assert b"sk_test" not in stored
    assert "sk_test_planted" not in caplog.text + str(raised.value) + repr(raised.value)
