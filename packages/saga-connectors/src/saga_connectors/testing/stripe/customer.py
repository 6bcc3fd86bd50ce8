"""Customers and their payment methods."""

from typing import Any

from saga_connectors.testing.stripe.card import BY_NUMBER, CARDS
from saga_connectors.testing.stripe.failure import Failure, missing
from saga_connectors.testing.stripe.ledger import Ledger, Object
from saga_connectors.testing.stripe.shape import Values


def create(ledger: Ledger, _ref: str, given: Values) -> Object:
    """Make a customer; `payment_method` is attached to it."""
    method = given.pop("payment_method", None)
    settings = given.pop("invoice_settings", {})
    customer = ledger.add("customer", balance=0, delinquent=False, invoice_settings=_settings())
    try:
        if method is not None:
            attached = attach(ledger, method, {"customer": customer["id"]})
            if settings.get("default_payment_method") == method:
                settings["default_payment_method"] = attached["id"]
        return update(ledger, customer["id"], {**given, "invoice_settings": settings})
    except Failure:
        del ledger.objects["customer"][customer["id"]]
        raise


def update(ledger: Ledger, ref: str, given: Values) -> Object:
    """Change a customer; a metadata key set to the empty string is removed."""
    customer = alive(ledger, ref)
    settings = given.pop("invoice_settings", {})
    default = settings.get("default_payment_method")
    if default:
        settings["default_payment_method"] = _attached(ledger, default, customer["id"])
    metadata = given.pop("metadata", None)
    customer.update(given)
    customer["invoice_settings"].update(settings)
    if metadata is not None:
        merge(customer["metadata"], metadata)
    return customer


def retrieve(ledger: Ledger, ref: str, _given: Values) -> Object:
    """Return a customer; a deleted one is still answered, as deleted."""
    customer = ledger.find("customer", ref)
    return {"id": ref, "object": "customer", "deleted": True} if customer.get("deleted") else customer


def delete(ledger: Ledger, ref: str, _given: Values) -> Object:
    """Delete a customer for good."""
    alive(ledger, ref)["deleted"] = True
    return {"id": ref, "object": "customer", "deleted": True}


def alive(ledger: Ledger, ref: str, *, param: str | None = None) -> Object:
    """Return a customer that is not deleted."""
    customer = ledger.find("customer", ref, param=param)
    if customer.get("deleted"):
        raise missing("customer", ref, param=param or "id", status=400 if param else 404)
    return customer


def create_method(ledger: Ledger, _ref: str, given: Values) -> Object:
    """Make a payment method from the number of a test card."""
    number = given.get("card", {}).get("number")
    if given.get("type") != "card" or number not in BY_NUMBER:
        raise Failure("Your card number is incorrect.", code="incorrect_number", param="card[number]", status=402)
    return _method(ledger, BY_NUMBER[number])


def attach(ledger: Ledger, ref: str, given: Values) -> Object:
    """Attach a payment method to a customer. A test name (`pm_card_visa`) becomes a new method each time."""
    customer = alive(ledger, given["customer"], param="customer")
    method = method_of(ledger, ref)
    card = ledger.cards[method["id"]]
    if not card.attaches:
        raise declined(card.code or "card_declined", card.decline_code)
    if method["customer"] not in (None, customer["id"]):
        raise Failure("The payment method you provided has already been attached to a customer.")
    method["customer"] = customer["id"]
    return method


def detach(ledger: Ledger, ref: str, _given: Values) -> Object:
    """Detach a payment method; it can never be used again."""
    method = ledger.find("payment_method", ref)
    if method["customer"] is None:
        raise Failure("The payment method you provided is not attached to a customer so detachment is impossible.")
    owner = ledger.objects["customer"][method["customer"]]
    if owner["invoice_settings"]["default_payment_method"] == ref:
        owner["invoice_settings"]["default_payment_method"] = None
    method["customer"] = None
    return method


def method_of(ledger: Ledger, ref: str, *, param: str | None = None) -> Object:
    """Return a payment method, made on the spot if `ref` is one of Stripe's test names."""
    if ref in CARDS:
        return _method(ledger, ref)
    return ledger.find("payment_method", ref, param=param)


def declined(code: str, decline_code: str | None, **more: Any) -> Failure:
    """Return a card issuer's no."""
    return Failure(
        "Your card was declined.", code=code, status=402, type="card_error", decline_code=decline_code, **more
    )


def merge(metadata: dict[str, str], given: dict[str, str] | str) -> None:
    """Apply a change of metadata as Stripe does: key by key, the empty string removes."""
    if isinstance(given, str):
        metadata.clear()
        return
    for name, value in given.items():
        if value:
            metadata[name] = value
        else:
            metadata.pop(name, None)


def _method(ledger: Ledger, name: str) -> Object:
    card = CARDS[name]
    method = ledger.add(
        "payment_method",
        type="card",
        card={"brand": card.brand, "last4": card.last4, "exp_month": 12, "exp_year": 2040},
        billing_details={"address": None, "email": None, "name": None, "phone": None},
        customer=None,
        metadata={},
    )
    ledger.cards[method["id"]] = card
    return method


def _attached(ledger: Ledger, ref: str, customer: str) -> str:
    method = ledger.objects["payment_method"].get(ref)
    if method is None or method["customer"] != customer:
        raise Failure(
            f"The customer does not have a payment method with the ID {ref}. "
            "The payment method must be attached to the customer.",
            code="resource_missing",
            param="invoice_settings[default_payment_method]",
        )
    return ref


def _settings() -> Object:
    return {"custom_fields": None, "default_payment_method": None, "footer": None, "rendering_options": None}
