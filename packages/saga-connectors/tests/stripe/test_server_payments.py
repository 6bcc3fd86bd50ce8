"""The local Stripe's payments, through the real package over TCP."""

from collections.abc import Callable
from typing import Any

import pytest
import stripe

from saga_connectors.testing import LocalServer

NEVER_REDIRECT: Any = {"enabled": True, "allow_redirects": "never"}


def create(client: stripe.StripeClient, **more: Any) -> stripe.PaymentIntent:
    params: Any = {"amount": 4200, "currency": "usd", "automatic_payment_methods": NEVER_REDIRECT, **more}
    return client.v1.payment_intents.create(params)


def card_of(client: stripe.StripeClient, customer: str) -> str:
    settings = client.v1.customers.retrieve(customer).invoice_settings
    assert settings is not None
    return str(settings.default_payment_method)


def test_a_confirmed_payment_takes_the_money_once(
    client: stripe.StripeClient, server: LocalServer, customer: str
) -> None:
    intent = create(client, customer=customer, metadata={"saga_step": "k"})
    assert intent.status == "requires_payment_method"
    assert server.snapshot()["net"] == {}
    paid = client.v1.payment_intents.confirm(intent.id, {"payment_method": card_of(client, customer)})
    assert (paid.status, paid.amount_received, dict(paid.metadata.to_dict())) == (
        "succeeded",
        4200,
        {"saga_step": "k"},
    )
    assert server.snapshot()["net"] == {customer: {"usd": 4200}}


def test_a_payment_cannot_be_confirmed_twice(client: stripe.StripeClient, server: LocalServer, customer: str) -> None:
    intent = create(client, customer=customer, payment_method=card_of(client, customer), confirm=True)
    with pytest.raises(stripe.InvalidRequestError) as raised:
        client.v1.payment_intents.confirm(intent.id)
    assert raised.value.code == "payment_intent_unexpected_state"
    assert server.snapshot()["net"] == {customer: {"usd": 4200}}


def test_a_payment_without_a_method_cannot_be_confirmed(client: stripe.StripeClient) -> None:
    with pytest.raises(stripe.InvalidRequestError) as raised:
        client.v1.payment_intents.confirm(create(client).id)
    assert raised.value.code == "payment_intent_unexpected_state"


def test_a_payment_that_might_redirect_needs_a_return_url(client: stripe.StripeClient, customer: str) -> None:
    intent = client.v1.payment_intents.create({"amount": 4200, "currency": "usd", "customer": customer})
    method = card_of(client, customer)
    with pytest.raises(stripe.InvalidRequestError, match="return_url"):
        client.v1.payment_intents.confirm(intent.id, {"payment_method": method})
    paid = client.v1.payment_intents.confirm(intent.id, {"payment_method": method, "return_url": "https://x.test"})
    assert paid.status == "succeeded"


@pytest.mark.parametrize(
    ("card", "code", "decline_code"),
    [
        ("pm_card_chargeDeclined", "card_declined", "generic_decline"),
        ("pm_card_visa_chargeDeclined", "card_declined", "generic_decline"),
        ("pm_card_visa_chargeDeclinedInsufficientFunds", "card_declined", "insufficient_funds"),
        ("pm_card_chargeDeclinedExpiredCard", "expired_card", "expired_card"),
    ],
)
def test_a_declined_card_takes_nothing_and_leaves_a_failed_charge(
    client: stripe.StripeClient, server: LocalServer, card: str, code: str, decline_code: str
) -> None:
    intent = create(client)
    with pytest.raises(stripe.CardError) as raised:
        client.v1.payment_intents.confirm(intent.id, {"payment_method": card})
    assert raised.value.code == code
    assert raised.value.error is not None
    assert raised.value.error.decline_code == decline_code
    after = client.v1.payment_intents.retrieve(intent.id, {"expand": ["latest_charge"]})
    assert after.status == "requires_payment_method"
    assert isinstance(after.latest_charge, stripe.Charge)
    assert after.latest_charge.status == "failed"
    assert server.snapshot()["net"] == {}


