"""Undoing charges that somebody else has touched since, and refunds that do not go through at once."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import stripe

from saga_connectors.stripe import charge, refund
from saga_connectors.stripe.refund import Seen, decide
from saga_connectors.testing import LocalServer
from saga_connectors.testing.stripe import vendor
from saga_core import AlreadyUndone, Conflict, Pending, Saga, Store, recovery, saga_scope

pytestmark = pytest.mark.anyio


class Hallucination(Exception):
    """The run fails after its effects."""


def net(server: LocalServer) -> dict[str, int]:
    return {customer: sums["usd"] for customer, sums in server.snapshot()["net"].items()}


def refunds(server: LocalServer) -> list[tuple[int, str]]:
    return [(made["amount"], made["status"]) for made in server.snapshot()["refunds"].values()]


def sent(server: LocalServer, path: str = "/v1/refunds") -> int:
    return sum(entry["method"] == "POST" and entry["path"] == path for entry in server.snapshot()["requests"])


def until(happened: Callable[[], bool], seconds: float = 20) -> None:
    """Wait for what another thread of this process does."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


class Story:
    """A saga that charges, lets others act, and fails."""

    def __init__(self, store: Store, credential: str) -> None:
        self.store = store
        self.credential = credential

    async def __call__(
        self, customers: list[str], then: Callable[[str], object], *, unwind: timedelta = timedelta(seconds=20)
    ) -> Saga:
        """Charge each customer 4200; `then` gets the first payment's id before the run fails."""
        sagas: list[Saga] = []
        with pytest.raises(Hallucination):
            async with saga_scope("test", store=self.store, unwind_timeout=unwind) as saga:
                sagas.append(saga)
                charged = [
                    await charge(customer_id=customer, amount=4200, credential_ref=self.credential)
                    for customer in customers
                ]
                then(charged[0]["payment_intent"])
                raise Hallucination
        return sagas[0]


@pytest.fixture
def story(store: Store, credential: str) -> Story:
    return Story(store, credential)


@pytest.fixture
def look_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refund, "CHECK_AFTER", timedelta(milliseconds=20))


def test_what_a_payment_needs_follows_from_how_it_stands() -> None:
    def told(**seen: Any) -> object:
        return decide(Seen(**seen), "pi_1", "a charge")

    paid = {"status": "succeeded", "received": 4200}
    assert told(status="requires_payment_method") == "cancel"
    assert told(status="requires_confirmation") == "cancel"
    assert told(status="requires_action") == "cancel"
    assert told(status="requires_capture") == "cancel"
    assert told(**paid) == "refund"
    assert told(**paid, returned=1000) == "refund"
    assert told(**paid, returned=1000, waiting=3199) == "refund"
    assert told(**paid, returned=4200, is_ours=True) is None
    assert isinstance(told(**paid, returned=4200), AlreadyUndone)
    assert isinstance(told(status="canceled"), AlreadyUndone)
    assert isinstance(told(status="processing"), Pending)
    assert isinstance(told(**paid, returned=1000, waiting=3200, pending="re_1"), Pending)
    for conflict in (
        told(status="missing"),
        told(**paid, is_disputed=True),
        told(**paid, returned=4200, is_disputed=True),
        told(**paid, broken="its refund re_1 failed"),
    ):
        assert isinstance(conflict, Conflict)


async def test_what_staff_refunded_before_is_respected(
    client: stripe.StripeClient, server: LocalServer, story: Story, customer: str
) -> None:
    saga = await story([customer], lambda intent: client.v1.refunds.create({"payment_intent": intent, "amount": 1000}))
    assert refunds(server) == [(1000, "succeeded"), (3200, "succeeded")]
    assert net(server) == {customer: 0}
    assert saga.report.state == "rolled_back"


async def test_a_charge_that_staff_refunded_is_already_undone(
    client: stripe.StripeClient, server: LocalServer, story: Story, customer: str
) -> None:
    saga = await story([customer], lambda intent: client.v1.refunds.create({"payment_intent": intent}))
    assert refunds(server) == [(4200, "succeeded")]
    assert sent(server) == 1, "nothing was asked of Stripe by the undo"
    assert saga.report.state == "rolled_back"
    assert "somebody had undone it before" in saga.report.steps[0].words


async def test_a_disputed_charge_is_a_case_and_others_are_undone_in_order(
    server: LocalServer, story: Story, customer: str, make_customer: Callable[[str], str]
) -> None:
    def dispute(intent: str) -> None:
        server.act("dispute", charge=server.snapshot()["payment_intents"][intent]["latest_charge"])

    others = [make_customer("pm_card_visa") for _ in range(2)]
    saga = await story([customer, *others], dispute)
    assert net(server) == {customer: 4200, others[0]: 0, others[1]: 0}
    assert [made["customer"] for made in server.snapshot()["refunds"].values()] == others[::-1]
    assert [step.state for step in saga.report.steps] == ["conflict", "undone", "undone"]
    assert saga.report.state == "needs_human"
    assert len(saga.report.cases) == 1


async def test_a_dispute_between_the_look_and_the_refund_is_a_case(
    server: LocalServer, story: Story, customer: str
) -> None:
    server.arm("hang", on="POST /v1/refunds", seconds=0.3)

    def dispute_soon(intent: str) -> None:
        found = server.snapshot()["payment_intents"][intent]["latest_charge"]

        def act() -> None:
            until(lambda: bool(server.snapshot()["running_keys"]))
            server.act("dispute", charge=found)

        threading.Thread(target=act).start()

    saga = await story([customer], dispute_soon)
    assert refunds(server) == []
    assert [step.state for step in saga.report.steps] == ["conflict"]


