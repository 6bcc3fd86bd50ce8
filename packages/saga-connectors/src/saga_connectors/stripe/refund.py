"""Undoing a charge: cancel what took no money, refund what is left of the rest, always from a fresh look."""

from datetime import timedelta
from typing import Literal, NamedTuple, TypeAlias

import stripe
from stripe.params import RefundListParams

from saga_connectors.stripe.client import client_of
from saga_connectors.stripe.errors import AnswerLost, is_replay, mapped, told
from saga_core import AlreadyUndone, Conflict, Landed, NotLanded, Pending, current_step, inverse

CHECK_AFTER = timedelta(hours=1)
LOOKS = 8
PAGE = 100
_MOVED_ON = frozenset({"charge_already_refunded", "payment_intent_unexpected_state"})
_FOR_A_PERSON = frozenset({"charge_disputed", "charge_not_refundable", "refund_disputed_payment"})

Act = Literal["cancel", "refund"]
Answer: TypeAlias = AlreadyUndone | Pending | Conflict | None


class Seen(NamedTuple):
    """A payment as it is now, in minor units.

    Attributes:
        status: Of the PaymentIntent; `missing` if there is none.
        received: What it took.
        returned: What is back with the customer.
        waiting: What refunds on their way will return.
        pending: A refund on its way.
        broken: A refund of this undo that failed or was canceled, and how.
        is_ours: This undo has refunded something.
        is_disputed: The customer's bank takes the charge back, or has asked about it.
    """

    status: str
    received: int = 0
    returned: int = 0
    waiting: int = 0
    pending: str | None = None
    broken: str | None = None
    is_ours: bool = False
    is_disputed: bool = False

    @property
    def is_undone(self) -> bool:
        """Nothing of the charge is with us any more."""
        is_back = self.status == "succeeded" and self.returned >= self.received and not self.is_disputed
        return is_back or self.status == "canceled"


@inverse("stripe.undo_charge", keyed=True)
async def undo_charge(*, payment_intent: str, amount: int, currency: str, credential_ref: str) -> Answer:
    """Cancel the payment, or refund what is left of it; what others have refunded already is respected.

    A refund that is on its way is `Pending`. A failed refund, a disputed charge and a payment that is not there are for
    a person.

    Args:
        payment_intent: Stripe's id of the payment.
        amount: What was charged, in minor units; told to a person in a conflict.
        currency: The currency of `amount`.
        credential_ref: The credential to resolve.

    Raises:
        RequestRefused: Stripe refuses the key or, for now, the refund (an empty balance).
        StripeUnavailable: Stripe could not be reached.
        AnswerLost: Stripe's answer did not come; a repeat has no second effect.
    """
    return await _undo(payment_intent, f"a charge of {amount} {currency} ({payment_intent})", credential_ref)


@undo_charge.probe
async def _has_landed(
    *,
    payment_intent: str,
    amount: int,  # noqa: ARG001 - a probe takes its inverse's arguments
    currency: str,  # noqa: ARG001
    credential_ref: str,
) -> Landed[None] | NotLanded:
    client = await client_of(credential_ref)
    seen = await _look(client, payment_intent, current_step().key)
    return Landed(None) if seen.is_undone else NotLanded()


@undo_charge.observe
async def _observe(
    pending: Pending,  # noqa: ARG001 - everything is looked at afresh
    *,
    payment_intent: str,
    amount: int,
    currency: str,
    credential_ref: str,
) -> Answer:
    # A payment that was still processing may be refundable now: under the same key that is asked for once.
    return await _undo(payment_intent, f"a charge of {amount} {currency} ({payment_intent})", credential_ref)


async def _undo(payment_intent: str, wrote: str, credential_ref: str) -> Answer:
    step = current_step()
    client = await client_of(credential_ref)
    metadata = {"saga_step": step.key, "saga": step.saga_id}
    generation, has_acted = 1, False
    for _ in range(LOOKS):
        seen = await _look(client, payment_intent, step.key)
        todo = decide(seen, payment_intent, wrote)
        if not isinstance(todo, str):
            # What was undone just now, by us, is undone and not "already undone".
            return None if has_acted and isinstance(todo, AlreadyUndone) else todo
        key = f"{step.key}-{todo}" + (f"-{generation}" if generation > 1 else "")
        try:
            await _act(client, todo, payment_intent, metadata, key)
            has_acted = True
        except stripe.StripeError as error:
            if is_replay(error):
                # It ended like this before, and the next look tells whether it left anything. If not, only another
                # key can do it: this one answers the same for ever, a 500 too.
                generation += 1
            elif (answer := _refused(error, wrote)) is not None:
                return answer
    raise AnswerLost(
        "the payment could not be brought to an end that stays",
        world="it stands, or is undone in part",
        next="nothing to do: it is tried again",
    )


