"""Actions over the ledger process, as another process finds them again: one for each way of knowing what landed."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from typing import Any

from saga_core import (
    Attempt,
    Call,
    Compensation,
    Landed,
    NotLanded,
    Pending,
    Unknown,
    compensable,
    current_step,
    inverse,
    irreversible,
)

from .. import ledger  # noqa: TID252 -- scripts and tests find the one ledger beside them
from .fuse import FUSE

PORT = int(os.environ["LEDGER_PORT"])
LANDS_WITHIN = timedelta(seconds=float(os.environ["LANDS_WITHIN"]))


def _charge(amount: int) -> dict[str, Any]:
    return FUSE.around("charge", lambda: ledger.charge(PORT, current_step().key, amount))


def _refund(charge_id: str) -> None:
    FUSE.pass_by(f"giving back {charge_id}")
    FUSE.around("refund", lambda: ledger.refund(PORT, current_step().key, charge_id))


def _find(key: str) -> Landed[Any] | NotLanded | Unknown:
    try:
        found = ledger.find(PORT, key)
    except ledger.AnswerLost:
        return Unknown("the ledger did not answer")
    return NotLanded() if found is None else Landed(found)


def _landed(attempt: Attempt) -> Landed[Any] | NotLanded | Unknown:
    return _find(attempt.key)


@inverse("bank.refund")
def refund(charge_id: str) -> None:
    _refund(charge_id)


@refund.probe
def refund_landed(charge_id: str) -> Landed[None] | NotLanded | Unknown:
    return _find(current_step().key)


@inverse("bank.refund_keyed", keyed=True)
def refund_keyed(charge_id: str) -> None:
    _refund(charge_id)


@inverse("bank.refund_blind")
def refund_blind(charge_id: str) -> None:
    _refund(charge_id)


@inverse("bank.refund_by_key", keyed=True)
def refund_by_key(charge_key: str) -> None:
    """Give back what was charged under the key; harmless where nothing was."""
    found = ledger.find(PORT, charge_key)
    if found is not None:
        _refund(found["id"])


@compensable("bank.charge", lands_within=LANDS_WITHIN)
def charge(amount: int) -> dict[str, Any]:
    return _charge(amount)


@charge.undo
def undo_charge(call: Call[dict[str, Any]]) -> Compensation:
    return refund.bind(call.result["id"])


charge.probe(_landed)


@compensable("bank.charge_keyed", lands_within=LANDS_WITHIN)
def charge_keyed(amount: int) -> dict[str, Any]:
    return _charge(amount)


@charge_keyed.undo
def undo_charge_keyed(call: Call[dict[str, Any]]) -> Compensation:
    return refund_keyed.bind(call.result["id"])


charge_keyed.probe(_landed)


@compensable("bank.charge_blind", lands_within=LANDS_WITHIN)
def charge_blind(amount: int) -> dict[str, Any]:
    return _charge(amount)


@charge_blind.undo
def undo_charge_blind(call: Call[dict[str, Any]]) -> Compensation:
    return refund_blind.bind(call.result["id"])


charge_blind.probe(_landed)


@inverse("bank.refund_pending")
def refund_pending(charge_id: str) -> Pending:
    _refund(charge_id)
    return Pending("accepted", check_after=timedelta(seconds=0.05))


@refund_pending.probe
def refund_pending_landed(charge_id: str) -> Landed[None] | NotLanded | Unknown:
    return _find(current_step().key)


@refund_pending.observe
def refund_pending_settled(pending: Pending, charge_id: str) -> Pending | None:
    return None if isinstance(_find(current_step().key), Landed) else pending


@compensable("bank.charge_pending", lands_within=LANDS_WITHIN)
def charge_pending(amount: int) -> dict[str, Any]:
    return _charge(amount)


@charge_pending.undo
def undo_charge_pending(call: Call[dict[str, Any]]) -> Compensation:
    return refund_pending.bind(call.result["id"])


charge_pending.probe(_landed)


@compensable("bank.charge_around", lands_within=LANDS_WITHIN)
def charge_around(amount: int, inner: int) -> dict[str, Any]:
    """Charge inside a charge: the inner one is a step of its own."""
    charge(inner)
    return _charge(amount)


charge_around.undo(undo_charge)
charge_around.probe(_landed)


@compensable("bank.charge_unbound", lands_within=LANDS_WITHIN)
def charge_unbound(amount: int) -> dict[str, Any]:
    return _charge(amount)


@charge_unbound.undo
def undo_charge_unbound(call: Call[dict[str, Any]]) -> Compensation:
    raise LookupError("the undo cannot be derived")


charge_unbound.probe(_landed)


@compensable("bank.charge_replayed", lands_within=LANDS_WITHIN, replay=True)
def charge_replayed(amount: int) -> dict[str, Any]:
    return _charge(amount)


charge_replayed.undo(undo_charge_keyed)


def _by_key(attempt: Attempt) -> Compensation:
    return refund_by_key.bind(attempt.key)


@compensable("bank.charge_unasked", lands_within=LANDS_WITHIN, keyed_undo=_by_key)
def charge_unasked(amount: int) -> dict[str, Any]:
    return _charge(amount)


@charge_unasked.undo
def undo_charge_unasked(call: Call[dict[str, Any]]) -> Compensation:
    return refund_by_key.bind(call.key)


@compensable("bank.charge_slow", lands_within=LANDS_WITHIN, timeout=timedelta(seconds=0.2))
def charge_slow(amount: int) -> dict[str, Any]:
    return _charge(amount)


charge_slow.undo(undo_charge)
charge_slow.probe(_landed)


def _mail(amount: int) -> None:
    _charge(amount)


mail = irreversible("bank.mail", hold=True, lands_within=LANDS_WITHIN)(_mail)
mail.probe(_landed)
mail_replayed = irreversible("bank.mail_replayed", hold=True, replay=True)(_mail)
mail_blind = irreversible("bank.mail_blind", hold=True)(_mail)


async def _ask(request: dict[str, Any]) -> dict[str, Any]:
    """Ask the ledger from a loop, cancellable at any await."""
    import asyncio  # noqa: PLC0415 -- hundreds of processes here never need it

    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
        try:
            writer.write(json.dumps(request).encode() + b"\n")
            line = await reader.readline()
        finally:
            writer.close()
    except OSError as broken:
        raise ledger.AnswerLost(str(broken)) from broken
    if not line:
        raise ledger.AnswerLost("the connection broke before the answer")
    answer = json.loads(line)
    if "refused" in answer:
        raise ledger.LedgerRefused(answer["refused"])
    return answer


async def _find_async(key: str) -> Landed[Any] | NotLanded:
    found = (await _ask({"do": "find", "key": key}))["found"]
    return NotLanded() if found is None else Landed(found)


@inverse("bank.refund_async")
async def refund_async(charge_id: str) -> None:
    named = FUSE.count("refund")
    FUSE.pass_by(f"{named} before")
    await _ask({"do": "refund", "key": current_step().key, "charge": charge_id})
    FUSE.pass_by(f"{named} after")


@refund_async.probe
async def refund_async_landed(charge_id: str) -> Landed[Any] | NotLanded:
    return await _find_async(current_step().key)


@compensable("bank.charge_async", lands_within=LANDS_WITHIN)
async def charge_async(amount: int) -> dict[str, Any]:
    named = FUSE.count("charge")
    FUSE.pass_by(f"{named} before")
    made = await _ask({"do": "charge", "key": current_step().key, "amount": amount})
    FUSE.pass_by(f"{named} after")
    return made


@charge_async.undo
def undo_charge_async(call: Call[dict[str, Any]]) -> Compensation:
    return refund_async.bind(call.result["id"])


@charge_async.probe
async def charge_async_landed(attempt: Attempt) -> Landed[Any] | NotLanded:
    return await _find_async(attempt.key)


@irreversible("bank.mail_async", hold=True, lands_within=LANDS_WITHIN)
async def mail_async(amount: int) -> None:
    named = FUSE.count("charge")
    FUSE.pass_by(f"{named} before")
    await _ask({"do": "charge", "key": current_step().key, "amount": amount})
    FUSE.pass_by(f"{named} after")


@mail_async.probe
async def mail_async_landed(attempt: Attempt) -> Landed[Any] | NotLanded:
    return await _find_async(attempt.key)


MAILS = {"probed": mail, "replayed": mail_replayed, "blind": mail_blind}

CHARGES = {
    "probed": charge,
    "keyed": charge_keyed,
    "blind": charge_blind,
    "unasked": charge_unasked,
    "pending": charge_pending,
    "replayed": charge_replayed,
    "unbound": charge_unbound,
}
