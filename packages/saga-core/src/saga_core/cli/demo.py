"""Play four acts on a world that is really changed, and ask that world after each act what it holds.

The acts: calls without a saga, the same calls rolled back, the same again with a kill -9 in the middle, and a call that
is refused. With saga-connectors[demo] installed the world is made of the real client libraries against local servers;
without it, of small vendors in a process of their own.
"""

from __future__ import annotations

import logging
import sys
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from saga_core.cli.masking import shown
from saga_core.demo.acts import add_options
from saga_core.demo.acts import run as play
from saga_core.demo.simulated import open_world

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Sequence

_GROUP, _NAME = "saga.demo", "full"


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    add_options(parser)


def run(options: Namespace) -> int:
    """Play."""
    argv = [*(["--json"] if options.json else []), *(["--dir", options.dir] if options.dir else [])]
    logging.getLogger("saga_core").setLevel(logging.ERROR)  # refusals and failures are the subject, not news
    full = _full()
    return play(argv, open_world) if full is None else full(argv)


def _full() -> Callable[[Sequence[str]], int] | None:
    for offered in entry_points(group=_GROUP, name=_NAME):
        try:
            return offered.load()
        except ImportError as missing:
            text = shown(str(missing).partition("\n")[0])
            print(f"saga: the full demo needs more: {text}\nThe simulated world is shown instead.", file=sys.stderr)
    return None
