"""A harness that another process makes itself again."""

from __future__ import annotations

import importlib.util
import inspect
import pickle
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple


class Twin(NamedTuple):
    """What has to be known of a harness to make it again; its class stands at the top level of a module.

    Attributes:
        file: Where the class is defined.
        module: The name of its module in the process that has the harness.
        kind: The class's qualified name.
        state: The harness's attributes, pickled.
    """

    file: str
    module: str
    kind: str
    state: bytes

    @classmethod
    def of(cls, harness: object) -> Twin:
        """Return the twin of a harness."""
        kind = type(harness)
        return cls(inspect.getfile(kind), kind.__module__, kind.__qualname__, pickle.dumps(vars(harness)))

    def harness(self) -> Any:
        """Make the harness again."""
        found: Any = _load(Path(self.file), self.module)
        for name in self.kind.split("."):
            found = getattr(found, name)
        harness = object.__new__(found)
        harness.__dict__.update(pickle.loads(self.state))  # noqa: S301 -- written by the process that started this one
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
