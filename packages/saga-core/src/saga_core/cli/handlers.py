"""The user's declarations, imported for recovery: by argument, by SAGA_IMPORT, by entry points `saga.actions`."""

from __future__ import annotations

import importlib.metadata
import os
import sys
import traceback
from typing import TYPE_CHECKING

from saga_core.cli.ending import Exit, Stop
from saga_core.cli.masking import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

GROUP = "saga.actions"
_OURS = {__file__, importlib.__file__, importlib.metadata.__file__}


def load(modules: Iterable[str]) -> None:
    """Import the modules that were named, and what installed packages offer.

    The current directory is on the path, as with `python -m`. An installed package that cannot be imported is reported
    and left out: sagas that need it are left alone and counted, all others are recovered.

    Raises:
        Stop: A module that was named cannot be imported.
    """
    here = os.getcwd()  # noqa: PTH109 -- an entry of sys.path is text
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    for offered in importlib.metadata.entry_points(group=GROUP):
        try:
            offered.load()
        except Exception as error:  # noqa: BLE001 -- whatever a package raises, the others' sagas are recovered
            told = f"the actions of {offered.value!r} are left out, it cannot be imported: {_cause(error)}"
            print(f"saga: {told}", file=sys.stderr)
    named = [name.strip() for name in os.environ.get("SAGA_IMPORT", "").split(",")]
    for module in [*modules, *named]:
        if module:
            _import(module)


def _import(module: str) -> None:
    try:
        importlib.import_module(module)
    except (Exception, SystemExit) as error:
        raise Stop(
            Exit.USAGE,
            f"{module!r} cannot be imported: {_cause(error)}\n"
            "  Nothing was recovered. Modules are looked for from the current directory, as with python -m.",
        ) from error


def _cause(error: BaseException) -> str:
    """Return the error in one line, with the place in the user's file where it was raised."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename not in _OURS]
    theirs = [frame for frame in frames if not frame.filename.startswith("<")]
    place = f" ({theirs[-1].filename}:{theirs[-1].lineno})" if theirs else ""
    text = shown(str(error).partition("\n")[0])
    return f"{type(error).__qualname__}{': ' if text else ''}{text}{place}"
