"""A saga's records as a story: calls forward, undos backward, and what happened between, in the order of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saga_core import codec
from saga_core.cli.masking import shown
from saga_core.cli.wording import brief, latency
from saga_core.records import (
    Adopted,
    Answered,
    Applied,
    Asked,
    CaseOpened,
    CaseResolved,
    Closed,
    Committed,
    Committing,
    Doubted,
    Held,
    Intended,
    LeftInPlace,
    Missed,
    Noted,
    Parked,
    Permitted,
    Refused,
    Released,
    Resent,
    RolledBack,
    ScopeEnded,
    ScopeOpened,
    Suspended,
    UndoEnded,
    UndoIntended,
    UnwindBegan,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from saga_core.records import Record

FORWARD, BACKWARD, REFUSED, EVENT = "->", "<-", "-|", "--"

_HOW = {
    "undone": "undone",
    "already": "somebody had undone it before",
    "pending": "accepted, not settled",
    "conflict": "changed by somebody else since: left alone",
    "failed": "failed, to be tried again",
    "cut": "cut short: it may have landed",
    "not_landed": "asked: that undo did not land",
}

_ENDINGS: dict[type[Record], str] = {
    Committing: "committing: what is unsettled is settled first",
    Committed: "committed",
    RolledBack: "rolled back",
    Closed: "settled by people: what stands was left in place",
    Parked: "unwinding has done what it could; the rest needs a person",
}


_SETTLED = {"retry": "to be tried again", "undone": "undone by hand", "left": "left in place"}


class Event:
    """One line of the story.

    Attributes:
        arrow: Forward, backward, refused, or an event between.
        at: When, in nanoseconds since 1970.
        step: The step concerned.
        what: The call or the event, in words.
        end: What became of it; None while nothing is recorded.
        took: From its record to that of its end, in nanoseconds.
    """

    __slots__ = ("arrow", "at", "end", "step", "took", "what")

    def __init__(self, arrow: str, at: int, step: int | None, what: str, end: str | None = "") -> None:
        self.arrow = arrow
        self.at = at
        self.step = step
        self.what = what
        self.end = end
        self.took: int | None = None

    def close(self, at: int, end: str) -> None:
        """Say what became of it."""
        self.end = end
        self.took = at - self.at

    @property
    def text(self) -> str:
        """The line without its time."""
        number = "" if self.step is None else f"{self.step} "
        end = "nothing recorded yet" if self.end is None else self.end
        took = "" if self.took is None else f", {latency(self.took)}"
        return f"{self.arrow} {number}{self.what}" + (f"  {end}{took}" if end else "")


def story(records: Iterable[Record]) -> list[Event]:
    """Return the events of a saga, every recorded text masked."""
    teller = _Teller()
    for record in records:
        teller.take(record)
    return teller.events


class _Teller:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self._actions: dict[int, str] = {}
        self._scopes: dict[str, str] = {"": ""}
        self._calls: dict[int, Event] = {}
        self._undos: dict[int, Event] = {}
        self._held: set[int] = set()

    def take(self, record: Record) -> None:
        match record:
            case Intended() | Held():
                self._intended(record)
            case Applied() | Doubted() | Missed():
                self._outcome(record)
            case Refused():
                why = f"refused before it ran by rule {shown(record.rule)}: {shown(record.reason)}"
                self._add(REFUSED, record.at, record.step, shown(record.action), why)
            case UndoIntended():
                what = f"{self._action(record.step)}  by {shown(record.undo.inverse)}({_arguments(record.undo.args)})"
                self._undos[record.step] = self._add(BACKWARD, record.at, record.step, what, None)
            case UndoEnded():
                self._undo_ended(record)
            case Adopted():
                self._adopted(record)
            case Asked() | Answered() | Permitted():
                self._permission(record)
            case _:
                self._between(record)

    def _add(self, arrow: str, at: int, step: int | None, what: str, end: str | None = "") -> Event:
        event = Event(arrow, at, step, what, end)
        self.events.append(event)
        return event

    def _note(self, at: int, step: int | None, words: str) -> None:
        self._add(EVENT, at, step, self._action(step), words)

    def _action(self, step: int | None) -> str:
        return "" if step is None else self._actions.get(step, "")

    def _intended(self, record: Intended | Held) -> None:
        self._actions[record.step] = shown(record.action)
        scope = self._scopes.get(record.scope, "")
        what = f"{shown(record.action)}({_arguments(codec.thaw(record.args))})" + (f" in {scope}" if scope else "")
        if record.attempt > 1:
            what += f", attempt {record.attempt}"
        if isinstance(record, Held):
            self._held.add(record.step)
            self._add(EVENT, record.at, record.step, what, "held until the commit")
        else:
            self._calls[record.step] = self._add(FORWARD, record.at, record.step, what, None)

    def _outcome(self, record: Applied | Doubted | Missed) -> None:
        call = self._calls.pop(record.step, None)
        if isinstance(record, Applied):
            result = codec.thaw(record.result)
            end = "landed" + ("" if result is None else f" = {brief(result)}")
            end += f" ({shown(record.problem)})" if record.problem else ""
        elif isinstance(record, Doubted):
            end = f"in doubt: {shown(record.error)}"
        else:
            end = f"{'was not found' if record.beside else 'did not land'}: {shown(record.why)}"
        if record.step in self._held and call is None and isinstance(record, Missed):
            self._note(record.at, record.step, shown(record.why))
        elif call is not None:
            call.close(record.at, end)
        else:
            self._add(FORWARD, record.at, record.step, self._action(record.step), f"asked: it {end}")

    def _undo_ended(self, record: UndoEnded) -> None:
        undo = self._undos.pop(record.step, None)
        end = _HOW.get(record.how, shown(record.how))
        if record.ref:
            end += f" (ref {shown(record.ref)})"
        elif record.words and record.words != record.how and record.how not in {"undone", "not_landed"}:
            end += f" ({shown(record.words)})"
        if undo is not None:
            undo.close(record.at, end)
        else:
            self._add(BACKWARD, record.at, record.step, self._action(record.step), f"looked again: {end}")

    def _adopted(self, record: Adopted) -> None:
        for event in (*self._calls.values(), *self._undos.values()):
            event.end = "cut off: no outcome was recorded"
        self._calls.clear()
        self._undos.clear()
        torn = f"; {len(record.dropped)} bytes of a torn tail were cut off" if record.dropped else ""
        who = f"pid {record.pid} on {shown(record.host)}"
        self._add(EVENT, record.at, None, f"taken over by {who} ({shown(record.why)}{torn})")

    def _permission(self, record: Asked | Answered | Permitted) -> None:
        match record:
            case Asked():
                self._actions[record.step] = shown(record.action)
                what = f"{shown(record.action)}({_arguments(codec.thaw(record.args))})"
                rules = ", ".join(f"{shown(rule)}: {shown(reason)}" for rule, _, reason in record.reasons)
                self._add(EVENT, record.at, record.step, f"{what} waits for approval {record.request} ({rules})")
            case Answered():
                people = ", ".join(f"{shown(who)} ({shown(why)})" for who, why, _ in record.people)
                self._note(record.at, record.step, f"{record.how}{f' by {people}' if people else ''}")
            case Permitted():
                self._add(EVENT, record.at, None, f"permission {record.number} taken for {shown(record.position)}")

    def _between(self, record: Record) -> None:
        match record:
            case ScopeOpened():
                self._scopes[record.scope] = shown(record.name)
                self._add(EVENT, record.at, None, f"savepoint {shown(record.name)} opened")
            case ScopeEnded():
                end = "kept" if record.kept else "undone"
                self._add(EVENT, record.at, None, f"savepoint {self._scopes.get(record.scope, '')} {end}")
            case UnwindBegan():
                scope = self._scopes.get(record.scope, "")
                of = f" of savepoint {scope}" if scope else ""
                self._add(EVENT, record.at, None, f"unwinding{of} begins: {shown(record.reason)}")
            case CaseOpened():
                self._note(record.at, record.step, f"case: {shown(record.words)}")
            case CaseResolved():
                who = f"by {shown(record.by)}: {shown(record.evidence)}"
                self._add(EVENT, record.at, None, f"case {record.case} settled, {_SETTLED[record.how]}, {who}")
            case LeftInPlace():
                self._note(record.at, record.step, f"left in place: {shown(record.why)}")
            case Resent():
                self._calls[record.step] = self._add(
                    FORWARD, record.at, record.step, f"{self._action(record.step)} sent again under the same key", None
                )
            case Released():
                again = f", trial {record.trial}" if record.trial > 1 else ""
                what = f"{self._action(record.step)}, held, is sent{again}"
                self._calls[record.step] = self._add(FORWARD, record.at, record.step, what, None)
            case Suspended():
                self._add(EVENT, record.at, None, f"suspended: {shown(record.reason)}")
            case Committing() | Committed() | RolledBack() | Closed() | Parked():
                self._add(EVENT, record.at, None, _ENDINGS[type(record)])
            case Noted():  # the one record without a time: its step's effect was under way
                self._note(self.events[-1].at, record.step, f"noted: {_arguments(record.facts)}")
            case _:
                return


def _arguments(args: Any) -> str:
    return ", ".join(f"{shown(str(name))}={brief(value, str(name))}" for name, value in dict(args).items())
