"""What saga_core itself would do about the records that a crash of the model leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saga_core import records as real
from saga_core.clock import nanoseconds
from saga_core.codec import freeze
from saga_core.fold import fold
from saga_core.plan import next_move, uncased

from .actions import LANDS_WITHIN, UNDOS
from .decision import Verdict, ahead
from .record import Record, tell

if TYPE_CHECKING:
    from saga_core.plan import Move
    from saga_core.view import SagaView

    from .record import Kind, Story

_LATE = 10**13
_SPOKEN: dict[str, Verdict] = {
    "ask": "ask",
    "undo": "undo",
    "undo_unasked": "undo unasked",
    "ask_undo": "ask about the undo",
    "drop": "drop",
    "send": "send",
    "case": "case",
    "done": "nothing",
}


def translated(records: tuple[Record, ...], kind: Kind) -> list[real.Record]:
    """Return the records as saga_core would have written them."""
    numbers: dict[str, int] = {}
    for record in records:
        if record.what in {"intended", "held"}:
            numbers[record.step] = len(numbers) + 1
    found: list[real.Record] = []
    for at, record in enumerate(records, start=1):
        if record.what == "released":
            before = [one.what for one in records[: at - 1] if one.step == record.step]
            attempt, trial = before.count("missed") + 1, before.count("released") + 1
            found.append(real.Released(numbers[record.step], at, attempt, trial))
            continue
        found += _translated(record, kind, at, numbers)
    return found


def _translated(record: Record, kind: Kind, at: int, numbers: dict[str, int]) -> list[real.Record]:  # noqa: C901, PLR0912 -- one line a kind
    step = numbers.get(record.step, 0)
    undo = UNDOS[kind].bind(record.step)
    match record.what:
        case "began":
            return [real.Began("saga", "model", "key", at, at, "boot", 1, "host", {})]
        case "adopted":
            return [real.Adopted(at, at, at, "boot", 2, "host", "recover")]
        case "opened":
            return [real.ScopeOpened(record.step, "", "inner", at)]
        case "closed":
            return [real.ScopeEnded(record.step, kept=record.how == "kept", at=at)]
        case "unwind":
            return [real.UnwindBegan(record.step, "failed", at)]
        case "intended":
            return [_intended(record, kind, at, step)]
        case "held":
            return [_held(record, kind, at, step)]
        case "applied":
            return [real.Applied(step, at, freeze(record.step), undo, stray=record.how == "stray")]
        case "doubted":
            return [real.Doubted(step, at, at, "lost")]
        case "missed":
            return [real.Missed(step, at, "declined")]
        case "undo":
            return [real.UndoIntended(step, at, f"{record.step} undo", undo, 1)]
        case "undo ended":
            return [real.UndoEnded(step, at, at, record.how)]
        case "case":
            return [real.CaseOpened(at, at, step, "a person must look")]
        case "committing":
            return [real.Committing(at)]
        case "committed":
            return [real.Committed(at)]
        case "rolled_back":
            return [real.RolledBack(at)]
        case "parked":
            return [real.Parked(at)]
        case _:
            return [real.Suspended(at, "later")]


def _held(record: Record, kind: Kind, at: int, step: int) -> real.Held:
    position, _, attempt = record.step.partition("#")
    name = f"model.{kind.settling}.{kind.inverse}.held"
    args, lands = freeze({"name": record.step}), nanoseconds(LANDS_WITHIN)
    return real.Held(
        step, at, name, 1, "irreversible", record.scope, position, int(attempt), None, args, real.EMPTY, "power", lands
    )


def _intended(record: Record, kind: Kind, at: int, step: int) -> real.Intended:
    position, _, attempt = record.step.partition("#")
    keyed_undo = UNDOS[kind].bind(record.step) if kind.settling == "keyed" else None
    nothing = real.EMPTY
    return real.Intended(
        step,
        at,
        f"model.{kind.settling}.{kind.inverse}",
        1,
        "compensable",
        record.scope,
        position,
        int(attempt),
        None,
        freeze({"name": record.step}),
        nothing,
        nothing,
        "power",
        nanoseconds(LANDS_WITHIN),
        keyed_undo=keyed_undo,
    )


def taken_over(records: tuple[Record, ...]) -> tuple[Record, ...]:
    """Return the records behind which a recoverer decides; as they are where it leaves the saga alone."""
    story = tell(records)
    if story.is_suspended or story.ended:
        return (*records, Record("adopted")) if _is_unsent(story) else records
    return (*records, Record("adopted"), *(() if story.is_unwinding else (Record("unwind"),)))


def _is_unsent(story: Story) -> bool:
    holds = [step for step in story.steps if step.is_hold]
    return story.ended == "committed" and any(step.state not in {"applied", "dropped"} for step in holds)


def difference(records: tuple[Record, ...], kind: Kind) -> str:
    """Return in words where saga_core would decide otherwise than the model; the empty text if nowhere."""
    if not records:
        return ""
    behind = taken_over(records)
    story = tell(behind)
    view = fold(translated(behind, kind))
    if (view.state == "suspended") is not story.is_suspended:
        return f"the model says {story}, saga_core {view.state}"
    if story.is_suspended:
        return ""
    names = [record.step for record in behind if record.what in {"intended", "held"}]
    ours = {step.name: what for step, what in ahead(story, kind)}
    theirs = {name: _spoken(view, number) for number, name in enumerate(names, start=1)}
    wanted = {name: ours.get(name, "nothing") for name in names}
    if wanted != theirs:
        return f"the model wants {wanted}, saga_core {theirs}"
    order = [step.name for step, what in ahead(story, kind) if what != "case"]
    move = _next(view)
    if move.kind not in {"done", "case"} and move.step is not None and names[move.step.number - 1] != order[0]:
        return f"the model begins with {order[0]}, saga_core with step {move.step.number}"
    return ""


def _spoken(view: SagaView, number: int) -> Verdict:
    move = _next(view, number)
    step = view.steps[number]
    if move.step is not None and move.step is not step:
        return "nothing"
    if move.kind == "done" and step.state == "conflict" and step in uncased(view):
        return "case"  # the ending opens it
    return _SPOKEN[move.kind]


def _next(view: SagaView, number: int | None = None) -> Move:
    return next_move(view, up=_LATE, wall=_LATE, asked={}, within=lambda step: number in {None, step.number})
