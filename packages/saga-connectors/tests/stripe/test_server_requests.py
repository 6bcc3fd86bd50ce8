"""What the local Stripe lets in: parameters, keys of its account, idempotency keys."""

from typing import Any
from urllib.parse import urlencode

import pytest
import stripe
from hypothesis import given
from hypothesis import strategies as st
from stripe import _encode

from saga_connectors.testing import LocalServer
from saga_connectors.testing.stripe.failure import Failure, known_codes
from saga_connectors.testing.stripe.shape import decoded

INTENT: Any = {
    "amount": 4200,
    "currency": "usd",
    "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
}


def confirmed(client: stripe.StripeClient, key: str, **more: Any) -> stripe.PaymentIntent:
    params: Any = {**INTENT, "payment_method": "pm_card_visa", "confirm": True, **more}
    return client.v1.payment_intents.create(params, {"idempotency_key": key})


@pytest.mark.parametrize(
    ("params", "code", "param"),
    [
        ({"amunt": 4200, "currency": "usd"}, "parameter_unknown", "amunt"),
        ({"currency": "usd"}, "parameter_missing", "amount"),
        ({"amount": 4200}, "parameter_missing", "currency"),
        ({"amount": "much", "currency": "usd"}, "parameter_invalid_integer", "amount"),
        ({"amount": 42.5, "currency": "usd"}, "parameter_invalid_integer", "amount"),
        ({**INTENT, "capture_method": "sometimes"}, None, "capture_method"),
        (
            {"amount": 42, "currency": "usd", "automatic_payment_methods": {"on": True}},
            "parameter_unknown",
            "automatic_payment_methods[on]",
        ),
    ],
)
def test_a_parameter_that_the_package_does_not_know_is_refused(
    client: stripe.StripeClient, server: LocalServer, params: Any, code: str | None, param: str
) -> None:
    with pytest.raises(stripe.InvalidRequestError) as raised:
        client.v1.payment_intents.create(params)
    assert raised.value.error is not None
    assert (raised.value.code, raised.value.error.param) == (code, param)
    assert server.snapshot()["payment_intents"] == {}


def test_options_of_the_client_are_no_parameters(client: stripe.StripeClient) -> None:
    with pytest.raises(stripe.InvalidRequestError, match="unknown parameter: stripe_account"):
        client.v1.customers.create({"stripe_account": "acct_1"})  # pyright: ignore[reportArgumentType]


def test_a_parameter_without_a_meaning_here_is_refused_loudly(client: stripe.StripeClient, server: LocalServer) -> None:
    params: Any = {**INTENT, "transfer_data": {"destination": "acct_1"}}
    with pytest.raises(stripe.APIError, match="does not model transfer_data") as raised:
        client.v1.payment_intents.create(params)
    assert raised.value.http_status == 501
    assert server.snapshot()["payment_intents"] == {}


def test_a_path_that_is_not_there_says_so(client: stripe.StripeClient) -> None:
    with pytest.raises(stripe.InvalidRequestError, match="Unrecognized request URL"):
        client.v1.products.create({"name": "x"})


def test_an_unknown_id_is_a_missing_resource(client: stripe.StripeClient) -> None:
    with pytest.raises(stripe.InvalidRequestError) as raised:
        client.v1.payment_intents.retrieve("pi_nobody")
    assert (raised.value.code, raised.value.http_status) == ("resource_missing", 404)


def test_a_key_of_live_mode_opens_nothing(server: LocalServer) -> None:
    http_client = stripe.RequestsClient(timeout=5)
    stranger = stripe.StripeClient("sk_live_x", base_addresses={"api": server.url}, http_client=http_client)
    with pytest.raises(stripe.AuthenticationError):
        stranger.v1.accounts.retrieve_current()
    http_client.close()


def test_a_property_that_is_no_reference_cannot_be_expanded(client: stripe.StripeClient) -> None:
    intent = confirmed(client, "a")
    with pytest.raises(stripe.InvalidRequestError, match="cannot be expanded"):
        client.v1.payment_intents.retrieve(intent.id, {"expand": ["nothing"]})
    expanded = client.v1.payment_intents.retrieve(intent.id, {"expand": ["latest_charge.refunds"]})
    assert isinstance(expanded.latest_charge, stripe.Charge)
    assert expanded.latest_charge.refunds is not None
    assert expanded.latest_charge.refunds.data == []


def test_the_same_key_is_one_payment(client: stripe.StripeClient, server: LocalServer) -> None:
    first, second = confirmed(client, "same"), confirmed(client, "same")
    assert first.id == second.id
    assert server.snapshot()["net"] == {"": {"usd": 4200}}
    assert [entry.get("replayed") for entry in server.snapshot()["requests"]] == [None, True]


def test_other_keys_are_other_payments(client: stripe.StripeClient, server: LocalServer) -> None:
    assert confirmed(client, "one").id != confirmed(client, "two").id
    assert server.snapshot()["net"] == {"": {"usd": 8400}}


def test_the_same_key_with_other_parameters_is_refused(client: stripe.StripeClient, server: LocalServer) -> None:
    confirmed(client, "same")
    with pytest.raises(stripe.IdempotencyError):
        confirmed(client, "same", amount=4300)
    assert server.snapshot()["net"] == {"": {"usd": 4200}}


def test_a_replay_answers_what_was_and_not_what_is(client: stripe.StripeClient) -> None:
    intent = client.v1.payment_intents.create(INTENT, {"idempotency_key": "k"})
    client.v1.payment_intents.cancel(intent.id)
    assert client.v1.payment_intents.create(INTENT, {"idempotency_key": "k"}).status == "requires_payment_method"


def test_a_decline_is_kept_under_its_key(client: stripe.StripeClient, server: LocalServer) -> None:
    for _ in range(2):
        with pytest.raises(stripe.CardError):
            confirmed(client, "k", payment_method="pm_card_chargeDeclined")
    assert len(server.snapshot()["charges"]) == 1


def test_a_failed_validation_is_not_kept_under_its_key(client: stripe.StripeClient) -> None:
    with pytest.raises(stripe.InvalidRequestError):
        confirmed(client, "k", amount="much")
    assert confirmed(client, "k").status == "succeeded"


def test_a_pruned_key_is_a_new_payment(client: stripe.StripeClient, server: LocalServer) -> None:
    first = confirmed(client, "k")
    server.act("prune_keys")
    assert confirmed(client, "k").id != first.id
    assert server.snapshot()["net"] == {"": {"usd": 8400}}, "the ledger shows a double charge"


def test_every_error_code_is_one_of_the_packages() -> None:
    assert {"charge_already_refunded", "idempotency_key_in_use", "resource_missing"} <= known_codes()
    assert "made_up" not in known_codes()
    with pytest.raises(AssertionError, match="made_up"):
        Failure("no", code="made_up")


@given(
    st.dictionaries(
        st.from_regex(r"[a-z_]{1,8}", fullmatch=True),
        st.one_of(
            st.text("abc", min_size=1),
            st.lists(st.text("abc", min_size=1), min_size=1, max_size=12),
            st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.text("abc"), min_size=1),
        ),
    )
)
def test_a_form_is_read_as_the_package_writes_it(values: dict[str, Any]) -> None:
    form = urlencode(list(_encode._api_encode(values)))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    assert decoded(form) == values
