"""Copy a store, which may be in use, into a directory that is new or empty; the copy can be opened as a store.

Settled sagas can be read in it like in the store. What is not settled is in it up to its last good record, and marked
as a copy: nothing is ever done in its name, it is a case. The store's id is kept.

exit codes: 0 ok, 1 failed, 2 usage, 3 no such store, 5 another process is at it, 6 what is damaged was copied as it
stands
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from saga_core.cli import place
from saga_core.cli.ending import Exit
from saga_core.cli.masking import mask, shown
from saga_core.cli.wording import print_json
from saga_core.stores.backup import NEVER, back_up

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("target", metavar="TARGET", help="a directory that is new or empty, best on another disk")
    place.add_option(parser)
    parser.add_argument("--json", action="store_true", help="data for programs")


def run(options: Namespace) -> Exit:
    """Copy."""
    store = place.in_files(options.store)
    copied = back_up(store, options.target)
    if options.json:
        print_json(
            {
                "schema_version": 1,
                "store": place.name_of(store),
                "target": copied.path,
                "settled": copied.settled,
                "unsettled": copied.unsettled,
                "left": [{"path": left.path, "why": mask(left.why)} for left in copied.left],
                "never": list(NEVER),
            }
        )
    else:
        print(f"{copied.settled} settled and {copied.unsettled} unsettled sagas of {place.name_of(store)} are in")
        print(f"  {copied.path}")
        if copied.unsettled:
            print("  in the copy each unsettled one is a case: nothing is done in its name")
        for what in NEVER:
            print(f"  not in it: {what}")
        for left in copied.left:
            print(f"left: {left.path}: {shown(left.why)}", file=sys.stderr)
    return Exit.DAMAGED if copied.left else Exit.OK
