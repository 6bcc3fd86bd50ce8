"""List the sagas of a store, newest first, a line each: state, name, id, effects, begin, and what a person should know.

A state has a word and a shape. An effect counts as undone only when its undo is proven. Reading a log never imports
or calls anything named in it.
"""

from __future__ import annotations

import logging
import sys
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING

from saga_core.cli import place
from saga_core.cli.ending import Exit
from saga_core.cli.lookup import newest_first, with_prefixes
from saga_core.cli.row import Row, as_json, line, row_of
from saga_core.cli.wording import WORDS, print_json

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from saga_core.stores.store import Backend

_LIMIT = 50


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    place.add_option(parser)
    parser.add_argument(
        "--state", nargs="+", action="extend", choices=list(WORDS), metavar="STATE", help=f"one of: {', '.join(WORDS)}"
    )
    parser.add_argument("--open", action="store_true", help="only sagas that are not settled")
    parser.add_argument("--limit", type=_count, default=_LIMIT, metavar="N", help="at most N (default 50; 0: all)")
    parser.add_argument("--utc", action="store_true", help="times as UTC instead of ages")
    parser.add_argument("--json", action="store_true", help="data for programs")


def _count(text: str) -> int:
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text!r} is not a number of sagas")
    return int(text)


def run(options: Namespace) -> Exit:
    """List."""
    logging.getLogger("saga_core").setLevel(logging.ERROR)  # what a writer should know of the place is not news here
    store = place.standing(options.store)
    rows: list[tuple[Row, str]] = []
    passed, has_more = 0, False
    for row, short in _rows(store, only_open=options.open):
        if options.state and row.state not in options.state:
            passed += 1
        elif 0 < options.limit <= len(rows):
            has_more = True
            break
        else:
            rows.append((row, short))
    if options.json:
        sagas = [{"short": short, **as_json(row)} for row, short in rows]
        print_json({"schema_version": 1, "store": place.name_of(store), "sagas": sagas, "more": has_more})
    else:
        _print_table([line(row, short, utc=options.utc) for row, short in rows])
        _say_what_is_missing(store, options, found=len(rows), passed=passed, has_more=has_more)
    return Exit.OK


def _rows(store: Backend, *, only_open: bool) -> Iterator[tuple[Row, str]]:
    """Yield a row a saga with its short id; the prefix is short among all sagas, whatever is listed."""
    unsettled = set(store.open_sagas()) if only_open else None
    for saga, short in with_prefixes(newest_first(store)):
        if unsettled is None or saga in unsettled:
            reading = store.read(saga)
            if reading is not None and not (only_open and reading.settled):
                yield row_of(store, reading), short


def _print_table(lines: list[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for columns in lines:
        print("  ".join(text.ljust(width) for text, width in zip(columns, widths, strict=True)).rstrip())


def _say_what_is_missing(store: Backend, options: Namespace, *, found: int, passed: int, has_more: bool) -> None:
    words, where = "", place.name_of(store)
    if has_more:
        words = f"the newest {found}; older ones: --limit 0"
    elif not found and passed:
        words = f"no saga in {where} is {' or '.join(WORDS[state] for state in options.state)}; {passed} are not"
    elif not found and options.open:
        words = f"every saga in {where} is settled"
    elif not found:
        words = f"no saga in {where} yet; saga_scope(...) begins one there, `saga demo` shows one elsewhere"
    if words:
        print(words, file=sys.stderr)