def test_the_number_4000000000000002_is_declined(client: stripe.StripeClient) -> None:
    method = client.v1.payment_methods.create(
        {"type": "card", "card": {"number": "4000000000000002", "exp_month": 12, "exp_year": 2040, "cvc": "123"}}
    )
    with pytest.raises(stripe.CardError):
        create(client, payment_method=method.id, confirm=True)


def test_a_declining_card_cannot_be_attached(client: stripe.StripeClient, make_customer: Callable[[str], str]) -> None:
    with pytest.raises(stripe.CardError):
        make_customer("pm_card_chargeDeclined")
    assert make_customer("pm_card_chargeCustomerFail"), "this one attaches and is declined when charged"


def test_a_card_that_wants_authentication_is_declined_off_session(
    client: stripe.StripeClient, make_customer: Callable[[str], str]
) -> None:
    customer = make_customer("pm_card_authenticationRequired")
    method = card_of(client, customer)
    intent = create(client, customer=customer)
    with pytest.raises(stripe.CardError) as raised:
        client.v1.payment_intents.confirm(intent.id, {"payment_method": method, "off_session": True})
    assert raised.value.code == "authentication_required"
    assert client.v1.payment_intents.confirm(intent.id, {"payment_method": method}).status == "requires_action"


def test_an_unconfirmed_payment_can_be_canceled_once(client: stripe.StripeClient) -> None:
    intent = create(client)
    canceled = client.v1.payment_intents.cancel(intent.id, {"cancellation_reason": "abandoned"})
    assert (canceled.status, canceled.cancellation_reason) == ("canceled", "abandoned")
    with pytest.raises(stripe.InvalidRequestError) as raised:
        client.v1.payment_intents.cancel(intent.id)
    assert raised.value.code == "payment_intent_unexpected_state"
    assert raised.value.error is not None
    assert raised.value.error.payment_intent is not None
    assert raised.value.error.payment_intent.status == "canceled"


def test_a_paid_payment_cannot_be_canceled(client: stripe.StripeClient, server: LocalServer) -> None:
    intent = create(client, payment_method="pm_card_visa", confirm=True)
    with pytest.raises(stripe.InvalidRequestError) as raised:
        client.v1.payment_intents.cancel(intent.id)
    assert raised.value.code == "payment_intent_unexpected_state"
    assert server.snapshot()["net"] == {"": {"usd": 4200}}


def test_an_authorisation_takes_nothing_until_it_is_captured(client: stripe.StripeClient, server: LocalServer) -> None:
    intent = create(client, payment_method="pm_card_visa", confirm=True, capture_method="manual")
    assert (intent.status, intent.amount_capturable, server.snapshot()["net"]) == (
        "requires_capture",
        4200,
        {"": {"usd": 0}},
    )
    with pytest.raises(stripe.InvalidRequestError) as raised:
        client.v1.payment_intents.capture(intent.id, {"amount_to_capture": 4201})
    assert raised.value.code == "amount_too_large"
    captured = client.v1.payment_intents.capture(intent.id, {"amount_to_capture": 500})
    assert (captured.status, captured.amount_received) == ("succeeded", 500)
    assert server.snapshot()["net"] == {"": {"usd": 500}}


def test_a_canceled_authorisation_leaves_nothing(client: stripe.StripeClient, server: LocalServer) -> None:
    intent = create(client, payment_method="pm_card_visa", confirm=True, capture_method="manual")
    assert client.v1.payment_intents.cancel(intent.id).status == "canceled"
    assert server.snapshot()["net"] == {"": {"usd": 0}}
    with pytest.raises(stripe.InvalidRequestError):
        client.v1.payment_intents.capture(intent.id)


