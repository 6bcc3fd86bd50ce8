"""A user's module: a shop whose ledger is a SQLite file in the current directory."""

import logging
import os
import sqlite3
import sys
import time
from contextlib import closing
from datetime import timedelta

from saga_core import (
    Attempt,
    Call,
    Compensation,
    Landed,
    NotLanded,
    Unknown,
    compensable,
    current_step,
    inverse,
    irreversible,
    saga_scope,
)

__all__ = ["blind", "charge", "refund", "saga_scope", "stuck", "wire"]

print("the shop is open")  # noqa: T201 -- what a module says while it is imported must not get among the data


def ledger() -> sqlite3.Connection:
    connection = sqlite3.connect("ledger.db", isolation_level=None)
    connection.execute("create table if not exists charges (key text primary key, id text, amount integer)")
    connection.execute("create table if not exists refunds (charge text primary key, key text)")
    return connection


def _book(amount: int) -> str:
    key = current_step().key
    charge = f"ch_{key[:8]}"
    current_step().note_sync(desk=1)
    with closing(ledger()) as books:
        books.execute("insert into charges values (?, ?, ?)", (key, charge, amount))
    return charge


def _wait() -> None:
    sys.stdout.write("reached\n")
    sys.stdout.flush()
    sys.stdin.read()


@inverse("shop.refund", keyed=True)
def refund(charge: str) -> None:
    print("the shop refunds")  # noqa: T201 -- as above
    logging.getLogger("shop").warning("asked with Bearer %s", "abcdef123456")
    time.sleep(float(os.environ.get("SHOP_DELAY", "0")))
    if os.environ.get("SHOP_CLOSED"):
        raise ConnectionError("no answer from the shop, Bearer " + "abcdef123456")
    with closing(ledger()) as books:
        books.execute("insert into refunds values (?, ?)", (charge, current_step().key))


@compensable("shop.charge", money=("amount", "currency"), lands_within=timedelta(seconds=30))
def charge(
    amount: int, currency: str = "usd", note: str = "", password: str = "", extra: dict[str, str] | None = None
) -> str:
    return _book(amount)


@charge.undo
def undo_charge(call: Call[str]) -> Compensation:
    return refund.bind(charge=call.result)


@compensable("shop.stuck", lands_within=timedelta(seconds=30))
def stuck(amount: int, *, lands: bool = True) -> str:
    """Charge or do not, say so, and never return."""
    made = _book(amount) if lands else ""
    _wait()
    return made


@stuck.undo
def undo_stuck(call: Call[str]) -> Compensation:
    return refund.bind(charge=call.result)


@stuck.probe
def find(attempt: Attempt) -> Landed[str] | NotLanded | Unknown:
    with closing(ledger()) as books:
        found = books.execute("select id from charges where key = ?", (attempt.key,)).fetchone()
    return Landed(found[0]) if found else NotLanded()


@compensable("shop.blind")
def blind(amount: int) -> str:
    """Charge, say so, and never return; nobody can ask whether it landed."""
    made = _book(amount)
    _wait()
    return made


@blind.undo
def undo_blind(call: Call[str]) -> Compensation:
    return refund.bind(charge=call.result)


@irreversible("shop.wire")
def wire(amount: int) -> None:
    with closing(ledger()) as books:
        books.execute("insert into charges values ('wire', 'wire', ?)", (amount,))
