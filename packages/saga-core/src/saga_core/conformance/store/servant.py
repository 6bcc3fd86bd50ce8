"""The program of another process: it makes itself the harness, and does what it is told, a line at a time."""

from __future__ import annotations

import json
import pickle
import sys
from typing import TYPE_CHECKING, NamedTuple

from saga_core.conformance.store.sample import began, noted

if TYPE_CHECKING:
    from pathlib import Path

    from saga_core.conformance.twin import Twin
    from saga_core.stores.store import Backend, Log


class Orders(NamedTuple):
    """What the process is told first.

    Attributes:
        twin: The harness that it makes itself.
        place: The store's place.
    """

    twin: Twin
    place: Path


class Servant:
    """What the process can do; each method's return is its answer."""

    def __init__(self, store: Backend) -> None:
        self._store = store
        self._logs: dict[str, Log] = {}

    def begin(self, saga: str) -> None:
        log = self._logs[saga] = self._store.create(saga)
        log.append(began(saga))

    def claim(self, saga: str) -> bool:
        claimed = self._store.claim(saga)
        if claimed is not None:
            self._logs[saga] = claimed[0]
        return claimed is not None

    def note(self, saga: str, number: int, size: int) -> None:
        self._logs[saga].append(noted(number, size))

    def release(self, saga: str) -> None:
        self._logs.pop(saga).release()

    def take(self, key: str, saga: str, generation: int) -> bool:
        return self._store.take_key(key, saga, generation)


def main() -> None:
    """Do what is told on standard input."""
    answers, sys.stdout = sys.stdout, sys.stderr  # what the harness prints is no answer

    def answer(value: object) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    orders: Orders = pickle.loads(bytes.fromhex(sys.stdin.readline()))  # noqa: S301 -- from who started this process
    servant = Servant(orders.twin.harness().open(orders.place))
    answer("ready")
    for line in sys.stdin:
        do, *what = json.loads(line)
        if do == "note for ever":
            saga, size = what
            number = 0
            while True:
                number += 1
                servant.note(saga, number, size)
                answer(number)
        answer(getattr(servant, do)(*what))
