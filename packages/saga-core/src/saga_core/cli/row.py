"""One saga in one line: what a list says of it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from saga_core import fold
from saga_core.cli.masking import mask, mask_value, shown
from saga_core.cli.wording import moment, sign, when
from saga_core.view import PROVEN, SagaView

if TYPE_CHECKING:
    from saga_core.stores.store import Backend, Reading

_NEEDS_OWNER = frozenset({"running", "committing", "unwinding"})


class Row(NamedTuple):
    """A saga as found.

    Attributes:
        saga: Its id.
        view: Its state; of a damaged log, as far as its good records tell.
        settled: Nothing is left to do about it.
        owner: Who owns it, in words, if somebody alive does.
        damage: What is wrong with its log.
    """

    saga: str
    view: SagaView
    settled: bool
    owner: str | None
    damage: str | None

    @property
    def state(self) -> str:
        """The state of the saga, or `damaged` or `empty` of its log."""
        if self.damage is not None:
            return "damaged"
        return "empty" if self.view.began is None else self.view.state

    @property
    def name(self) -> str:
        """The name that its scope was given."""
        return "" if self.view.began is None else self.view.began.name


def row_of(store: Backend, reading: Reading) -> Row:
    """Return what one line says of a saga."""
    view, misfit = state_of(reading)
    owner = None if reading.settled else store.owner(reading.saga)
    return Row(reading.saga, view, reading.settled, owner, reading.damage or misfit)


def state_of(reading: Reading) -> tuple[SagaView, str | None]:
    """Return the fold of what can be believed, and why the rest cannot."""
    view = SagaView()
    try:
        for record in reading.records:
            fold.apply(view, record)
    except fold.FoldError as misfit:
        return view, f"its records contradict each other: {misfit}"
    return view, None


def line(row: Row, short: str, *, utc: bool) -> tuple[str, ...]:
    """Return the line's columns."""
    view = row.view
    cases = len(view.open_cases)
    notes = [f"{cases} case{'s' if cases != 1 else ''}"] if cases else []
    if view.waiting and not row.settled and not view.unwinding:
        notes.append(f"waits for approval: {', '.join(waiting.asked.request for waiting in view.waiting.values())}")
    if row.owner is not None:
        notes.append(row.owner)
    elif row.state in _NEEDS_OWNER:
        notes.append("no owner: saga recover")
    if row.damage is not None:
        notes.append(shown(row.damage))
    elif view.reason:
        notes.append(f"({shown(view.reason)})")
    began = "" if view.began is None else when(view.began.at, utc=utc)
    return sign(row.state), shown(row.name), short, effects(view), began, ", ".join(notes)


def effects(view: SagaView) -> str:
    """Return in words what became of the effects: `3/5 undone`, `5 applied`."""
    found = Counter(step.state for step in view.steps.values())
    landed = [step for step in view.steps.values() if step.state not in PROVEN or step.state == "undone"]
    parts: list[str] = []
    if view.unwinding:
        if landed or not view.refused:
            parts.append(f"{found.pop('undone', 0)}/{len(landed)} undone")
    elif found["applied"] or not (found or view.refused):
        parts.append(f"{found.pop('applied', 0)} applied")
    parts += [f"{count} {state.replace('_', ' ')}" for state, count in sorted(found.items()) if count]
    if view.refused:
        parts.append(f"{len(view.refused)} refused")
    return ", ".join(parts)


def as_json(row: Row) -> dict[str, Any]:
    """Return the row for programs; times are UTC."""
    view = row.view
    began = view.began
    return {
        "id": row.saga,
        "name": mask(row.name),
        "key": None if began is None or began.key is None else mask(began.key),
        "tags": {} if began is None else mask_value(began.tags),
        "state": row.state,
        "settled": row.settled or view.is_settled,
        "owner": row.owner,
        "began": None if began is None else moment(began.at),
        "ended": None if view.ended_at is None else moment(view.ended_at),
        "steps": dict(Counter(step.state for step in view.steps.values())),
        "refused": len(view.refused),
        "cases": len(view.open_cases),
        "waiting": [waiting.asked.request for waiting in view.waiting.values()],
        "reason": mask(view.reason),
        "damage": None if row.damage is None else mask(row.damage),
    }
