"""The demo's actions over the simulated world; `saga recover --import saga_core.demo.actions` finds them."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, TypedDict

from saga_core import (
    AlreadyUndone,
    Attempt,
    Call,
    Compensation,
    Conflict,
    Landed,
    NotLanded,
    Unknown,
    compensable,
    current_step,
    inverse,
    irreversible,
    reversible,
)
from saga_core.demo import client

if TYPE_CHECKING:
    from collections.abc import Iterable

_LANDS_WITHIN = timedelta(seconds=client.TIMEOUT)
_CONFLICT = 409
_NOT_FOUND = 404


class Charge(TypedDict):
    """A charge as the vendor tells it."""

    id: str
    amount: int


@inverse("demo.card.refund", keyed=True)
def refund(charge_id: str) -> AlreadyUndone | None:
    """Refund a charge; the vendor refunds none twice."""
    try:
        client.ask("POST", "/refunds", {"charge": charge_id})
    except client.VendorError as error:
        if error.status != _CONFLICT:
            raise
        return AlreadyUndone()
    return None


@compensable(
    "demo.card.charge",
    money=("amount", "currency"),
    not_landed=client.VendorError,
    lands_within=_LANDS_WITHIN,
)
def charge(customer: str, amount: int, currency: str) -> Charge:
    """Charge a card; a refund undoes it and leaves its trace."""
    made = client.charge(customer, amount, currency, current_step().key)
    return {"id": made["id"], "amount": made["amount"]}


@charge.probe
def find_charge(attempt: Attempt) -> Landed[Charge] | NotLanded:
    """Ask for the charge of the attempt's key."""
    try:
        found = client.ask("GET", f"/charges?key={attempt.key}")
    except client.VendorError as error:
        if error.status != _NOT_FOUND:
            raise
        return NotLanded()
    return Landed[Charge]({"id": found["id"], "amount": found["amount"]})


@charge.undo
def undo_charge(call: Call[Charge]) -> Compensation:
    """Bind the refund of what was really charged."""
    return refund.bind(charge_id=call.result["id"])


@inverse("demo.crm.restore")
def restore_lead(wrote: dict[str, str], before: dict[str, str]) -> AlreadyUndone | Conflict | None:
    """Put the fields back, unless somebody else has changed them since."""
    found = client.ask("GET", "/lead")
    now = {name: found["fields"].get(name, "") for name in wrote}
    if now == before:
        return AlreadyUndone()
    if now != wrote:
        return Conflict(wrote=wrote, found=now)
    client.patch_lead(before, found["version"])
    return None


@reversible("demo.crm.patch_lead", not_landed=client.VendorError, lands_within=_LANDS_WITHIN)
def patch_lead(patch: dict[str, str]) -> dict[str, str]:
    """Change fields of the Lead and return what they were set to."""
    client.patch_lead(patch)
    return patch


def _fields(names: Iterable[str]) -> dict[str, str]:
    fields = client.ask("GET", "/lead")["fields"]
    return {name: fields.get(name, "") for name in names}


@patch_lead.capture
def read_lead(attempt: Attempt) -> dict[str, str]:
    """Read the fields that will be changed."""
    return _fields(attempt.args["patch"])


@patch_lead.probe
def find_patch(attempt: Attempt) -> Landed[dict[str, str]] | NotLanded | Unknown:
    """Compare the fields with what was to be written and with what stood there."""
    wanted: dict[str, str] = attempt.args["patch"]
    now = _fields(wanted)
    if now == wanted:
        return Landed(wanted)
    return NotLanded() if now == attempt.captured else Unknown("somebody else has changed the Lead")


@patch_lead.undo
def undo_patch(call: Call[dict[str, str]]) -> Compensation:
    """Bind what was written and what stood there before."""
    return restore_lead.bind(wrote=call.result, before=call.captured)


@inverse("demo.orders.restore")
def restore_orders(wrote: str, before: dict[str, str]) -> AlreadyUndone | Conflict | None:
    """Give each order its status back in one transaction, unless somebody else has changed one since."""
    with closing(client.orders()) as connection, connection:
        connection.execute("begin immediate")
        everything = client.read_orders(connection)
        now = {order: everything.get(order, "") for order in before}
        if now == before:
            return AlreadyUndone()
        if set(now.values()) != {wrote}:
            return Conflict(wrote=wrote, found=now)
        rows = [(status, order) for order, status in before.items()]
        connection.executemany("update orders set status = ? where id = ?", rows)
    return None


@reversible("demo.orders.mark", lands_within=_LANDS_WITHIN)
def mark_orders(ids: list[str], status: str) -> str:
    """Give orders a status and return it."""
    client.mark_orders(ids, status)
    return status


def _statuses(ids: Iterable[str]) -> dict[str, str]:
    with closing(client.orders()) as connection:
        everything = client.read_orders(connection)
    return {order: everything[order] for order in ids}


@mark_orders.capture
def read_orders(attempt: Attempt) -> dict[str, str]:
    """Read the status of the orders that will be marked."""
    return _statuses(attempt.args["ids"])


@mark_orders.probe
def find_mark(attempt: Attempt) -> Landed[str] | NotLanded | Unknown:
    """Compare the orders with what was to be written and with what stood there."""
    now = _statuses(attempt.args["ids"])
    if set(now.values()) == {attempt.args["status"]}:
        return Landed(attempt.args["status"])
    return NotLanded() if now == attempt.captured else Unknown("somebody else has changed an order")


@mark_orders.undo
def undo_mark(call: Call[str]) -> Compensation:
    """Bind what was written and what stood there before."""
    return restore_orders.bind(wrote=call.result, before=call.captured)


@irreversible("demo.bank.send_wire")
def send_wire(iban: str, amount: int) -> None:
    """Send a wire; nothing brings it back."""
    client.ask("POST", "/wires", {"iban": iban, "amount": amount})
