"""A contender in a process and an environment of its own, asked over its standard input when its turn comes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

HERE = Path(__file__).parent


class Unavailable(Exception):
    """The environment cannot be had here; the text says why."""


class Isolated:
    """A program of this directory, run by uv with packages of its own; a context manager.

    It prints a line when it is ready. Then each line that it reads is a JSON list of a question and its numbers, and
    each line that it prints a number.
    """

    def __init__(self, program: str, packages: tuple[str, ...], folder: Path) -> None:
        """Start the program; files of its own belong into `folder`.

        Raises:
            Unavailable: uv, a package or the program itself does not work here.
        """
        uv = shutil.which("uv")
        if uv is None:
            raise Unavailable("uv is not on the path")
        folder.mkdir()
        given = [word for package in packages for word in ("--with", package)]
        self._errors = (folder / "errors").open("w+", encoding="utf-8")
        command = [uv, "run", "--quiet", "--isolated", "--no-project", *given, "python", str(HERE / program)]
        self._process = subprocess.Popen(
            [*command, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True
        )
        try:
            self._read()
        except Unavailable:
            self._end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def ask(self, question: str, *numbers: int) -> float:
        """Return the answer to a question.

        Raises:
            Unavailable: The program died.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([question, *numbers]) + "\n")
        self._process.stdin.flush()
        return float(self._read())

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            said = self._errors.read().strip().splitlines()
            raise Unavailable(said[-1] if said else f"it ended with code {self._process.returncode}")
        return line

    def _end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()
        self._errors.close()
