"""How a command ends: one closed set of exit codes, and the exception that carries one."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """The exit codes of `saga`; part of its public behaviour."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    NEEDS_PERSON = 4
    CONFLICT = 5
    DAMAGED = 6
    INTERRUPTED = 130


class Stop(Exception):
    """The command ends here with a message for a person; nothing was changed."""

    def __init__(self, code: Exit, message: str) -> None:
        super().__init__(message)
        self.code = code
