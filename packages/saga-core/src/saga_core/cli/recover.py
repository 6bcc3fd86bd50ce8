"""Make one pass over the open sagas: settle what is in doubt, undo what landed, open cases for the rest.

A saga with a live owner is left alone. One whose last record is older than --auto-undo-within may be a restored copy:
it is reported, and nothing is done in its name. Twice in a row, or on several machines, changes nothing more. The
actions and inverses that the logs name come from --import, SAGA_IMPORT and installed packages (entry points
`saga.actions`); a saga whose handlers are not there is left as it is and counted.

exit codes: 0 ok, 1 failed, 2 usage, 3 no such store or saga, 4 a person is needed (open cases, missing handlers,
sagas that may be restored copies), 5 --only names a saga that a live process owns, 6 a log is damaged
"""

from __future__ import annotations

import logging
import sys
from contextlib import redirect_stdout
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any

from saga_core.cli import handlers, place
from saga_core.cli.ending import Exit
from saga_core.cli.lookup import resolve
from saga_core.cli.masking import mask, shown
from saga_core.cli.row import row_of
from saga_core.cli.span import span
from saga_core.cli.wording import print_json
from saga_core.engine.age import WITHIN
from saga_core.recovery import recover

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from saga_core.recovery import Found, Outcome, Pass
    from saga_core.stores.store import Backend

_PATIENCE = 1.0
_WORDS: dict[Outcome, str] = {
    "settled": "settled",
    "waiting": "waiting for an answer that counts later",
    "needs_human": "for a person",
    "owned": "owned by a live process",
    "not_due": "not due yet",
    "no_handler": "without their handlers here",
    "damaged": "with a damaged log",
    "suspended": "suspended",
    "stale": "too old to be undone unasked",
    "failed": "failed",
}


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    place.add_option(parser)
    parser.add_argument(
        "--import",
        dest="modules",
        nargs="+",
        action="extend",
        default=[],
        metavar="MODULE",
        help="modules that declare the actions; the current directory is on the path (also: SAGA_IMPORT=a,b)",
    )
    parser.add_argument(
        "--wait",
        type=span,
        default=timedelta(seconds=5),
        metavar="SECONDS",
        help="how long to stay with a saga whose remote cannot tell yet (default 5)",
    )
    parser.add_argument(
        "--resume-grace",
        type=span,
        default=timedelta(seconds=60),
        metavar="SECONDS",
        help="how long a saga with a key is left to whoever may resume it (default 60)",
    )
    parser.add_argument(
        "--auto-undo-within",
        type=span,
        default=WITHIN,
        metavar="TIME",
        help="how old a saga's last record may be: SECONDS, or 90m, 36h, 3d (default 24h)",
    )
    parser.add_argument("--only", metavar="ID", help="this saga alone: its id, or a prefix that only it has")
    parser.add_argument("--json", action="store_true", help="data for programs")


def run(options: Namespace) -> Exit:
    """Recover."""
    with redirect_stdout(sys.stderr):  # what handlers print is talk
        handlers.load(options.modules)
    _log_to_stderr()
    store = place.standing(options.store)
    only = None if options.only is None else resolve(store, options.only)
    progress = _Progress(store)
    with redirect_stdout(sys.stderr):
        done = recover(
            store,
            wait=options.wait,
            resume_grace=options.resume_grace,
            auto_undo_within=options.auto_undo_within,
            only=only,
            progress=progress,
        )
    if options.json:
        print_json(_document(store, done))
    else:
        is_told = progress.has_told and sys.stdout.isatty()
        _print_summary(store, done, only, is_told=is_told)
    return exit_of(done, is_only=only is not None)


def exit_of(done: Pass, *, is_only: bool) -> Exit:
    """Return the exit code of a pass: the gravest of what it found."""
    if done.count("damaged"):
        return Exit.DAMAGED
    if done.count("failed"):
        return Exit.FAILED
    if done.needs_person:
        return Exit.NEEDS_PERSON
    return Exit.CONFLICT if is_only and done.count("owned") else Exit.OK


class _Progress:
    """Tells of each saga as it is done, where somebody watches or it takes longer than a second."""

    def __init__(self, store: Backend) -> None:
        self._store = store
        self._begun = monotonic()
        self._untold: list[Found] = []
        self.has_told = False

    def __call__(self, found: Found) -> None:
        self._untold.append(found)
        if sys.stderr.isatty() or monotonic() - self._begun > _PATIENCE:
            for one in self._untold:
                print(_line(self._store, one), file=sys.stderr)
            self.has_told = True
            self._untold.clear()


def _line(store: Backend, found: Found) -> str:
    return f"{found.saga_id}  {_name(store, found)}  {found.outcome.replace('_', ' ')}: {shown(found.words)}"


def _name(store: Backend, found: Found) -> str:
    reading = store.read(found.saga_id)
    return "" if reading is None else shown(row_of(store, reading).name)


def _print_summary(store: Backend, done: Pass, only: str | None, *, is_told: bool) -> None:
    """Print counts, each saga unless the same screen has it already, each case, and what to do next."""
    counts = _counts(done)
    total = sum(counts.values())
    if not total:
        what = f"saga {only} is settled already" if only else "nothing is open"
        print(f"{what} in {place.name_of(store)}; nothing was done")
        return
    told = ", ".join(f"{counts[outcome]} {words}" for outcome, words in _WORDS.items() if outcome in counts)
    print(f"{total} open saga{'s' if total != 1 else ''} in {place.name_of(store)}: {told}")
    for one in done.found:
        if not is_told:
            print(f"  {_line(store, one)}")
        if one.report is not None:
            for case in one.report.cases:
                print(f"      case {shown(case)}")
    for words in _next_steps(done):
        print(words)


def _counts(done: Pass) -> dict[Outcome, int]:
    """Return how many sagas had each outcome, those included that were left alone where they wait."""
    counts: dict[Outcome, int] = {outcome: done.count(outcome) for outcome in _WORDS}
    return {outcome: count for outcome, count in counts.items() if count}


def _next_steps(done: Pass) -> list[str]:
    words: list[str] = []
    if done.count("no_handler"):
        words.append("next: name the modules that declare the missing handlers: --import MODULE, or SAGA_IMPORT=a,b")
    if done.count("waiting") or done.count("not_due"):
        words.append("next: run it again later, or stay with them: --wait SECONDS")
    if done.count("needs_human") or done.count("damaged") or done.count("failed"):
        words.append("next: look at each: saga show ID")
    if done.count("stale"):
        words.append(
            "next: see whether the old ones still concern the world: saga show ID; to undo one all the same:"
            " saga recover --only ID --auto-undo-within 30d"
        )
    return words


def _document(store: Backend, done: Pass) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "store": place.name_of(store),
        "needs_person": done.needs_person,
        "counts": _counts(done),
        "found": [
            {
                "id": one.saga_id,
                "name": _name(store, one),
                "outcome": one.outcome,
                "words": mask(one.words),
                "state": None if one.report is None else one.report.state,
                "steps": [] if one.report is None else [mask(step.words) for step in one.report.steps],
                "cases": [] if one.report is None else [mask(case) for case in one.report.cases],
            }
            for one in done.found
        ],
    }


class _Masked(logging.Formatter):
    """What handlers raise may quote a secret; a traceback is masked like any recorded text."""

    def format(self, record: logging.LogRecord) -> str:
        return mask(super().format(record))


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Masked("%(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])  # does nothing where an import has configured it
