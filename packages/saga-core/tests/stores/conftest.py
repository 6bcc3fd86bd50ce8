from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from saga_core import ids
from saga_core.records import Began
from saga_core.stores.boot import boot_id
from saga_core.stores.file import FileStore
from saga_core.stores.system import System

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from saga_core.stores.log import FileLog


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory that does not exist yet."""
    return tmp_path / "saga"


@pytest.fixture
def open_on(place: Path) -> Iterator[Callable[[System], FileStore]]:
    """Open a store at `place` over a given table of system calls."""
    stores: list[FileStore] = []

    def open_(system: System) -> FileStore:
        stores.append(FileStore(str(place), system))
        return stores[-1]

    yield open_
    for store in stores:
        store.close()


@pytest.fixture
def store(open_on: Callable[[System], FileStore]) -> FileStore:
    return open_on(System())


@pytest.fixture
def began() -> Callable[[str], Began]:
    """Return the first record of a saga owned by this process."""

    def first(saga: str) -> Began:
        return Began(saga, "pay", None, 1, 2, boot_id(), os.getpid(), "here", {"run": "7"})

    return first


@pytest.fixture
def begin(began: Callable[[str], Began]) -> Iterator[Callable[[FileStore], FileLog]]:
    """Create a log that holds its first record."""
    logs: list[FileLog] = []

    def begin_(store: FileStore) -> FileLog:
        log = store.create(ids.new_saga_id())
        logs.append(log)
        log.append(began(log.saga))
        return log

    yield begin_
    for log in logs:
        log.release()


@pytest.fixture
def spawn() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a Python program in a process of its own, with text pipes; it is killed at the end."""
    children: list[subprocess.Popen[str]] = []

    def start(program: str, *arguments: object) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill()
        child.communicate()
