"""What the store promised a program, and what it said after a crash: the oracle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from saga_core.records import Committed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from saga_core.records import Record
    from saga_core.stores.store import Reading

    from .actor import Actor

Became = Literal["flying", "in", "maybe", "never"]
"""What a program knows of a record: its append runs, returned, was interrupted, or raised that it is not in the log."""


class Violation(AssertionError):
    """The store broke a promise."""


class Attempt(NamedTuple):
    """A record handed to a log."""

    record: Record
    became: Became


class Promise(NamedTuple):
    """What a program knows of one saga's log.

    Attributes:
        attempts: The records in order.
        proven: How many of them a sync covered: the last of these, and all that are in the log before it, are on disk.
        cut: How many of them were made before the machine lost power, since when nobody took the saga over; None if it
            did not: what was appended is then there, proven or not.
        is_settled: It was, or is being, moved to the done ones.
        had_commit: A commit record was on its way to the disk when an earlier owner ended.
    """

    attempts: tuple[Attempt, ...] = ()
    proven: int = 0
    cut: int | None = None
    is_settled: bool = False
    had_commit: bool = False


class Witness:
    """What was promised so far.

    Attributes:
        promises: By saga.
        identity: The store's id, once a store was opened.
        owners: Who took a saga's log last.
    """

    def __init__(self, promises: Mapping[str, Promise] | None = None, identity: str = "") -> None:
        self.promises: dict[str, Promise] = dict(promises or {})
        self.identity = identity
        self.owners: dict[str, Actor] = {}

    def look(self) -> tuple[str, dict[str, Promise]]:
        """Return all of it, as a moment keeps it."""
        return self.identity, dict(self.promises)

    def attempt(self, saga: str, record: Record) -> None:
        """An append begins."""
        promise = self.promises[saga]
        self.promises[saga] = promise._replace(attempts=(*promise.attempts, Attempt(record, "flying")))

    def end(self, saga: str, became: Became) -> None:
        """It ended."""
        promise = self.promises[saga]
        last = promise.attempts[-1]._replace(became=became)
        self.promises[saga] = promise._replace(attempts=(*promise.attempts[:-1], last))

    def prove(self, saga: str, count: int) -> None:
        """So many of the attempts are on disk."""
        promise = self.promises[saga]
        self.promises[saga] = promise._replace(proven=max(count, promise.proven))

    def take_over(self, saga: str, records: Sequence[Record]) -> None:
        """Another owner goes on from what it found; what is not among it is gone for good."""
        promise = self.promises[saga]
        proven = sum(attempt.became == "in" for attempt in promise.attempts[: promise.proven])
        attempts = tuple(Attempt(record, "in") for record in records)
        self.promises[saga] = promise._replace(
            attempts=attempts,
            proven=min(proven, len(attempts)),
            cut=None,
            had_commit=promise.had_commit or _has_commit(promise.attempts),
        )

    def lose_power(self) -> None:
        """The machine stopped, and comes back in another boot."""
        for saga, promise in self.promises.items():
            self.promises[saga] = promise._replace(cut=len(promise.attempts))

    def settle(self, saga: str) -> None:
        """Its file is about to be moved."""
        self.promises[saga] = self.promises[saga]._replace(is_settled=True)


def restored(told: object, *, killed: bool) -> Witness:
    """Return a witness that knows what a moment kept."""
    identity, promises = cast("tuple[str, dict[str, Promise]]", told)
    witness = Witness(promises, identity)
    if not killed:
        witness.lose_power()
    return witness


def judge(saga: str, promise: Promise, reading: Reading | None) -> None:
    """Check what a log says after a crash against what was promised before it.

    P1: what was proven is there (and, unless the power went, every record whose append had returned). P2: what is there
    is what was appended, in order, without a gap. P3: and nothing else. P4: nothing is missing in silence.

    Raises:
        Violation: It does not hold.
    """
    attempts = promise.attempts
    records = [] if reading is None else reading.records
    at = needed = 0
    has_ended = False
    lost: list[str] = []
    for number, (record, became) in enumerate(attempts):
        is_needed = became == "in" and (promise.cut is None or number >= promise.cut or number < promise.proven)
        needed += is_needed
        if became != "never" and not has_ended and at < len(records) and records[at] == record:
            at += 1
        elif became == "in":
            has_ended = True  # only the end may be missing
            if is_needed:
                lost.append(f"record {number} ({type(record).__name__})")
    where = f"saga {saga}"
    if at < len(records):
        raise Violation(f"{where}: record {at} of the log, {records[at]!r}, was never appended there")
    damage = None if reading is None else reading.damage
    if lost:
        raise Violation(f"{where}: lost, and promised: {', '.join(lost)}; the log says {damage or 'nothing of it'}")
    if damage is not None and not _may_be_doubted(promise, at):
        raise Violation(f"{where}: its log was sound, and is called damaged: {damage}")
    if reading is None and needed:
        raise Violation(f"{where}: its log is gone")


def _may_be_doubted(promise: Promise, found: int) -> bool:
    """Two kinds of sound logs become cases when the power goes, rather than being trusted.

    One whose commit record was on its way to the disk, and one of which nothing was proven and whose beginning is gone.
    """
    if promise.cut is None and not promise.had_commit:
        return False
    if not promise.proven and not found:
        return True
    return promise.had_commit or _has_commit(promise.attempts[found:])


def _has_commit(attempts: Sequence[Attempt]) -> bool:
    return any(isinstance(record, Committed) for record, became in attempts if became != "never")