def test_amounts_are_minor_units_of_the_currency(client: stripe.StripeClient, server: LocalServer) -> None:
    create(client, currency="jpy", amount=4200, payment_method="pm_card_visa", confirm=True)
    assert server.snapshot()["net"] == {"": {"jpy": 4200}}


@pytest.mark.parametrize(
    ("amount", "code"), [(1, "amount_too_small"), (100_000_000, "amount_too_large"), (-5, "amount_too_small")]
)
def test_an_amount_out_of_bounds_makes_no_payment(
    client: stripe.StripeClient, server: LocalServer, amount: int, code: str
) -> None:
    with pytest.raises(stripe.InvalidRequestError) as raised:
        create(client, amount=amount)
    assert raised.value.code == code
    assert server.snapshot()["payment_intents"] == {}


def test_another_customers_card_is_refused(
    client: stripe.StripeClient, customer: str, make_customer: Callable[[str], str]
) -> None:
    with pytest.raises(stripe.InvalidRequestError, match="belongs to another customer"):
        create(client, customer=make_customer("pm_card_visa"), payment_method=card_of(client, customer))


def test_a_list_is_newest_first_filtered_and_paged(client: stripe.StripeClient, customer: str) -> None:
    ids = [create(client, customer=customer).id for _ in range(5)]
    create(client)
    first = client.v1.payment_intents.list({"customer": customer, "limit": 2})
    assert [item.id for item in first.data] == ids[:2:-1]
    assert first.has_more
    assert [item.id for item in first.auto_paging_iter()] == ids[::-1]
    born = first.data[0].created
    assert client.v1.payment_intents.list({"created": {"gte": born + 3600}}).data == []
    assert len(client.v1.payment_intents.list({"created": {"gte": born - 3600}, "customer": customer}).data) == 5


def test_a_deleted_customer_is_answered_as_deleted_and_cannot_be_charged(
    client: stripe.StripeClient, customer: str
) -> None:
    client.v1.customers.delete(customer)
    assert client.v1.customers.retrieve(customer).to_dict() == {"id": customer, "object": "customer", "deleted": True}
    with pytest.raises(stripe.InvalidRequestError) as raised:
        create(client, customer=customer)
    assert raised.value.error is not None
    assert (raised.value.code, raised.value.error.param) == ("resource_missing", "customer")


def test_only_an_attached_method_can_be_the_default(
    client: stripe.StripeClient, customer: str, make_customer: Callable[[str], str]
) -> None:
    other = card_of(client, make_customer("pm_card_visa"))
    with pytest.raises(stripe.InvalidRequestError, match="must be attached"):
        client.v1.customers.update(customer, {"invoice_settings": {"default_payment_method": other}})


def test_a_detached_method_is_no_default_any_more(client: stripe.StripeClient, customer: str) -> None:
    client.v1.payment_methods.detach(card_of(client, customer))
    settings = client.v1.customers.retrieve(customer).invoice_settings
    assert settings is not None
    assert settings.default_payment_method is None


def test_the_account_has_a_default_currency(client: stripe.StripeClient, server: LocalServer) -> None:
    assert client.v1.accounts.retrieve_current().default_currency == "usd"
    server.act("settle_account", default_currency="eur")
    assert client.v1.accounts.retrieve_current().default_currency == "eur"


def test_every_key_of_the_packages_classes_is_answered(client: stripe.StripeClient, customer: str) -> None:
    intent = create(client, customer=customer, payment_method=card_of(client, customer), confirm=True)
    assert set(stripe.PaymentIntent.__annotations__) - {"OBJECT_NAME"} == set(intent.to_dict())
    charge = client.v1.charges.retrieve(str(intent.latest_charge))
    assert set(stripe.Charge.__annotations__) - {"OBJECT_NAME", "refunds"} == set(charge.to_dict())
    refund = client.v1.refunds.create({"payment_intent": intent.id})
    assert set(stripe.Refund.__annotations__) - {"OBJECT_NAME"} == set(refund.to_dict())
