"""Erase one settled saga: afterwards the store holds no readable byte of its calls, its name, its key or its tags.

A tombstone stays: that it was erased, when and, if you say so, by whom. Its key stays taken. What is not settled is not
erased: its log is what its undo needs. Copies of the store, and whatever the disk keeps of deleted files, are yours to
look after.

exit codes: 0 erased, now or before, 1 failed, 2 usage, 3 no such store or saga, 4 it is not settled, 5 another process
is at it, 6 the pack that holds it is damaged
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from saga_core.cli import place
from saga_core.cli.ending import Exit, Stop
from saga_core.cli.lookup import resolve
from saga_core.cli.masking import mask, shown
from saga_core.cli.row import row_of
from saga_core.cli.wording import moment, print_json, sign
from saga_core.clock import SYSTEM
from saga_core.ids import is_saga_id
from saga_core.stores.erasure import erase

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from saga_core.stores.file import FileStore


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("id", metavar="ID", help="a saga's id, or a prefix that only it has")
    place.add_option(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--by", metavar="NAME", help="who erases it; kept in the tombstone")
    parser.add_argument("--json", action="store_true", help="data for programs; needs --yes")


def run(options: Namespace) -> Exit:
    """Erase."""
    store = place.in_files(options.store)
    named = options.id.strip().upper()
    stone = store.tombstone(named) if is_saga_id(named) else None
    is_again = stone is not None and stone.why == "erased"
    saga = named if is_again else resolve(store, options.id)
    if not is_again and not options.yes:
        _ask(store, saga, is_json=options.json)
    stone = erase(store, saga, now=SYSTEM.wall(), by=options.by)
    if stone is None:
        raise Stop(Exit.NOT_FOUND, f"saga {saga} has gone from {place.name_of(store)} just now")
    if options.json:
        at = None if stone.at is None else moment(stone.at)
        by = None if stone.by is None else mask(stone.by)
        print_json({"schema_version": 1, "store": place.name_of(store), "id": saga, "at": at, "by": by})
    else:
        by = "" if stone.by is None else f" by {shown(stone.by)}"
        print(f"saga {saga} was erased already{by}" if is_again else f"saga {saga} is erased; its tombstone stays")
    return Exit.OK


def _ask(store: FileStore, saga: str, *, is_json: bool) -> None:
    """Return if the person at the terminal agrees.

    Raises:
        Stop: They do not, or nobody is there.
    """
    if is_json or not sys.stdin.isatty():
        raise Stop(Exit.USAGE, "erasing cannot be taken back; nobody is there to ask: say --yes")
    reading = store.read(saga)
    if reading is not None and reading.settled:
        row = row_of(store, reading)
        print(f"{saga}  {sign(row.state)}  {shown(row.name)}", file=sys.stderr)
        print("Erase it? This cannot be taken back. [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            raise Stop(Exit.FAILED, "nothing was erased")
