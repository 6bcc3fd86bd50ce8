"""Telling the user's own exception what became of the saga, without ever standing in its way."""

from __future__ import annotations

from saga_core.engine.session import log


def note(error: BaseException, text: str) -> None:
    """Add a note; an exception that takes none leaves it to the log."""
    try:
        error.add_note(text)
    except Exception:  # noqa: BLE001 -- a frozen exception refuses with whatever it likes
        log.warning("%s", text)
