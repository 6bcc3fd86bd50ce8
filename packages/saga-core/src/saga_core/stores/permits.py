"""Approvals, grants and budgets in the control database: asked for, decided, and taken once."""

from __future__ import annotations

import threading
from collections import deque
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

from saga_core.clock import SYSTEM, Clock
from saga_core.permissions import Charge, Decision, Denial, Dispatch, Grant, Permit, Request, Standing, State
from saga_core.stores.boot import boot_id

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    Change: TypeAlias = Callable[[], AbstractContextManager[sqlite3.Connection]]
    Look: TypeAlias = Callable[[], AbstractContextManager[sqlite3.Connection | None]]

T = TypeVar("T")
Answer: TypeAlias = "Permit | Denial | BaseException"

_SLICES = 64
"""Into how many steps a window is cut: what was taken is forgotten a step at a time."""

_IDLE = 1.0
"""Seconds for which the thread that answers stays when nobody asks."""

SCHEMA = """
create table if not exists clock (one integer primary key check (one = 1), boot text, up integer, wall integer);
create table if not exists commits (one integer primary key check (one = 1), number integer not null);
create table if not exists requests (
    id text primary key, saga text not null, step text not null, digest text not null, quorum integer not null,
    requester text, asked_at integer not null, expires_at integer not null, closed integer not null default 0
) without rowid;
create index if not exists open_requests on requests (asked_at) where closed = 0;
create index if not exists requests_of on requests (saga);
create table if not exists decisions (
    request text not null, number integer not null, person text not null, verdict text not null, reason text not null,
    digest text not null, edit blob, at integer not null, primary key (request, number)
) without rowid;
create table if not exists grants (
    id text primary key, body blob not null, used integer not null default 0, revoked_by text, expires_at integer
) without rowid;
create table if not exists permits (
    step text primary key, saga text not null, digest text not null, request text, number integer not null
) without rowid;
create table if not exists claims (
    place text primary key, person text not null, at integer not null
) without rowid;
create table if not exists deliveries (id text primary key, at integer not null) without rowid;
create unique index if not exists permits_by_request on permits (request) where request is not null;
create index if not exists permits_of on permits (saga);
create table if not exists taken (
    ledger text not null, slice integer not null, amount text not null, primary key (ledger, slice)
) without rowid
"""
"""What `Permits` keeps; each statement is repeatable."""


