"""Tell one saga: its calls (->), its undos (<-) in the order in which they ran, refused calls (-|), and its end.

ID may be any prefix that only one saga has. Recorded values are shown short; whatever looks like a secret is masked.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from saga_core import codec
from saga_core.cli import place
from saga_core.cli.ending import Exit, Stop
from saga_core.cli.lookup import resolve
from saga_core.cli.masking import harmless, mask, mask_value, shown
from saga_core.cli.row import Row, as_json, row_of
from saga_core.cli.story import Event, story
from saga_core.cli.wording import brief, latency, moment, print_json, sign, when
from saga_core.report import report_of

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from saga_core.records import Record
    from saga_core.stores.store import Reading
    from saga_core.view import StepView

_SECOND = 1_000_000_000


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("id", metavar="ID", help="a saga's id, or a prefix that only it has")
    place.add_option(parser)
    parser.add_argument("--records", action="store_true", help="the raw records, one a line")
    parser.add_argument("--utc", action="store_true", help="times as UTC instead of since the begin")
    parser.add_argument("--json", action="store_true", help="data for programs")


def run(options: Namespace) -> Exit:
    """Show."""
    logging.getLogger("saga_core").setLevel(logging.ERROR)  # what a writer should know of the place is not news here
    store = place.standing(options.store)
    saga = resolve(store, options.id)
    reading = store.read(saga)
    if reading is None:
        raise Stop(Exit.NOT_FOUND, f"saga {saga} has gone from {place.name_of(store)} just now")
    row = row_of(store, reading)
    if options.json:
        print_json(_document(place.name_of(store), row, reading, records=options.records))
    elif options.records:
        for number, record in enumerate(reading.records):
            print(_record_line(number, record, row, utc=options.utc))
    else:
        _print_saga(place.name_of(store), row, reading, utc=options.utc)
    if row.damage is not None:
        print(f"saga: its log is damaged, nothing is done in its name: {shown(row.damage)}", file=sys.stderr)
        return Exit.DAMAGED
    return Exit.OK


def _print_saga(url: str, row: Row, reading: Reading, *, utc: bool) -> None:
    for label, text in _head(url, row, reading, utc=utc):
        print(f"{label:<8}{text}")
    began = row.view.began
    if began is None:
        return
    print()
    for event in story(reading.records):
        print(f"  {_time(event.at, began.at, utc=utc)}  {event.text}")
    report = report_of(row.view)
    print()
    for step in report.steps:
        print(f"  {shown(step.words)}")
    for case in report.cases:
        print(f"  case {shown(case)}")
    for currency, amount in report.money().items():
        print(f"  stands or may stand: {amount} {shown(currency)} (minor units)")


def _head(url: str, row: Row, reading: Reading, *, utc: bool) -> list[tuple[str, str]]:
    view, began = row.view, row.view.began
    lines = [("saga", f"{shown(row.name)} {row.saga}".strip()), ("state", _state(row)), ("store", url)]
    if began is None:
        lines.append(("log", "nothing is recorded in it: no effect started"))
        return lines
    lasted = "" if view.ended_at is None else f", ended after {latency(view.ended_at - began.at)}"
    lines.append(("began", f"{when(began.at, utc=utc)}{lasted}"))
    if began.key is not None:
        lines.append(("key", f"{shown(began.key)} (generation {began.generation})"))
    if began.tags:
        lines.append(("tags", ", ".join(f"{shown(name)}={brief(value, name)}" for name, value in began.tags.items())))
    if row.owner is not None:
        lines.append(("owner", row.owner))
    if row.damage is not None:
        lines.append(("damage", shown(row.damage)))
    if reading.dropped:
        lines.append(("torn", f"{len(reading.dropped)} bytes behind the last record were never completed; not shown"))
    return lines


def _state(row: Row) -> str:
    words = sign(row.state)
    if row.view.reason:
        words += f" ({shown(row.view.reason)})"
    if row.state in {"running", "committing", "unwinding"} and row.owner is None:
        words += ", and nobody alive owns it: run saga recover"
    return words


def _time(at: int, start: int, *, utc: bool) -> str:
    return moment(at) if utc else f"{(at - start) / _SECOND:+10.3f} s"


def _record_line(number: int, record: Record, row: Row, *, utc: bool) -> str:
    at = getattr(record, "at", None)
    start = row.view.began.at if row.view.began is not None else 0
    time = " " * len(_time(start, start, utc=utc)) if at is None else _time(at, start, utc=utc)
    fields = harmless(msgspec.json.encode(_fields(record)).decode())
    return f"{number:>5}  {time}  {type(record).__name__:<13}{fields}"


def _fields(record: Record) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if isinstance(value, msgspec.Raw):
            value = mask_value(codec.thaw(value), name)
        elif not isinstance(value, int):  # numbers, steps and times; those of the user are inside Raw
            value = mask_value(msgspec.to_builtins(value, builtin_types=(bytes,)), name)
        plain[name] = value
    return plain


def _document(url: str, row: Row, reading: Reading, *, records: bool) -> dict[str, Any]:
    view = row.view
    report = report_of(view)
    document: dict[str, Any] = {
        "schema_version": 1,
        "store": url,
        "saga": as_json(row) | {"dropped": len(reading.dropped), "host": view.owner and view.owner.host},
        "steps": [_step(step) for step in view.steps.values()],
        "refused": [
            {
                "step": call.number,
                "action": mask(call.action),
                "at": moment(call.at),
                "rule": mask(call.rule),
                "reason": mask(call.reason),
            }
            for call in view.refused
        ],
        "events": [_event(event) for event in story(reading.records)],
        "report": {
            "words": [mask(step.words) for step in report.steps],
            "cases": [mask(case) for case in report.cases],
            "stands": {mask(currency): str(amount) for currency, amount in report.money().items()},
            "is_clean": report.is_clean and row.damage is None,
        },
    }
    if records:
        document["records"] = [{"kind": type(record).__name__, **_fields(record)} for record in reading.records]
    return document


def _step(step: StepView) -> dict[str, Any]:
    return {
        "step": step.number,
        "action": mask(step.action),
        "version": step.version,
        "reversibility": step.reversibility,
        "position": mask(step.position),
        "attempt": step.attempt,
        "scope": step.scope,
        "state": step.state,
        "at": moment(step.at),
        "args": mask_value(codec.thaw(step.args)),
        "captured": mask_value(codec.thaw(step.captured)),
        "notes": mask_value(dict(step.notes)),
        "result": None if step.result is None else mask_value(codec.thaw(step.result)),
        "amount": step.amount,
        "currency": step.currency,
        "undo": None if step.undo is None else mask_value(msgspec.structs.asdict(step.undo)),
        "undo_trials": step.trials,
    }


def _event(event: Event) -> dict[str, Any]:
    return {
        "arrow": event.arrow,
        "at": moment(event.at),
        "step": event.step,
        "what": event.what,
        "end": event.end,
        "ms": None if event.took is None else event.took / 1_000_000,
    }
