"""The stores of this package, as the conformance suite sets them up."""

from __future__ import annotations

import io
import os
import time
import uuid
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, cast

from saga_core.stores import boot, erasure, open_store
from saga_core.stores.encryption import Encryption
from saga_core.stores.file import FileStore
from saga_core.stores.memory import MemoryStore
from saga_core.stores.system import System

from .outage import Outage

if TYPE_CHECKING:
    from saga_core.conformance.store import Ability, Harness
    from saga_core.stores.store import Backend

    from .outage import Kept


class MemoryHarness:
    """A place has one store, which lives in this process."""

    name = "memory:"
    abilities: frozenset[Ability] = frozenset()

    def __init__(self) -> None:
        self._stores: dict[Path, Backend] = {}

    def open(self, place: Path) -> Backend:
        if place not in self._stores:
            self._stores[place] = cast("MemoryStore", open_store("memory:"))
        return self._stores[place]

    def lose_power(self, place: Path) -> None:
        raise NotImplementedError

    def erase(self, store: Backend, saga: str) -> None:
        raise NotImplementedError


class FileHarness:
    """Each object is one that a process of its own would have."""

    name = "file:"
    abilities: frozenset[Ability] = frozenset({"processes", "erasure"})

    def open(self, place: Path) -> Backend:
        return FileStore(os.path.realpath(place / "saga"), System())

    def lose_power(self, place: Path) -> None:
        raise NotImplementedError

    def erase(self, store: Backend, saga: str) -> None:
        assert isinstance(store, FileStore)
        assert erasure.erase(store, saga, now=time.time_ns()) is not None


class EncryptedHarness(FileHarness):
    """Files whose records are sealed; each process gets the key by its name."""

    name = "file:, encrypted"

    def open(self, place: Path) -> Backend:
        keys = Encryption("key", lambda name: sha256(name.encode()).digest())
        return FileStore(os.path.realpath(place / "saga"), System(), keys)


class OutageHarness:
    """Files on a disk whose power is lost; the machine comes back in another boot."""

    abilities: frozenset[Ability] = frozenset({"power"})

    def __init__(self, kept: Kept, seed: int = 1) -> None:
        self.name = f"file:, {kept}"
        self._kept: Kept = kept
        self._seed = seed
        self._disks: dict[Path, Outage] = {}
        self._stores: dict[Path, list[FileStore]] = {}

    def open(self, place: Path) -> Backend:
        path = Path(os.path.realpath(place / "saga"))
        if place not in self._disks:
            self._disks[place] = Outage(path, self._kept, self._seed)
        store = FileStore(str(path), self._disks[place])
        self._stores.setdefault(place, []).append(store)
        return store

    def lose_power(self, place: Path) -> None:
        disk = self._disks.pop(place)
        disk.fail()
        for store in self._stores.pop(place):
            store.close()
            store.die_in_child()
        disk.come_back()
        boot_anew()

    def erase(self, store: Backend, saga: str) -> None:
        raise NotImplementedError


def boot_anew() -> None:
    """Have this process believe that its machine was started again; undone by `boot_as_it_is`."""
    name = str(uuid.uuid4())
    boot.__dict__["open"] = lambda *_, **__: io.StringIO(name)  # pyright: ignore[reportUnknownLambdaType]
    boot.boot_id.cache_clear()


def boot_as_it_is() -> None:
    """Have this process read again which boot it is."""
    boot.__dict__.pop("open", None)
    boot.boot_id.cache_clear()


HARNESSES: tuple[Harness, ...] = (
    MemoryHarness(),
    FileHarness(),
    EncryptedHarness(),
    OutageHarness("synced"),
    OutageHarness("deleted"),
    OutageHarness("torn"),
)