class Permits:
    """Who may do what, as decided by people and as far as ledgers reach.

    Every change is one transaction, durable at return. Requests of many callers at once are served by one.
    """

    def __init__(self, change: Change, look: Look, clock: Clock = SYSTEM) -> None:
        """Take how to open the database.

        Args:
            change: A context with a connection inside a transaction, committed at its end, undone by an error.
            look: A context with a connection to read from; None where nothing was ever decided.
            clock: A test brings its own.
        """
        self._change = change
        self._look = look
        self._clock = clock
        self.renew()

    def renew(self) -> None:
        """Begin anew in a forked child: who waits in the parent is the parent's."""
        self._gate = threading.Lock()
        self._asked = threading.Condition(self._gate)
        self._turn = threading.Lock()
        self._waiting: deque[tuple[Dispatch, Callable[[Answer], None]]] = deque()
        self._is_serving = False

    # Requests

    def ask(self, request: Request, within: int) -> Standing:
        """Put a question before people, unless it is there already; it expires `within` nanoseconds from now."""
        with self._change() as connection:
            now = _now(connection, self._clock)
            connection.execute(
                "insert or ignore into requests values (?, ?, ?, ?, ?, ?, ?, ?, 0)",
                (*msgspec.structs.astuple(request)[:6], now, now + within),
            )
            connection.execute("update requests set closed = 1 where closed = 0 and expires_at <= ?", (now,))
            asked = _asked(connection, request.id, now)
            assert asked is not None
            return asked

    def asked(self, id_: str) -> Standing | None:
        """Return a request and what became of it."""
        with self._look() as connection:
            return None if connection is None else _asked(connection, id_, _now(connection, self._clock))

    def pending(self) -> list[Standing]:
        """Return the requests that wait for a person, oldest first."""
        with self._look() as connection:
            if connection is None:
                return []
            now = _now(connection, self._clock)
            ids = connection.execute("select id from requests where closed = 0 order by asked_at, id").fetchall()
            found = [_asked(connection, id_, now) for (id_,) in ids]
        return [one for one in found if one is not None and one.state == "pending"]

    def decide(self, id_: str, decision: Decision, allowed: Callable[[Standing], None]) -> Standing | None:
        """Add a decision, unless `allowed` raises over what was decided so far; None where there is no request."""
        with self._change() as connection:
            now = _now(connection, self._clock)
            asked = _asked(connection, id_, now)
            if asked is None:
                return None
            allowed(asked)
            connection.execute(
                "insert into decisions values (?, ?, ?, ?, ?, ?, ?, ?)",
                (id_, len(asked.decisions) + 1, *msgspec.structs.astuple(decision)[:5], now),
            )
            decided = _asked(connection, id_, now)
            if decided is not None and decided.state in {"rejected", "revoked"}:
                _close(connection, id_)
            return decided

    def withdraw(self, id_: str) -> None:
        """Close a request: its call does not wait any more."""
        with self._change() as connection:
            _close(connection, id_)

    def receive_delivery(self, id_: str, within: int) -> bool:
        """Take note of a message; False for one that came before. Older ones than `within` are forgotten."""
        with self._change() as connection:
            now = _now(connection, self._clock)
            connection.execute("delete from deliveries where at < ?", (now - within,))
            return connection.execute("insert or ignore into deliveries values (?, ?)", (id_, now)).rowcount == 1

    # Grants

    def grant(self, grant: Grant, within: int) -> Grant:
        """Keep a standing approval; it ends `within` nanoseconds from now."""
        with self._change() as connection:
            now = _now(connection, self._clock)
            kept = msgspec.structs.replace(grant, at=now, expires_at=now + within)
            connection.execute(
                "insert into grants values (?, ?, 0, null, ?)",
                (kept.id, msgspec.msgpack.encode(kept), kept.expires_at),
            )
            return kept

    def grants(self) -> list[Grant]:
        """Return every grant, ended ones too, oldest first."""
        with self._look() as connection:
            return [] if connection is None else sorted(_grants(connection, ""), key=lambda grant: grant.at)

    def usable_grants(self) -> list[Grant]:
        """Return the grants that are good for at least one call now."""
        with self._look() as connection:
            if connection is None:
                return []
            now = _now(connection, self._clock)
            found = _grants(connection, "where revoked_by is null and expires_at > ?", now)
        return [grant for grant in found if grant.uses is None or grant.used < grant.uses]

    def revoke_grant(self, id_: str, by: str) -> Grant | None:
        """Take a grant back; None where there is none. Who took it back first stays."""
        with self._change() as connection:
            connection.execute("update grants set revoked_by = ? where id = ? and revoked_by is null", (by, id_))
            return next(iter(_grants(connection, "where id = ?", id_)), None)

    # Cases

    def claim_case(self, case: str, by: str) -> str:
        """Note that a person is at a case, and return who is: the first one."""
        with self._change() as connection:
            now = _now(connection, self._clock)
            connection.execute("insert or ignore into claims values (?, ?, ?)", (case, by, now))
            return connection.execute("select person from claims where place = ?", (case,)).fetchone()[0]

    def release_case(self, case: str) -> None:
        """Note that nobody is at a case any more."""
        with self._change() as connection:
            connection.execute("delete from claims where place = ?", (case,))

    def claims(self) -> dict[str, str]:
        """Return who is at which case."""
        with self._look() as connection:
            return {} if connection is None else dict(connection.execute("select place, person from claims"))

    # Dispatch

    def is_kept(self, step: str, digest: str) -> bool:
        """Tell whether exactly this call has taken what it needs before, and was cut off before its intent."""
        with self._look() as connection:
            if connection is None:
                return False
            found = connection.execute("select 1 from permits where step = ? and digest = ?", (step, digest))
            return found.fetchone() is not None

    def dispatch(self, wanted: Dispatch) -> Permit | Denial:
        """Take all that a call needs, or nothing; blocks.

        Raises:
            StoreError: The database cannot be written: nothing was taken, or the same attempt finds it taken.
        """
        answers: list[Answer] = []
        with self._gate:
            self._waiting.append((wanted, answers.append))
        while not answers:
            with self._turn:
                if not answers:
                    self._serve()
        (answer,) = answers
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def dispatch_later(self, wanted: Dispatch, done: Callable[[Answer], None]) -> None:
        """Do as `dispatch` does on a thread, and call `done` from there; never blocks."""
        with self._gate:
            self._waiting.append((wanted, done))
            if self._is_serving:
                self._asked.notify()
                return
            self._is_serving = True
        try:
            threading.Thread(target=self._serve_all, name="saga-permits", daemon=True).start()
        except RuntimeError:  # no more threads: it is done here
            self._serve_all()

    def _serve_all(self) -> None:
        """Answer until nobody has asked for some time."""
        while True:
            with self._turn:
                self._serve()
            with self._gate:
                if not self._waiting and not self._asked.wait(_IDLE):
                    self._is_serving = False
                    return

    def _serve(self) -> None:
        """Answer everybody who waits, by one transaction; under the turn."""
        with self._gate:
            batch, self._waiting = self._waiting, deque()
        if not batch:
            return
        answers: Sequence[Answer]
        try:
            with self._change() as connection:
                now = _now(connection, self._clock)
                number = _number(connection) + 1
                answers = [_dispatch(connection, wanted, now, number) for wanted, _ in batch]
                connection.execute("insert or replace into commits values (1, ?)", (number,))
        except BaseException as error:  # noqa: BLE001 -- it belongs to those who wait
            answers = [error] * len(batch)
        for (_, done), answer in zip(batch, answers, strict=True):
            done(answer)

    # What goes with a saga

    def forget(self, saga: str) -> None:
        """Drop what people said about a saga's calls; that a permission was used stays."""
        with self._look() as connection:
            is_named = connection is not None and connection.execute("select 1 from requests where saga = ?", (saga,))
            if not is_named or is_named.fetchone() is None:
                return
        with self._change() as connection:
            connection.execute(
                "delete from decisions where request in (select id from requests where saga = ?)", (saga,)
            )
            connection.execute("delete from requests where saga = ?", (saga,))


