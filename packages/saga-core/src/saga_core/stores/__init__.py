"""Stores by URL."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from saga_core.errors import StoreError
from saga_core.stores.store import Store

if TYPE_CHECKING:
    from saga_core.stores.encryption import Encryption

__all__ = ["Store", "open_store"]


def open_store(url: str, /, *, encryption: Encryption | None = None) -> Store:
    """Return the store that a URL names: `file:PATH`, a plain path, or `memory:`.

    A directory has one store object in a process, however often it is opened; every `memory:` store is a new one.

    Args:
        url: Names the place.
        encryption: The keys of its logs, a `saga_core.stores.encryption.Encryption`; without it, what SAGA_ENCRYPTION
            names. New logs are encrypted then; logs from before stay readable.

    Raises:
        StoreError: There is no such store, or its place cannot be used; nothing was opened.
    """
    if url == "memory:":
        from saga_core.stores.memory import MemoryStore  # noqa: PLC0415 -- only what is used is loaded

        return MemoryStore()
    if url.startswith(("postgresql:", "postgres:")):
        raise StoreError(
            "the PostgreSQL store does not exist yet",
            world="nothing was opened",
            next="use file:PATH, a directory on this machine's own disk",
        )
    path = url.removeprefix("file:")
    if path.startswith("//") and path != url:
        path = path[2:]
    if not path or "://" in path or "\0" in path:
        raise StoreError(
            "the store's URL is not understood", world="nothing was opened", next="write file:PATH, a path, or memory:"
        )
    if sys.platform == "win32":
        raise StoreError(
            "the file store needs flock and fdatasync, which Windows does not have",
            world="nothing was opened",
            next="use WSL, or memory: for tests",
        )
    from saga_core.stores.file import open_file_store  # noqa: PLC0415 -- it needs what Windows lacks

    return open_file_store(path, encryption)
