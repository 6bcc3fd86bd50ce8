"""The program: finds the command, loads its module, and turns what it raises into an exit code."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING

from saga_core.cli.ending import Exit, Stop

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "ls": "list sagas, newest first",
    "show": "tell one saga: every call, every undo, what waits for a person",
    "approvals": "answer for calls that wait for a person",
    "cases": "settle what only a person can",
    "recover": "settle and undo what dead processes left open (one pass)",
    "gc": "pack the logs of settled sagas, and drop them when their time is over",
    "erase": "leave nothing of a settled saga but its tombstone",
    "verify": "read every log and say which cannot be trusted",
    "backup": "copy a store that is in use",
    "demo": "no saga yet? watch a rollback, a kill -9 and a refusal change a world and put it back",
}
"""Each command is a module of this package, loaded when it is called."""

_HELP = """\
usage: saga COMMAND [options]

Undo for AI agents: what was called, what it changed, what was undone.

commands:
{commands}

options of most commands:
  --store URL   the store: file:PATH or a path (default: SAGA_STORE, else ./.saga)
  --json        data for programs, on standard output; talk goes to standard error
  --help        what the command does, and its own options; --version says which saga-core this is

exit codes:
  0 ok   1 failed   2 usage   3 not found   4 needs a person   5 conflict   6 log damaged
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        argv: The arguments behind the program's name; default those of this process.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a letter that the terminal lacks must not end the command
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read our output has enough; what is buffered has nowhere to go
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.FAILED
    except KeyboardInterrupt:
        print("saga: interrupted; what was recorded stands, and the command may be run again", file=sys.stderr)
        return Exit.INTERRUPTED
    return code


def _run(arguments: list[str]) -> int:
    name = arguments[0] if arguments else "--help"
    if name in {"-h", "--help", "help"}:
        print(_HELP.format(commands="\n".join(f"  {name:<11}{what}" for name, what in COMMANDS.items())), end="")
        return Exit.OK
    if name in {"-V", "--version"}:
        from importlib.metadata import version  # noqa: PLC0415 -- only what is asked for is loaded

        print(f"saga {version('saga-core')}")
        return Exit.OK
    if name not in COMMANDS:
        print(f"saga: there is no command {name!r}; there are {', '.join(COMMANDS)} (saga --help)", file=sys.stderr)
        return Exit.USAGE
    return _command(name, arguments[1:])


def _command(name: str, arguments: list[str]) -> int:
    from saga_core.errors import SagaError  # noqa: PLC0415 -- help is there without the engine

    command = import_module(f"saga_core.cli.{name}")
    parser = argparse.ArgumentParser(
        prog=f"saga {name}", description=command.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.configure(parser)
    try:
        return command.run(parser.parse_args(arguments))
    except SystemExit as ended:  # argparse has said what is wrong, or has printed its help
        return ended.code if isinstance(ended.code, int) else Exit.USAGE
    except Stop as stop:
        print(f"saga: {stop}", file=sys.stderr)
        return stop.code
    except SagaError as error:
        from saga_core.cli.masking import shown  # noqa: PLC0415 -- only what is used is loaded

        print("\n".join(shown(line) for line in f"saga: {error}".splitlines()), file=sys.stderr)
        return exit_of(error)


def exit_of(error: Exception) -> Exit:
    """Return the exit code of one of our errors."""
    from saga_core.errors import (  # noqa: PLC0415 -- help is there without the engine
        ApprovalConflict,
        CaseConflict,
        LogDamaged,
        NotFound,
        SagaBusy,
        SagaUnsettled,
        StoreBusy,
    )

    if isinstance(error, LogDamaged):
        return Exit.DAMAGED
    if isinstance(error, SagaUnsettled):
        return Exit.NEEDS_PERSON
    if isinstance(error, NotFound):
        return Exit.NOT_FOUND
    return Exit.CONFLICT if isinstance(error, (ApprovalConflict, CaseConflict, SagaBusy, StoreBusy)) else Exit.FAILED
