"""A user's desk: a directory with a module of actions, a ledger, a store, and the command `saga`."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

SAGA = Path(sys.executable).with_name("saga")
HEAD = "from shop import *\n"


class Desk:
    """A user's directory: the module `shop`, its ledger, a store, and the commands typed there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / ".saga"
        shutil.copy(Path(__file__).with_name("shop.py"), folder / "shop.py")

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SAGA_")}
        return {**kept, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "error", **more}

    def saga(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Type `saga ...`."""
        return subprocess.run(
            [SAGA, *arguments],
            cwd=self.folder,
            env=self.environment(**environment),
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )

    def json(self, *arguments: str) -> Any:
        """Type `saga ... --json` and read what it prints."""
        return json.loads(self.saga(*arguments, "--json").stdout)

    def python(self, program: str) -> str:
        """Run a program that may fail, and return what it prints."""
        command = [sys.executable, "-c", HEAD + program]
        return subprocess.run(
            command, cwd=self.folder, env=self.environment(), capture_output=True, text=True, check=False
        ).stdout

    def start(self, program: str) -> subprocess.Popen[str]:
        """Start a program and return once an effect of it has been reached; it waits there for its end."""
        command = [sys.executable, "-c", HEAD + program]
        child = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        assert [child.stdout.readline(), child.stdout.readline()] == ["the shop is open\n", "reached\n"]
        return child

    def kill(self, program: str) -> int:
        """Start a program, kill it in the middle of the effect that it reached, and return its process id."""
        child = self.start(program)
        child.send_signal(signal.SIGKILL)
        child.communicate()
        return child.pid

    def ledger(self) -> tuple[int, int]:
        """Return how many charges and how many refunds the shop's books hold."""
        with closing(sqlite3.connect(self.folder / "ledger.db")) as books:
            (charges,) = books.execute("select count(*) from charges").fetchone()
            (refunds,) = books.execute("select count(*) from refunds").fetchone()
        return charges, refunds

    def only_id(self) -> str:
        """Return the id of the one saga in the store."""
        (path,) = [*self.store.glob("*/*.log"), *self.store.glob("done/*/*.log")]
        return path.stem

    def bytes(self) -> dict[str, bytes]:
        """Return every file of the store with what it holds, but for the journals: dead ones are cleared up."""
        files = {str(path.relative_to(self.store)): path for path in self.store.rglob("*") if path.is_file()}
        return {name: path.read_bytes() for name, path in files.items() if not name.startswith("journals/")}
