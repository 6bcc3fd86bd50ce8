"""A terminal in which `saga` is typed, and what runs below it."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, Self

import psutil

SAGA = Path(sys.executable).with_name("saga")


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in {"SAGA_STORE", "SAGA_IMPORT", "SAGA_MODE"}}
    return {**kept, "PYTHONWARNINGS": "error"}


def saga(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    """Type `saga ...` and wait for its end."""
    return subprocess.run([SAGA, *arguments], capture_output=True, text=True, env=environment(), check=False)


def saga_without(library: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Type `saga ...` where a library is not installed."""
    program = f"import sys; sys.modules[{library!r}] = None; from saga_core.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)


class Terminal:
    """`saga demo`, typed in a session of its own and watched from the moment when its vendors run.

    Attributes:
        below: Every process that was seen below it.
    """

    def __init__(self, *arguments: str | Path) -> None:
        # Where the tests run in the background, Ctrl-C may be ignored, and whoever is started inherits that.
        heard = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.process = subprocess.Popen(
            [SAGA, "demo", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            start_new_session=True,
        )
        signal.signal(signal.SIGINT, heard)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.output, self.errors = self.process.stdout, self.process.stderr
        self.below: set[psutil.Process] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.kill()
        self.process.communicate()

    def wait_for(self, words: str, stream: IO[str]) -> None:
        """Read until a line with these words has come, and look at what runs then."""
        read: list[str] = []
        while words not in (line := stream.readline()):
            assert line, "".join((*read, *self.process.communicate()))
            read.append(line)
        self.below.update(psutil.Process(self.process.pid).children(recursive=True))

    def end(self) -> tuple[str, str]:
        """Return what else it says until it has ended."""
        return self.process.communicate(timeout=60)

    def press_ctrl_c(self) -> None:
        os.killpg(self.process.pid, signal.SIGINT)

    def left_running(self) -> list[psutil.Process]:
        return [one for one in self.below if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]

    def wait_for_those_below(self) -> None:
        """Wait until everything that was seen below it has ended."""
        _, alive = psutil.wait_procs(self.below, timeout=30)
        assert not alive

    def commands(self) -> list[list[str]]:
        """Return the commands of those that were seen and have not ended yet."""
        found: list[list[str]] = []
        for one in self.below:
            with suppress(psutil.NoSuchProcess):
                found.append(one.cmdline())
        return found

    def postgres_folders(self) -> set[Path]:
        """Return the folders of the PostgreSQL servers that run."""
        return {Path(words[words.index("-D") + 1]).parent for words in self.commands() if "-D" in words}
