"""The process that is killed: it makes itself the harness of another one, and plays."""

from __future__ import annotations

import asyncio
import importlib.util
import pickle
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from saga_core.conformance.adapter.actions import charge, reserve

if TYPE_CHECKING:
    from saga_core.conformance.adapter.script import Form, Harness, Script


class Orders(NamedTuple):
    """What the process is told on its standard input.

    Attributes:
        file: Where the harness's class is defined.
        module: The name of its module in the process that gives the orders.
        kind: The class's qualified name.
        state: The harness's attributes, pickled.
        form: How to play.
        store: The URL of the store.
        script: What to play.
    """

    file: str
    module: str
    kind: str
    state: bytes
    form: Form
    store: str
    script: Script


def main() -> None:
    """Play what the orders say."""
    orders: Orders = pickle.load(sys.stdin.buffer)  # noqa: S301 -- written by the process that started this one
    harness = _harness(orders)
    if orders.form == "sync":
        harness.play(orders.script, (charge, reserve), orders.store, None)
    else:
        asyncio.run(harness.play_async(orders.script, (charge, reserve), orders.store, None))


def _harness(orders: Orders) -> Harness:
    found: Any = _load(Path(orders.file), orders.module)
    for name in orders.kind.split("."):
        found = getattr(found, name)
    harness = object.__new__(found)
    harness.__dict__.update(pickle.loads(orders.state))  # noqa: S301 -- as above
    return harness


def _load(file: Path, name: str) -> ModuleType:
    """Run the module from its file: a test module is not on the path, and yet may import its neighbours relatively."""
    folder = file.parent
    package = name.rpartition(".")[0]
    while package:
        around = ModuleType(package)
        around.__path__ = [str(folder)]
        sys.modules[package] = around
        folder, package = folder.parent, package.rpartition(".")[0]
    name = "harness" if name == "__main__" else name  # the program is not run again, it only lends its class
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