def decide(seen: Seen, payment_intent: str, wrote: str) -> Act | Answer:
    """Say what the payment needs to be undone, or the answer if it needs nothing that we may do."""
    match seen.status:
        case "missing":
            return Conflict(wrote=wrote, found="no such payment under this credential")
        case "canceled":
            return AlreadyUndone()
        case "processing":
            return Pending(payment_intent, check_after=CHECK_AFTER)
        case "succeeded":
            return _decide_paid(seen, wrote)
        case _:
            return "cancel"


def _decide_paid(seen: Seen, wrote: str) -> Act | Answer:
    if seen.is_disputed:
        return Conflict(wrote=wrote, found="the customer's bank disputes it, and money may go back that way")
    if seen.broken is not None:
        return Conflict(wrote=wrote, found=seen.broken)
    if seen.returned + seen.waiting < seen.received:
        # Without an amount Stripe refunds what is left at that moment, so a refund in between costs nobody anything.
        return "refund"
    if seen.pending is not None:
        return Pending(seen.pending, check_after=CHECK_AFTER)
    return None if seen.is_ours else AlreadyUndone()


async def _look(client: stripe.StripeClient, payment_intent: str, key: str) -> Seen:
    with told("show the payment"):
        try:
            intent = await client.v1.payment_intents.retrieve_async(payment_intent, {"expand": ["latest_charge"]})
        except stripe.InvalidRequestError as error:
            if error.code != "resource_missing":
                raise
            return Seen("missing")
        if intent.status != "succeeded":
            return Seen(intent.status)
        refunds = await _refunds_of(client, payment_intent)
    charge = intent.latest_charge
    ours = [refund for refund in refunds if refund.metadata and refund.metadata.to_dict().get("saga_step") == key]
    pending = [refund for refund in refunds if refund.status in ("pending", "requires_action")]
    broken = [f"its refund {refund.id} {refund.status}" for refund in ours if refund.status in ("failed", "canceled")]
    return Seen(
        intent.status,
        received=intent.amount_received,
        returned=sum(refund.amount for refund in refunds if refund.status == "succeeded"),
        waiting=sum(refund.amount for refund in pending),
        pending=pending[0].id if pending else None,
        broken=broken[0] if broken else None,
        is_ours=bool(ours),
        is_disputed=isinstance(charge, stripe.Charge) and charge.disputed,
    )


async def _refunds_of(client: stripe.StripeClient, payment_intent: str) -> list[stripe.Refund]:
    found: list[stripe.Refund] = []
    params: RefundListParams = {"payment_intent": payment_intent, "limit": PAGE}
    while True:
        page = await client.v1.refunds.list_async(params)
        found += page.data
        if not page.has_more:
            return found
        params["starting_after"] = page.data[-1].id


async def _act(client: stripe.StripeClient, todo: Act, payment_intent: str, metadata: dict[str, str], key: str) -> None:
    if todo == "cancel":
        await client.v1.payment_intents.cancel_async(
            payment_intent, {"cancellation_reason": "abandoned"}, {"idempotency_key": key}
        )
    else:
        await client.v1.refunds.create_async(
            {"payment_intent": payment_intent, "metadata": metadata}, {"idempotency_key": key}
        )


def _refused(error: stripe.StripeError, wrote: str) -> Conflict | None:
    """Return the conflict that Stripe's refusal means; None if the payment has moved on and is to be looked at again.

    Raises:
        SagaError: It is to be tried again later.
    """
    if error.code in _MOVED_ON:
        return None
    if error.code in _FOR_A_PERSON:
        return Conflict(wrote=wrote, found=f"Stripe will not refund it: {error.code}")
    if isinstance(error, stripe.IdempotencyError):
        return Conflict(wrote=wrote, found="the key of its undo was used for another request")
    raise mapped(error, "undo the payment", "the undo may have landed") from error
