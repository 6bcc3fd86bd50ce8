"""Everything the local Stripe knows: objects as it would answer them, and what follows from them."""

import copy
import itertools
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from stripe import Account, Charge, Customer, Dispute, PaymentIntent, PaymentMethod, Refund, StripeObject

from saga_connectors.testing.stripe.card import Card
from saga_connectors.testing.stripe.failure import Failure, missing

Object = dict[str, Any]

_CLASSES: dict[str, tuple[type[StripeObject], str]] = {
    "customer": (Customer, "cus"),
    "payment_method": (PaymentMethod, "pm"),
    "payment_intent": (PaymentIntent, "pi"),
    "charge": (Charge, "ch"),
    "refund": (Refund, "re"),
    "dispute": (Dispute, "du"),
}
# What Stripe leaves out of an answer unless it is there (or expanded).
_OPTIONAL = {"OBJECT_NAME", "deleted", "sources", "subscriptions", "tax_ids", "tax", "cash_balance", "refunds"}


class Ledger:
    """The objects of one account."""

    def __init__(self) -> None:
        self._serials = itertools.count(1)
        self.account: Object = {
            **_blank(Account),
            "id": "acct_local",
            "object": "account",
            "country": "US",
            "default_currency": "usd",
            "charges_enabled": True,
        }
        self.objects: dict[str, dict[str, Object]] = {kind: {} for kind in _CLASSES}
        self.cards: dict[str, Card] = {}
        self.refunds_become: str | None = None
        self.is_balance_empty = False

    def add(self, kind: str, **fields: Any) -> Object:
        """Make an object with every key that the package's class has, and keep it."""
        cls, prefix = _CLASSES[kind]
        blank = {} if kind == "payment_method" else _blank(cls)
        made: Object = {
            **blank,
            "id": f"{prefix}_local{next(self._serials):06d}",
            "object": kind,
            "created": int(time.time()),
            **({"livemode": False} if "livemode" in cls.__annotations__ else {}),
            **fields,
        }
        self.objects[kind][made["id"]] = made
        return made

    def find(self, kind: str, ref: str, *, param: str | None = None) -> Object:
        """Return an object by its id; the error says whether the path or a parameter named it."""
        found = self.objects[kind].get(ref)
        if found is None:
            raise missing(kind, ref, param=param or "id", status=400 if param else 404)
        return found

    def newest(self, kind: str) -> Iterable[Object]:
        """Return the objects of a kind as lists show them, the newest first."""
        return reversed(self.objects[kind].values())

    def of_payment(self, kind: str, intent: str) -> list[Object]:
        """Return the charges or refunds of a payment, the oldest first."""
        return [item for item in self.objects[kind].values() if item["payment_intent"] == intent]

    def shown(self, item: Object, expand: Iterable[str] = ()) -> Object:
        """Return a copy of `item` to answer with, references replaced where `expand` asks for it."""
        answer = copy.deepcopy(item)
        for path in expand:
            self._expand(answer, path.split("."), path)
        return answer

    def _expand(self, item: Object, names: list[str], path: str) -> None:
        name, *rest = names
        if name == "refunds" and item.get("object") == "charge":
            found = [refund for refund in self.newest("refund") if refund["charge"] == item["id"]]
            item["refunds"] = {"object": "list", "data": copy.deepcopy(found), "has_more": False, "url": "/v1/refunds"}
            return
        value = item.get(name)
        if isinstance(value, str):
            found = next((held[value] for held in self.objects.values() if value in held), None)
            if found is None:
                raise Failure(f"This property cannot be expanded ({path}).", param="expand", is_validation=True)
            item[name] = value = copy.deepcopy(found)
        elif name not in item:
            raise Failure(f"This property cannot be expanded ({path}).", param="expand", is_validation=True)
        if rest and isinstance(value, dict):
            self._expand(value, rest, path)  # pyright: ignore[reportUnknownArgumentType]

    def net(self) -> dict[str, dict[str, int]]:
        """Return what each customer has paid and not got back, per currency; a pending refund is not back yet."""
        paid: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for charge in self.objects["charge"].values():
            if charge["status"] == "succeeded":
                paid[charge["customer"] or ""][charge["currency"]] += charge["amount_captured"]
        for refund in self.objects["refund"].values():
            if refund["status"] == "succeeded":
                charge = self.objects["charge"][refund["charge"]]
                paid[charge["customer"] or ""][charge["currency"]] -= refund["amount"]
        return {customer: dict(sums) for customer, sums in paid.items()}


def _blank(cls: type[StripeObject]) -> Object:
    return {name: {} if name == "metadata" else None for name in cls.__annotations__ if name not in _OPTIONAL}
