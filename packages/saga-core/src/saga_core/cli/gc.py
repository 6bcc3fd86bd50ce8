"""Pack the logs of settled sagas, a file a day, and drop them when their time is over.

Days older than two are packed: the logs of a day go into done/DAY.pack. Days older than --older-than are dropped;
what counts is the day on which a saga began. A saga with an open case or a pending undo is not settled: it is neither
packed nor dropped. It may be cut off anywhere and run again, and two at once are safe.

exit codes: 0 ok, 1 failed, 2 usage, 3 no such store, 5 another process is at it, 6 something is damaged and was left
"""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING

from saga_core.cli import place
from saga_core.cli.ending import Exit
from saga_core.cli.masking import shown
from saga_core.cli.wording import print_json
from saga_core.clock import SYSTEM
from saga_core.stores.retention import DAYS, collect

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from saga_core.stores.retention import Collected

_MOST = 100_000


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    place.add_option(parser)
    parser.add_argument(
        "--older-than", type=_days, default=DAYS, metavar="DAYS", help=f"drop days older than this (default {DAYS})"
    )
    parser.add_argument("--dry-run", action="store_true", help="change nothing; say what would be done")
    parser.add_argument("--json", action="store_true", help="data for programs")


def _days(text: str) -> int:
    if not text.isdecimal() or int(text) > _MOST:
        raise ArgumentTypeError(f"{text!r} is not a number of days")
    return int(text)


def run(options: Namespace) -> Exit:
    """Pack and drop."""
    store = place.in_files(options.store)
    done = collect(store.archive, now=SYSTEM.wall(), days=options.older_than, is_rehearsal=options.dry_run)
    if options.json:
        print_json(
            {
                "schema_version": 1,
                "store": place.name_of(store),
                "dry_run": options.dry_run,
                "kept_since": done.kept_since,
                "packed": done.packed,
                "dropped": done.dropped,
                "left": [left._asdict() for left in done.left],
                "damaged": [left._asdict() for left in done.damaged],
            }
        )
    else:
        _tell(place.name_of(store), done, is_rehearsal=options.dry_run)
    return Exit.DAMAGED if done.damaged else Exit.OK


def _tell(where: str, done: Collected, *, is_rehearsal: bool) -> None:
    would = "would be " if is_rehearsal else ""
    for what, days in (("packed", done.packed), ("dropped", done.dropped)):
        if days:
            count = sum(days.values())
            print(f"{count} saga{'s' if count != 1 else ''} of {_span(days)} {would}{what}")
    if not done.packed and not done.dropped:
        print(f"nothing to pack or drop in {where}; what began since {done.kept_since} is kept")
    for left in (*done.left, *done.damaged):
        print(f"left: {left.path}: {shown(left.why)}", file=sys.stderr)


def _span(days: dict[str, int]) -> str:
    first, last = min(days), max(days)
    return first if first == last else f"{len(days)} days ({first} to {last})"
