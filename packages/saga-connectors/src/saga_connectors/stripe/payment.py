"""Charging a customer's default payment method, in two steps that leave no doubt unresolvable.

A PaymentIntent is created unconfirmed, its id is noted in the log, then it is confirmed. Whatever is lost on the way,
Stripe can be asked for that one payment afterwards; before the id is known, for the one that carries the step's key.
"""

import logging
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

import stripe
from stripe.params import PaymentIntentListParams

from saga_connectors.errors import CredentialMalformed, CredentialMissing
from saga_connectors.stripe.client import LANDS_WITHIN, client_of
from saga_connectors.stripe.errors import (
    AnswerLost,
    ChargeCanceled,
    ChargeDeclined,
    NotChargeable,
    NothingCharged,
    RequestRefused,
    reason_of,
    told,
)
from saga_connectors.stripe.refund import undo_charge
from saga_core import (
    Attempt,
    Call,
    Compensation,
    Landed,
    NotLanded,
    Step,
    Unknown,
    compensable,
    current_step,
)

log = logging.getLogger("saga_connectors.stripe")

REFUNDABLE_WITHIN = timedelta(days=180)
CLOCKS_APART = timedelta(seconds=60)
PAGE = 100
_UNCONFIRMED = frozenset({"requires_payment_method", "requires_confirmation", "requires_action"})


class Charge(TypedDict):
    """A payment as Stripe answered it; `amount` in minor units. Only the status `succeeded` means paid.

    `processing` means that the money is on its way (bank debits); the `requires_...` ones mean that none moved.
    """

    payment_intent: str
    amount: int
    currency: str
    status: str


@compensable(
    "stripe.charge",
    money=("amount", "currency"),
    not_landed=(NothingCharged, CredentialMissing, CredentialMalformed),
    lands_within=LANDS_WITHIN,
    undo_within=REFUNDABLE_WITHIN,
    resource=lambda attempt: f"stripe.customer:{attempt.args['customer_id']}",
)
async def charge(*, customer_id: str, amount: int, credential_ref: str, currency: str | None = None) -> Charge:
    """Charge a customer's default payment method, without the customer being present.

    The undo cancels the payment, or refunds what is left of it then.

    Args:
        customer_id: Stripe's id of the customer.
        amount: In the currency's minor unit; never converted.
        credential_ref: The credential to resolve; see the package.
        currency: Three letters. Default: the customer's currency, else the account's default; recorded either way.

    Raises:
        ChargeDeclined: The bank said no. The payment is canceled.
        NotChargeable: The customer has no default payment method, or no currency is known.
        RequestRefused: Stripe refused the request or the key.
        ChargeCanceled: Whether the payment was confirmed was unclear, so it was canceled.
        StripeUnavailable: Stripe could not be reached; nothing was asked of it.
        AnswerLost: It may have landed; the saga settles it.
    """
    step = current_step()
    client = await client_of(credential_ref)
    method = await _default_method(client, customer_id)
    intent = await _created(client, step, customer_id, amount, currency or "")
    await step.note(intent=intent.id)
    try:
        with told("confirm the payment", lost="the payment may have been taken"):
            confirmed = await client.v1.payment_intents.confirm_async(
                intent.id,
                {"payment_method": method, "off_session": True},
                {"idempotency_key": f"{step.key}-confirm"},
            )
        if confirmed.status not in _UNCONFIRMED:
            return _charge_of(confirmed)
        raise ChargeDeclined("the payment wants the customer to act", next="ask for another payment method")
    except (ChargeDeclined, RequestRefused, AnswerLost) as failure:
        closed = await _closed(client, step, intent.id)
        if closed is not None and closed.status != "canceled":
            return _charge_of(closed)
        if isinstance(failure, ChargeDeclined):
            raise
        if closed is None:
            raise _unclear() from failure
        raise _canceled(closed) from failure


@charge.undo
def _undo(call: Call[Charge]) -> Compensation:
    charged = call.result
    return undo_charge.bind(
        payment_intent=charged["payment_intent"],
        amount=charged["amount"],
        currency=charged["currency"],
        credential_ref=call.args["credential_ref"],
    )