@pytest.mark.usefixtures("look_again_at_once")
async def test_a_pending_refund_is_undone_only_when_it_has_succeeded(
    server: LocalServer, story: Story, make_customer: Callable[[str], str]
) -> None:
    customer = make_customer("pm_card_pendingRefund")
    saga = await story([customer], lambda _: None, unwind=timedelta(seconds=0.2))
    assert [step.state for step in saga.report.steps] == ["undo_pending"]
    assert not saga.report.is_clean
    (made,) = server.snapshot()["refunds"]
    server.act("settle_refund", refund_id=made, status="succeeded")
    until(lambda: saga.report.state == "rolled_back")
    assert refunds(server) == [(4200, "succeeded")]
    assert net(server) == {customer: 0}


@pytest.mark.usefixtures("look_again_at_once")
async def test_a_refund_that_fails_in_the_end_is_a_case(
    server: LocalServer, story: Story, make_customer: Callable[[str], str]
) -> None:
    customer = make_customer("pm_card_pendingRefund")
    saga = await story([customer], lambda _: None, unwind=timedelta(seconds=0.2))
    (made,) = server.snapshot()["refunds"]
    server.act("settle_refund", refund_id=made, status="failed")
    until(lambda: saga.report.state == "needs_human")
    assert refunds(server) == [(4200, "failed")], "it is not refunded again behind a person's back"
    assert [step.state for step in saga.report.steps] == ["conflict"]
    assert made in saga.report.steps[0].words
    assert len(saga.report.cases) == 1
    assert net(server) == {customer: 4200}


async def test_a_refund_that_fails_at_once_is_a_case(server: LocalServer, story: Story, customer: str) -> None:
    saga = await story([customer], lambda _: server.act("refunds_become", status="failed"))
    assert refunds(server) == [(4200, "failed")]
    assert [step.state for step in saga.report.steps] == ["conflict"]


@pytest.mark.usefixtures("look_again_at_once")
async def test_a_payment_still_processing_is_refunded_once_it_has_succeeded(
    server: LocalServer, story: Story, customer: str
) -> None:
    intents: list[str] = []

    def process(intent: str) -> None:
        intents.append(intent)
        server.act("set_status", intent=intent, status="processing")

    saga = await story([customer], process, unwind=timedelta(seconds=0.2))
    assert [step.state for step in saga.report.steps] == ["undo_pending"]
    assert refunds(server) == []
    server.act("set_status", intent=intents[0], status="succeeded")
    until(lambda: saga.report.state == "rolled_back")
    assert refunds(server) == [(4200, "succeeded")]


async def test_an_empty_balance_is_tried_again(server: LocalServer, story: Story, customer: str) -> None:
    saga = await story([customer], lambda _: server.act("balance", is_empty=True), unwind=timedelta(seconds=0.1))
    assert refunds(server) == []
    server.act("balance", is_empty=False)
    until(lambda: saga.report.state == "rolled_back")
    assert refunds(server) == [(4200, "succeeded")]
    assert net(server) == {customer: 0}


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_stored_500_does_not_stop_the_refund_nor_double_it(
    server: LocalServer, story: Story, customer: str, when: Any
) -> None:
    server.arm("answer", on="POST /v1/refunds", when=when, status=500)
    saga = await story([customer], lambda _: None)
    assert refunds(server) == [(4200, "succeeded")]
    assert net(server) == {customer: 0}
    assert saga.report.state == "rolled_back"


async def test_a_lost_answer_of_the_refund_is_one_refund(server: LocalServer, story: Story, customer: str) -> None:
    server.arm("drop", on="POST /v1/refunds", when="after", count=5)
    saga = await story([customer], lambda _: None)
    assert refunds(server) == [(4200, "succeeded")]
    assert saga.report.state == "rolled_back"


async def test_a_rate_limit_is_waited_out_as_long_as_stripe_asks(
    server: LocalServer, story: Story, customer: str
) -> None:
    server.arm("answer", on="POST /v1/refunds", status=429, headers={"Retry-After": "1"})
    begun = time.monotonic()
    saga = await story([customer], lambda _: None)
    assert time.monotonic() - begun >= 1
    assert refunds(server) == [(4200, "succeeded")]
    assert saga.report.state == "rolled_back"


async def test_a_credential_of_another_account_undoes_nothing(
    story: Story, customer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalServer.in_thread(vendor()) as other:
        credential = f'{{"api_key": "sk_test_other", "base_url": "{other.url}"}}'
        saga = await story([customer], lambda _: monkeypatch.setenv("SAGA_CREDENTIAL_STRIPE_TEST", credential))
        assert sent(other) == 0
    assert [step.state for step in saga.report.steps] == ["conflict"]


async def test_an_undone_saga_is_undone_once_however_often_recovery_comes(
    server: LocalServer, each_store: Store, customer: str, credential: str
) -> None:
    await Story(each_store, credential)([customer], lambda _: None)
    before = server.snapshot()
    for _ in range(2):
        recovery.recover(each_store)
    assert server.snapshot() == before
    assert refunds(server) == [(4200, "succeeded")]