def _now(connection: sqlite3.Connection, clock: Clock) -> int:
    """Return the time, which follows the boot's own clock: setting the wall clock neither ends nor prolongs anything.

    Only across boots it goes by the wall clock, and never back.
    """
    boot, up, wall = boot_id(), clock.up(), clock.wall()
    kept = connection.execute("select boot, up, wall from clock").fetchone()
    if kept is not None and kept[0] == boot:
        return kept[2] + max(up - kept[1], 0)
    now = wall if kept is None else max(wall, kept[2])
    if connection.in_transaction:
        connection.execute("insert or replace into clock values (1, ?, ?, ?)", (boot, up, now))
    return now


def _number(connection: sqlite3.Connection) -> int:
    found = connection.execute("select number from commits").fetchone()
    return 0 if found is None else found[0]


def _asked(connection: sqlite3.Connection, id_: str, now: int) -> Standing | None:
    row = connection.execute(
        "select saga, step, digest, quorum, requester, asked_at, expires_at, closed from requests where id = ?", (id_,)
    ).fetchone()
    if row is None:
        return None
    request = Request(id_, *row[:7])
    rows = connection.execute(
        "select person, verdict, reason, digest, edit, at from decisions where request = ? order by number", (id_,)
    )
    decisions = tuple(Decision(*one) for one in rows)
    used = connection.execute("select 1 from permits where request = ?", (id_,)).fetchone() is not None
    return Standing(request, decisions, _state(request, decisions, now, is_used=used, is_closed=bool(row[7])))


def _close(connection: sqlite3.Connection, id_: str) -> None:
    connection.execute("update requests set closed = 1 where id = ?", (id_,))


