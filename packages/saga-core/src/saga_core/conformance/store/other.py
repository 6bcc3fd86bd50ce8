"""Another process that has the same store, and does there what it is told, a line at a time."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import tempfile
import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from saga_core.conformance.expectation import expect
from saga_core.conformance.store.servant import Orders
from saga_core.conformance.twin import Twin

if TYPE_CHECKING:
    from pathlib import Path

    from saga_core.conformance.store.harness import Harness

PATIENCE: Final = 60.0
"""Seconds that anything here is waited for."""

_START = "from saga_core.conformance.store.servant import main; main()"


class Other:
    """The handle of another process."""

    def __init__(self, harness: Harness, place: Path) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 -- closed with the process
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            bufsize=1,
        )
        self._heard: SimpleQueue[str | None] = SimpleQueue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._write(pickle.dumps(Orders(Twin.of(harness), place)).hex())
        self.hear()

    def tell(self, do: str, *what: object) -> None:
        """Have it do something, without waiting for the answer."""
        self._write(json.dumps([do, *what]))

    def hear(self) -> Any:
        """Return its next answer.

        Raises:
            AssertionError: It died, or says nothing.
        """
        try:
            line = self._heard.get(timeout=PATIENCE)
        except Empty:
            line = None
        expect(line is not None, f"the other process should answer; it said: {self._words()}")
        return json.loads(line or "")

    def ask(self, do: str, *what: object) -> Any:
        """Have it do something, and return the answer."""
        self.tell(do, *what)
        return self.hear()

    def kill(self) -> list[Any]:
        """Kill it, as `kill -9` does, and return the answers that nobody heard."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._listener.join()
        for pipe in (self._process.stdin, self._process.stdout, self._said):
            if pipe is not None:
                pipe.close()
        rest: list[Any] = []
        while not self._heard.empty():
            line = self._heard.get()
            if line is not None:
                rest.append(json.loads(line))
        return rest

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):
                self._heard.put(line)
        self._heard.put(None)

    def _words(self) -> str:
        self._said.seek(0)
        return self._said.read().decode(errors="replace")[-2000:] or "nothing"
