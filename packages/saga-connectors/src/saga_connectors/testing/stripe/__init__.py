"""A local Stripe: payments, refunds and their errors, with a memory.

Start it with `LocalServer.in_thread(vendor())` or `LocalServer.in_process("stripe")`, and give the url to the real
`stripe` package: `StripeClient("sk_test_x", base_addresses={"api": server.url})`, or to the connector as `base_url`.

It is strict where Stripe is. Parameters are checked against the installed package's types and error codes against its
list. Idempotency keys keep the first answer, a stored 500 included. Nothing is refunded twice or beyond what was taken.
Test cards behave as in https://docs.stripe.com/testing (see `card`). It knows customers, payment methods,
PaymentIntents, charges, refunds and the account; anything else is 404.

`server.act(...)` does what happens without a call: `dispute(charge=)`, `settle_refund(refund_id=, status=)`,
`refunds_become(status=)`, `balance(is_empty=)`, `bill(customer=, currency=)`, `settle_account(default_currency=)`,
`set_status(intent=, status=)`, `prune_keys()`. An `answer` fault with a status from 500 on is kept under the request's
key, before or after the effect; lower ones come before anything is executed and are not kept.
"""

from saga_connectors.errors import MissingExtra

try:
    from saga_connectors.testing.stripe.api import StripeVendor
except ModuleNotFoundError as missing:
    if missing.name != "stripe":
        raise
    raise MissingExtra("saga_connectors.testing.stripe", "stripe", library="stripe") from missing


def vendor() -> StripeVendor:
    """Return a fresh account."""
    return StripeVendor()


__all__ = ["StripeVendor", "vendor"]