def _state(request: Request, decisions: Sequence[Decision], now: int, *, is_used: bool, is_closed: bool) -> State:
    last = decisions[-1] if decisions else None
    if last is not None and last.verdict != "approve":
        return "rejected" if last.verdict == "reject" else "revoked"
    if is_used:
        return "used"
    if now >= request.expires_at:
        return "expired"
    if is_closed:
        return "withdrawn"
    people = {one.by for one in decisions if last is not None and one.digest == last.digest}
    return "approved" if len(people) >= request.quorum else "pending"


def _grants(connection: sqlite3.Connection, where: str, *values: Any) -> list[Grant]:
    rows = connection.execute(f"select body, used, revoked_by from grants {where}", values)  # noqa: S608 -- our own words
    return [
        msgspec.structs.replace(msgspec.msgpack.decode(body, type=Grant), used=used, revoked_by=revoked_by)
        for body, used, revoked_by in rows
    ]


def _dispatch(connection: sqlite3.Connection, wanted: Dispatch, now: int, number: int) -> Permit | Denial:
    kept = connection.execute("select digest, number from permits where step = ?", (wanted.step,)).fetchone()
    if kept is not None:
        if kept[0] == wanted.digest:
            return Permit(kept[1])
        return Denial("permit", "built in", "another call took this step's permission")
    if wanted.seen >= number:
        words = "the control database is older than the saga's log: decisions are missing from it"
        return Denial("control", "built in", words)
    why = _unapproved(connection, wanted, now) or _ungranted(connection, wanted, now)
    if why is not None:
        return Denial("approval", "built in", why)
    slices: list[tuple[Charge, int, Decimal]] = []
    for charge in wanted.charges:
        span = max(charge.window // _SLICES, 1)
        current = now // span
        taken = connection.execute(
            "select slice, amount from taken where ledger = ? and slice > ?", (charge.ledger, current - _SLICES - 1)
        ).fetchall()
        mine = sum(
            (amount for other, at, amount in slices if (other.ledger, at) == (charge.ledger, current)), Decimal(0)
        )
        amount = Decimal(charge.amount)
        if sum((Decimal(one) for _, one in taken), mine) + amount > Decimal(charge.limit):
            return Denial(charge.rule, charge.place, charge.words)
        slices.append((charge, current, amount))
    for charge, current, amount in slices:
        _take(connection, charge.ledger, current, amount)
    connection.execute(
        "insert into permits values (?, ?, ?, ?, ?)",
        (wanted.step, wanted.saga, wanted.digest, wanted.request, number),
    )
    if wanted.request is not None:
        _close(connection, wanted.request)
    if wanted.grant is not None:
        connection.execute("update grants set used = used + 1 where id = ?", (wanted.grant,))
    return Permit(number)


def _take(connection: sqlite3.Connection, ledger: str, current: int, amount: Decimal) -> None:
    kept = connection.execute("select amount from taken where ledger = ? and slice = ?", (ledger, current)).fetchone()
    total = amount if kept is None else amount + Decimal(kept[0])
    connection.execute("insert or replace into taken values (?, ?, ?)", (ledger, current, str(total)))
    if kept is None:
        connection.execute("delete from taken where ledger = ? and slice < ?", (ledger, current - _SLICES - 1))


def _unapproved(connection: sqlite3.Connection, wanted: Dispatch, now: int) -> str | None:
    """Return why the approval that the call names does not let it run."""
    if wanted.request is None:
        return None
    asked = _asked(connection, wanted.request, now)
    if asked is None:
        return "its approval is not known here"
    if asked.state != "approved":
        return f"its approval is {asked.state}"
    if asked.request.step != wanted.step or asked.decisions[-1].digest != wanted.digest:
        return "its approval is for another call"
    return None


def _ungranted(connection: sqlite3.Connection, wanted: Dispatch, now: int) -> str | None:
    """Return why the grant that the call names does not cover it any more."""
    if wanted.grant is None:
        return None
    where = "where id = ? and revoked_by is null and expires_at > ?"
    grant = next(iter(_grants(connection, where, wanted.grant, now)), None)
    if grant is None or (grant.uses is not None and grant.used >= grant.uses):
        return "the grant that covered it has ended or is used up"
    return None