@charge.prepare
async def _with_currency(args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Name the currency, so that the gate and the log see it; reads only."""
    client = await client_of(args["credential_ref"])
    currency: str | None = args["currency"]
    if currency is None:
        with told("name the currency"):
            customer = await client.v1.customers.retrieve_async(args["customer_id"])
            currency = getattr(customer, "currency", None)
            if currency is None:
                currency = (await client.v1.accounts.retrieve_current_async()).default_currency
    if currency is None:
        raise NotChargeable(
            "neither the customer nor the account has a currency",
            next="pass currency=",
        )
    return {**args, "currency": currency.lower()}


@charge.probe
async def _probe(attempt: Attempt) -> Landed[Charge] | NotLanded | Unknown:
    """Ask Stripe for the noted payment, else for one that carries the step's key."""
    client = await client_of(attempt.args["credential_ref"])
    noted: str | None = attempt.notes.get("intent")
    with told("show the payment"):
        if noted is not None:
            intent = await client.v1.payment_intents.retrieve_async(noted)
        else:
            intent = await _find(client, attempt.key, attempt.args["customer_id"], attempt.started_at)
    # A canceled payment took nothing and never will; an unconfirmed one landed as what it is, so that undo cancels it.
    if intent is None or intent.status == "canceled":
        return NotLanded()
    return Landed(_charge_of(intent))


async def _default_method(client: stripe.StripeClient, customer_id: str) -> str:
    with told("show the customer"):
        customer = await client.v1.customers.retrieve_async(customer_id)
    settings = getattr(customer, "invoice_settings", None)
    found = getattr(settings, "default_payment_method", None) or getattr(customer, "default_source", None)
    if not isinstance(found, str):
        raise NotChargeable(
            "the customer is deleted or has no default payment method",
            next="set invoice_settings.default_payment_method on the customer",
        )
    return found


async def _created(
    client: stripe.StripeClient, step: Step, customer_id: str, amount: int, currency: str
) -> stripe.PaymentIntent:
    """Create the payment unconfirmed; no money moves. If the answer is lost, look whether it is there."""
    started = datetime.now(UTC)
    try:
        with told("create the payment", lost="an unconfirmed payment may be there; no money was moved"):
            return await client.v1.payment_intents.create_async(
                {
                    "amount": amount,
                    "currency": currency,
                    "customer": customer_id,
                    # Nobody is there to be redirected.
                    "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
                    "metadata": {"saga_step": step.key, "saga": step.saga_id},
                },
                {"idempotency_key": f"{step.key}-create"},
            )
    except AnswerLost:
        with suppress(stripe.StripeError):
            found = await _find(client, step.key, customer_id, started)
            if found is not None:
                return found
        raise


async def _find(
    client: stripe.StripeClient, key: str, customer_id: str, started: datetime
) -> stripe.PaymentIntent | None:
    """Look through the customer's payments since `started`; Stripe's search lags, its lists do not."""
    since = int((started - CLOCKS_APART).timestamp())
    params: PaymentIntentListParams = {"customer": customer_id, "created": {"gte": since}, "limit": PAGE}
    while True:
        page = await client.v1.payment_intents.list_async(params)
        for intent in page.data:
            if intent.metadata.to_dict().get("saga_step") == key:
                return intent
        if not page.has_more:
            return None
        params["starting_after"] = page.data[-1].id


async def _closed(client: stripe.StripeClient, step: Step, intent_id: str) -> stripe.PaymentIntent | None:
    """Cancel the payment unless it was taken, so that a late confirmation finds it closed; None if nobody answers."""
    try:
        intent = await client.v1.payment_intents.retrieve_async(intent_id)
        if intent.status not in _UNCONFIRMED:
            return intent
        with suppress(stripe.InvalidRequestError):
            await client.v1.payment_intents.cancel_async(
                intent_id, {"cancellation_reason": "abandoned"}, {"idempotency_key": f"{step.key}-cancel"}
            )
        return await client.v1.payment_intents.retrieve_async(intent_id)
    except stripe.StripeError as error:
        log.warning("the unconfirmed payment of a failed charge could not be canceled: %s", reason_of(error))
        return None


def _unclear() -> AnswerLost:
    return AnswerLost(
        "Stripe did not say whether the payment is confirmed",
        world="the payment may have been taken",
        next="nothing to do: it is settled by asking Stripe",
    )


def _canceled(intent: stripe.PaymentIntent) -> NothingCharged:
    last = intent.last_payment_error
    if last is not None:
        declined = ChargeDeclined("Stripe did not confirm the payment: declined", next="ask for another payment method")
        declined.reason = last.decline_code or last.code or ""
        return declined
    return ChargeCanceled(
        "whether the payment was confirmed was unclear, so it was canceled",
        next="charge again if the money is still wanted",
    )


def _charge_of(intent: stripe.PaymentIntent) -> Charge:
    return {
        "payment_intent": intent.id,
        "amount": intent.amount,
        "currency": intent.currency,
        "status": intent.status,
    }
