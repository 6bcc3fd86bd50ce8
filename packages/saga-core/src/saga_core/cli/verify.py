"""Read every log of a store, in files and in packs, and say which cannot be trusted.

Checked are the checksums, whether each record can be decoded, whether the records make sense together, and whether each
log lies where it belongs and in one place only. Nothing is changed; a running store may go on.

exit codes: 0 all is sound, 1 failed, 2 usage, 3 no such store, 6 something is damaged
"""

from __future__ import annotations

import sys
from collections import Counter
from time import monotonic
from typing import TYPE_CHECKING

from saga_core.cli import place
from saga_core.cli.ending import Exit
from saga_core.cli.masking import mask, shown
from saga_core.cli.wording import print_json
from saga_core.stores.verification import verify

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from saga_core.stores.verification import Checked

_OFTEN = 0.5

_KINDS = {"open": "unsettled", "done": "settled in files", "packed": "in packs", "tombstone": "erased"}


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    place.add_option(parser)
    parser.add_argument("--json", action="store_true", help="data for programs")


def run(options: Namespace) -> Exit:
    """Verify."""
    store = place.in_files(options.store)
    counts: Counter[str] = Counter()
    problems: list[Checked] = []
    progress = _Progress(is_shown=not options.json and sys.stderr.isatty())
    for checked in verify(store):
        counts[checked.kind] += 1
        if checked.problem is not None:
            problems.append(checked)
        progress.tell(counts, len(problems))
    progress.end()
    if options.json:
        print_json(
            {
                "schema_version": 1,
                "store": place.name_of(store),
                "counts": {kind: counts[kind] for kind in (*_KINDS, "pack")},
                "problems": [one._asdict() | {"problem": mask(one.problem or "")} for one in problems],
            }
        )
    else:
        parts = ", ".join(f"{counts[kind]} {words}" for kind, words in _KINDS.items())
        print(f"{parts}: {f'{len(problems)} damaged' if problems else 'all sound'} in {place.name_of(store)}")
        for one in problems:
            print(f"  {one.place}  {one.saga or ''}  {shown(one.problem or '')}")
    return Exit.DAMAGED if problems else Exit.OK


class _Progress:
    """A line at the terminal that says how far it is, twice a second."""

    def __init__(self, *, is_shown: bool) -> None:
        self._is_shown = is_shown
        self._next = monotonic() + _OFTEN
        self._has_told = False

    def tell(self, counts: Counter[str], problems: int) -> None:
        if self._is_shown and monotonic() >= self._next:
            self._next = monotonic() + _OFTEN
            self._has_told = True
            print(f"\r{counts.total()} read, {problems} damaged ", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._has_told:
            print(file=sys.stderr)
