"""What the store does where the system is not Linux, as far as the one table of calls tells."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from importlib import util
from types import ModuleType

import pytest

from saga_core import open_store
from saga_core.errors import StoreError
from saga_core.stores import system


def table_of(platform: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load the table anew as it would be on another system."""
    monkeypatch.setattr(sys, "platform", platform)
    spec = util.find_spec("saga_core.stores.system")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_on_macos_a_sync_reaches_the_platter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain fsync stops at the drive's cache there; F_FULLFSYNC does not (fcntl(2) of macOS)."""
    calls: list[tuple[int, int]] = []
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)

    def called(descriptor: int, call: int) -> None:
        calls.append((descriptor, call))

    monkeypatch.setattr(fcntl, "fcntl", called)
    monkeypatch.delattr(os, "posix_fallocate")
    table = table_of("darwin", monkeypatch).System()
    table.sync_data(7)
    assert calls == [(7, 51)]
    assert table.preallocate is os.ftruncate


def test_on_linux_a_sync_brings_the_data_and_a_journal_has_its_room(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of("linux", monkeypatch).System()
    assert table.sync_data is os.fdatasync
    assert table.preallocate is not os.ftruncate
    assert system.System.sync_data is os.fdatasync


def test_on_windows_the_file_store_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(StoreError, match="Windows") as caught:
        open_store("file:somewhere")
    assert "memory:" in caught.value.next


WITHOUT_POSIX = """
import sys
for name in ("fcntl", "resource", "pwd", "grp"):
    sys.modules[name] = None
sys.platform = "win32"
import saga_core
with saga_core.saga_scope(store="memory:") as saga:
    print(saga.id[:2])
"""


def test_where_posix_is_missing_the_package_imports_and_memory_works() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_POSIX], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "01"
