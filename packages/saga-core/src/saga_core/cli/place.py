"""Which store a command looks at: argument, else SAGA_STORE, else ./.saga; a command that reads never makes one."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from saga_core.cli.ending import Exit, Stop
from saga_core.cli.masking import mask_url
from saga_core.engine.terms import backend

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from saga_core.stores.file import FileStore
    from saga_core.stores.store import Backend

_DEFAULT = "file:.saga"


def add_option(parser: ArgumentParser) -> None:
    """Add `--store`."""
    parser.add_argument("--store", metavar="URL", help="file:PATH or a path (default: SAGA_STORE, else ./.saga)")


def standing(url: str | None) -> Backend:
    """Return the store that a command means, if it stands.

    Raises:
        Stop: There is none.
        StoreError: It cannot be used.
    """
    named = url or os.environ.get("SAGA_STORE") or _DEFAULT
    if named == "memory:":
        raise Stop(Exit.NOT_FOUND, "a memory: store lives and ends inside its own process; there is nothing to read")
    path = named.removeprefix("file:")
    if path.startswith("//") and path != named:
        path = path[2:]
    if "://" not in named and not Path(path, "store").is_file():
        raise Stop(Exit.NOT_FOUND, _missing(Path(path).resolve(), url))
    return backend(url)


def in_files(url: str | None) -> FileStore:
    """Return the file store that a command means, if it stands.

    Raises:
        Stop: There is none.
        StoreError: It cannot be used.
    """
    logging.getLogger("saga_core").setLevel(logging.ERROR)  # what a writer should know of the place is not news here
    store = standing(url)
    from saga_core.stores.file import FileStore  # noqa: PLC0415 -- it needs what Windows lacks; no store stands there

    if not isinstance(store, FileStore):
        raise Stop(Exit.USAGE, f"{name_of(store)} keeps its sagas otherwise than in files")
    return store


def name_of(store: Backend) -> str:
    """Return the store's URL as it may be shown."""
    return mask_url(store.url)


def _missing(path: Path, url: str | None) -> str:
    if url:
        source = "named by --store"
    elif os.environ.get("SAGA_STORE"):
        source = "named by SAGA_STORE"
    else:
        source = "the default; --store or SAGA_STORE names another"
    return (
        f"there is no store at {path} ({source})\n"
        "  A store begins with the first saga opened in it:\n"
        "      from saga_core import saga_scope\n"
        '      with saga_scope("close-deal"):\n'
        "          ...\n"
        "  To see one at work: saga demo"
    )
