"""The local Stripe's refunds: never twice, never more than was taken."""

from collections.abc import Callable
from typing import Any

import pytest
import stripe

from saga_connectors.testing import LocalServer


def paid(client: stripe.StripeClient, card: str = "pm_card_visa", **more: Any) -> stripe.PaymentIntent:
    params: Any = {
        "amount": 4200,
        "currency": "usd",
        "payment_method": card,
        "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
        "confirm": True,
        **more,
    }
    return client.v1.payment_intents.create(params)


def refused(call: Callable[[], object]) -> stripe.InvalidRequestError:
    with pytest.raises(stripe.InvalidRequestError) as raised:
        call()
    return raised.value


def net(server: LocalServer) -> int:
    return server.snapshot()["net"][""]["usd"]


def test_a_refund_without_an_amount_gives_back_what_is_left(client: stripe.StripeClient, server: LocalServer) -> None:
    intent = paid(client)
    client.v1.refunds.create({"payment_intent": intent.id, "amount": 1000})
    rest = client.v1.refunds.create({"payment_intent": intent.id})
    assert (rest.amount, rest.status, net(server)) == (3200, "succeeded", 0)
    charge = client.v1.charges.retrieve(str(intent.latest_charge))
    assert (charge.amount_refunded, charge.refunded) == (4200, True)


def test_a_second_refund_of_the_same_charge_is_refused(client: stripe.StripeClient, server: LocalServer) -> None:
    intent = paid(client)
    client.v1.refunds.create({"payment_intent": intent.id})
    error = refused(lambda: client.v1.refunds.create({"payment_intent": intent.id}))
    assert (error.code, net(server)) == ("charge_already_refunded", 0)


def test_a_refund_beyond_what_is_left_is_refused(client: stripe.StripeClient, server: LocalServer) -> None:
    intent = paid(client)
    client.v1.refunds.create({"payment_intent": intent.id, "amount": 4000})
    error = refused(lambda: client.v1.refunds.create({"payment_intent": intent.id, "amount": 201}))
    assert (error.param, net(server)) == ("amount", 200)


@pytest.mark.parametrize("more", [{"confirm": False}, {"capture_method": "manual"}])
def test_a_payment_that_took_nothing_is_not_refunded(client: stripe.StripeClient, more: dict[str, Any]) -> None:
    intent = paid(client, **more)
    error = refused(lambda: client.v1.refunds.create({"payment_intent": intent.id}))
    assert error.code == "payment_intent_unexpected_state"


def test_only_the_captured_part_is_refunded(client: stripe.StripeClient, server: LocalServer) -> None:
    intent = paid(client, capture_method="manual")
    client.v1.payment_intents.capture(intent.id, {"amount_to_capture": 500})
    assert client.v1.refunds.create({"payment_intent": intent.id}).amount == 500
    assert net(server) == 0


def test_a_disputed_charge_is_not_refunded(client: stripe.StripeClient, server: LocalServer) -> None:
    intent = paid(client)
    server.act("dispute", charge=intent.latest_charge)
    error = refused(lambda: client.v1.refunds.create({"payment_intent": intent.id}))
    assert error.code == "charge_disputed"
    by_card = paid(client, "pm_card_createDispute")
    assert refused(lambda: client.v1.refunds.create({"payment_intent": by_card.id})).code == "charge_disputed"


def test_a_pending_refund_is_not_back_yet(client: stripe.StripeClient, server: LocalServer) -> None:
    intent = paid(client, "pm_card_pendingRefund")
    refund = client.v1.refunds.create({"payment_intent": intent.id})
    assert (refund.status, net(server)) == ("pending", 4200)
    error = refused(lambda: client.v1.refunds.create({"payment_intent": intent.id}))
    assert error.code == "charge_already_refunded"
    server.act("settle_refund", refund_id=refund.id, status="succeeded")
    assert (client.v1.refunds.retrieve(refund.id).status, net(server)) == ("succeeded", 0)


def test_a_failed_refund_leaves_the_money_taken(client: stripe.StripeClient, server: LocalServer) -> None:
    intent = paid(client)
    server.act("refunds_become", status="failed")
    refund = client.v1.refunds.create({"payment_intent": intent.id})
    assert (refund.status, net(server)) == ("failed", 4200)
    server.act("refunds_become", status=None)
    assert client.v1.refunds.create({"payment_intent": intent.id}).status == "succeeded"
    assert net(server) == 0


def test_a_refund_can_fail_after_it_succeeded(client: stripe.StripeClient, server: LocalServer) -> None:
    intent = paid(client, "pm_card_refundFail")
    refund = client.v1.refunds.create({"payment_intent": intent.id})
    assert (refund.status, net(server)) == ("succeeded", 0)
    server.act("settle_refund", refund_id=refund.id, status="failed")
    assert (client.v1.refunds.retrieve(refund.id).status, net(server)) == ("failed", 4200)


def test_only_a_refund_that_waits_for_the_customer_can_be_canceled(
    client: stripe.StripeClient, server: LocalServer
) -> None:
    intent = paid(client)
    server.act("refunds_become", status="requires_action")
    refund = client.v1.refunds.create({"payment_intent": intent.id})
    assert client.v1.refunds.cancel(refund.id).status == "canceled"
    assert net(server) == 4200
    refused(lambda: client.v1.refunds.cancel(refund.id))


def test_an_empty_balance_refunds_nothing(client: stripe.StripeClient, server: LocalServer) -> None:
    intent = paid(client)
    server.act("balance", is_empty=True)
    error = refused(lambda: client.v1.refunds.create({"payment_intent": intent.id}))
    assert (error.code, net(server)) == ("balance_insufficient", 4200)


def test_the_refunds_of_a_payment_are_listed(client: stripe.StripeClient) -> None:
    intent, other = paid(client), paid(client)
    made = [client.v1.refunds.create({"payment_intent": intent.id, "amount": 100}).id for _ in range(3)]
    client.v1.refunds.create({"payment_intent": other.id})
    listed = client.v1.refunds.list({"payment_intent": intent.id, "limit": 2})
    assert [refund.id for refund in listed.auto_paging_iter()] == made[::-1]


def test_a_refund_names_a_payment_or_a_charge(client: stripe.StripeClient) -> None:
    assert refused(lambda: client.v1.refunds.create({})).code == "parameter_missing"
    assert client.v1.refunds.create({"charge": str(paid(client).latest_charge)}).amount == 4200
