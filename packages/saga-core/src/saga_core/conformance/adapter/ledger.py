"""The world of the scenarios: an append-only file, which a killed process and its recoverer share."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

PLACE: Final = "SAGA_CONFORMANCE_LEDGER"
"""The environment variable that names the file."""

DEATH: Final = "SAGA_CONFORMANCE_DEATH"
"""The environment variable by which a process is killed: `before` or `after`, a colon, the item that lands."""

PATIENCE: Final = 60.0
"""Seconds that anything here is waited for."""

_PAUSE = 0.005


class Declined(Exception):
    """The world said no: nothing happened."""


class Ledger:
    """What really happened, read from the file each time.

    Attributes:
        path: The file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)

    @classmethod
    def here(cls) -> Ledger:
        """Return the ledger that this process is told of.

        Raises:
            KeyError: It is told of none: the actions are called outside a scenario.
        """
        return cls(os.environ[PLACE])

    def land(self, item: str, key: str, amount: int = 0) -> str:
        """Take effect, and return the effect's id; it dies here, with its process, where that is planned."""
        _die("before", item)
        effect = f"{item}-{os.urandom(4).hex()}"
        self._write("land", item=item, key=key, effect=effect, amount=amount)
        _die("after", item)
        return effect

    def take_back(self, effect: str, key: str) -> None:
        """Undo an effect.

        Raises:
            LookupError: There is no such effect; nothing is done.
        """
        if all(line["effect"] != effect for line in self.lines("land")):
            raise LookupError(f"there is no effect {effect}")
        self._write("undo", effect=effect, key=key)

    def find(self, key: str) -> str | None:
        """Return the effect of a key, undone or not; None if nothing landed under it."""
        return next((line["effect"] for line in self.lines("land") if line["key"] == key), None)

    def begin(self, item: str) -> None:
        """Say that a tool has started."""
        self._write("begin", item=item)

    def decline_once(self, item: str) -> None:
        """Say no the first time.

        Raises:
            Declined: It is the first time for this item.
        """
        if not any(line["item"] == item for line in self.lines("decline")):
            self._write("decline", item=item)
            raise Declined("the stock is being counted")

    def release(self) -> None:
        """Let the tools that wait for it go on."""
        self._write("release")

    @property
    def is_released(self) -> bool:
        """Tell whether `release` was called."""
        return bool(self.lines("release"))

    @property
    def landed(self) -> list[str]:
        """The items of all effects, in order."""
        return [line["item"] for line in self.lines("land")]

    @property
    def standing(self) -> list[str]:
        """The items whose effects nobody undid, in the order in which they landed."""
        back = {line["effect"] for line in self.lines("undo")}
        return [line["item"] for line in self.lines("land") if line["effect"] not in back]

    @property
    def undone(self) -> list[str]:
        """The items that were given back, in order."""
        items = {line["effect"]: line["item"] for line in self.lines("land")}
        return [items[effect] for effect in dict.fromkeys(line["effect"] for line in self.lines("undo"))]

    @property
    def begun(self) -> list[str]:
        """The items of the tools that said they had started."""
        return [line["item"] for line in self.lines("begin")]

    @property
    def violations(self) -> list[str]:
        """What must never happen, in words."""
        items = {line["effect"]: line["item"] for line in self.lines("land")}
        keys = [line["key"] for line in self.lines("land")]
        undos = {(line["effect"], line["key"]) for line in self.lines("undo")}
        found = [f"{items[effect]} was undone under two keys" for effect in _twice([at for at, _ in undos])]
        return found + [f"the key {key} landed twice" for key in _twice(keys)]

    def lines(self, kind: str) -> list[dict[str, Any]]:
        """Return the lines of one kind; one that is being written does not count yet."""
        try:
            with open(self.path, "rb") as file:  # noqa: PTH123 -- the path is a string from the environment
                whole, _, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            return []
        return [line for line in map(json.loads, whole.splitlines()) if line["do"] == kind]

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Return when `holds` is true.

        Raises:
            TimeoutError: It never became true.
        """
        until = time.monotonic() + PATIENCE
        while not holds():
            if time.monotonic() > until:
                raise TimeoutError("the ledger never came to it")
            time.sleep(_PAUSE)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Do as `wait_until` does, on a loop."""
        async with asyncio.timeout(PATIENCE):
            while not holds():  # noqa: ASYNC110 -- another process may write what is waited for
                await asyncio.sleep(_PAUSE)

    def _write(self, kind: str, **facts: str | int) -> None:
        line = json.dumps({"do": kind, **facts}).encode() + b"\n"
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line)  # one write: whole lines, whoever else appends
        finally:
            os.close(file)


@contextmanager
def told_of(path: Path) -> Generator[Ledger]:
    """Make a file the ledger of this process, and of those that it starts, for the length of a block."""
    before = os.environ.get(PLACE)
    os.environ[PLACE] = str(path)
    try:
        yield Ledger(path)
    finally:
        if before is None:
            del os.environ[PLACE]
        else:
            os.environ[PLACE] = before


def _die(when: str, item: str) -> None:
    if os.environ.get(DEATH) == f"{when}:{item}":
        os.kill(os.getpid(), signal.SIGKILL)


def _twice(values: list[str]) -> list[str]:
    return sorted({value for value in values if values.count(value) > 1})
