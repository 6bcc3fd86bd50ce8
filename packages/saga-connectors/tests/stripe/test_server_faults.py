"""Faults: what the network and the vendor do on bad days, each shown by the ledger."""

import threading
from typing import Any

import pytest
import stripe

from saga_connectors.testing import LocalServer
from saga_connectors.testing.fault import Fault

INTENTS = "POST /v1/payment_intents"
PAID: Any = {
    "amount": 4200,
    "currency": "usd",
    "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
    "payment_method": "pm_card_visa",
    "confirm": True,
}


def pay(client: stripe.StripeClient, key: str = "k") -> stripe.PaymentIntent:
    return client.v1.payment_intents.create(PAID, {"idempotency_key": key})


def taken(server: LocalServer) -> int:
    return server.snapshot()["net"].get("", {}).get("usd", 0)


def test_a_lost_answer_leaves_the_effect(client: stripe.StripeClient, server: LocalServer) -> None:
    server.arm("drop", on=INTENTS, when="after")
    with pytest.raises(stripe.APIConnectionError):
        pay(client)
    assert taken(server) == 4200
    assert pay(client).status == "succeeded"
    assert taken(server) == 4200


def test_a_lost_request_leaves_nothing(client: stripe.StripeClient, server: LocalServer) -> None:
    server.arm("drop", on=INTENTS)
    with pytest.raises(stripe.APIConnectionError):
        pay(client)
    assert taken(server) == 0
    assert server.snapshot()["requests"] == []


def test_a_late_request_lands_when_its_client_is_long_gone(client: stripe.StripeClient, server: LocalServer) -> None:
    server.arm("late", on=INTENTS)
    with pytest.raises(stripe.APIConnectionError):
        pay(client)
    assert taken(server) == 0
    server.release()
    assert taken(server) == 4200
    assert pay(client).status == "succeeded"
    assert taken(server) == 4200


def test_a_reset_forgets_what_would_have_landed_late(client: stripe.StripeClient, server: LocalServer) -> None:
    server.arm("late", on=INTENTS)
    with pytest.raises(stripe.APIConnectionError):
        pay(client)
    server.reset()
    server.release()
    assert server.snapshot()["payment_intents"] == {}


@pytest.mark.parametrize(("when", "amount"), [("before", 0), ("after", 4200)])
def test_a_stored_500_is_answered_for_ever(
    client: stripe.StripeClient, server: LocalServer, when: Any, amount: int
) -> None:
    server.arm("answer", on=INTENTS, when=when, status=500)
    replayed: list[str | None] = []
    for _ in range(2):
        with pytest.raises(stripe.APIError) as raised:
            pay(client)
        assert raised.value.http_status == 500
        assert raised.value.headers is not None
        replayed.append(raised.value.headers.get("idempotent-replayed"))
    assert replayed == [None, "true"]
    assert taken(server) == amount
    assert pay(client, "other").status == "succeeded"


def test_a_rate_limit_is_kept_under_no_key(client: stripe.StripeClient, server: LocalServer) -> None:
    server.arm("answer", on=INTENTS, status=429, headers={"Retry-After": "7"})
    with pytest.raises(stripe.RateLimitError) as raised:
        pay(client)
    assert raised.value.headers is not None
    assert raised.value.headers["retry-after"] == "7"
    assert pay(client).status == "succeeded"


def test_a_key_in_flight_is_in_use(client: stripe.StripeClient, server: LocalServer) -> None:
    server.arm("hang", on=INTENTS)
    paid: list[stripe.PaymentIntent] = []
    first = threading.Thread(target=lambda: paid.append(pay(client)))
    first.start()
    while not server.snapshot()["running_keys"]:
        pass
    with pytest.raises(stripe.APIError) as raised:
        pay(client)
    assert raised.value.http_status == 409
    assert raised.value.error is not None
    assert raised.value.error.code == "idempotency_key_in_use"
    server.release()
    first.join()
    assert paid[0].status == "succeeded"
    assert taken(server) == 4200


@pytest.mark.parametrize(("when", "amount"), [("before", 0), ("after", 4200)])
def test_a_client_that_gives_up_on_a_silent_server_cannot_tell(server: LocalServer, when: Any, amount: int) -> None:
    impatient = stripe.RequestsClient(timeout=0.2)
    client = stripe.StripeClient("sk_test_x", base_addresses={"api": server.url}, http_client=impatient)
    server.arm("hang", on=INTENTS, when=when)
    with pytest.raises(stripe.APIConnectionError):
        pay(client)
    assert taken(server) == amount
    impatient.close()


def test_only_the_nth_matching_request_is_hit(client: stripe.StripeClient, server: LocalServer) -> None:
    server.arm("drop", on=INTENTS, nth=2, count=2)
    fates: list[str] = []
    for number in range(4):
        try:
            fates.append(str(pay(client, f"k{number}").status))
        except stripe.APIConnectionError:
            fates.append("lost")
    assert fates == ["succeeded", "lost", "lost", "succeeded"]


def test_an_unarmed_server_does_no_harm(client: stripe.StripeClient, server: LocalServer) -> None:
    server.arm("drop", on="POST /v1/refunds")
    server.arm("drop", on="GET /v1/payment_intents")
    server.arm("drop", on="POST /v1/payment_intents/*/confirm")
    assert pay(client).status == "succeeded"


def test_a_star_is_one_segment_of_the_path() -> None:
    fault = Fault("drop", "POST /v1/payment_intents/*/confirm", count=9)
    assert fault.fires("POST", "/v1/payment_intents/pi_1/confirm")
    assert not fault.fires("POST", "/v1/payment_intents/pi_1/x/confirm")
    assert not fault.fires("POST", "/v1/payment_intents/confirm")
    assert not fault.fires("GET", "/v1/payment_intents/pi_1/confirm")


def test_an_unknown_fault_is_refused(server: LocalServer) -> None:
    with pytest.raises(ValueError, match="explode"):
        server.arm("explode", on=INTENTS)  # pyright: ignore[reportArgumentType]
