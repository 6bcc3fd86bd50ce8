"""The negative control of the import contracts in pyproject.toml: each must see a planted fault."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOUND = {
    "saga_core/__init__.py": "",
    "saga_core/adapter.py": "import saga_core.engine",
    "saga_core/engine/__init__.py": "import saga_core.fold",
    "saga_core/fold.py": "import saga_core.records",
    "saga_core/records.py": "",
    "saga_core/errors.py": "",
    "saga_connectors/__init__.py": "",
    "saga_connectors/stripe.py": "import saga_core, saga_core.errors",
    "saga_connectors/postgres.py": "import saga_core",
    "saga_connectors/sync/__init__.py": "import saga_connectors.stripe",
    "saga_langgraph/__init__.py": "import saga_core.adapter",
    "saga_crewai/__init__.py": "",
    "saga_openai/__init__.py": "",
}
FAULTS = {
    "core-layers: an import upwards": ("saga_core/fold.py", "import saga_core.engine"),
    "core-layers: a module without a place": ("saga_core/gadget.py", ""),
    "core-alone: a vendor": ("saga_core/records.py", "import httpx"),
    "core-alone: a connector": ("saga_core/engine/__init__.py", "import saga_connectors.stripe"),
    "public-door: a private module": ("saga_connectors/stripe.py", "from saga_core import fold"),
    "public-door: an adapter at the engine": ("saga_openai/__init__.py", "from saga_core.engine import anything"),
    "users-apart: an adapter using another": ("saga_crewai/__init__.py", "import saga_langgraph"),
    "vendors-apart: a vendor using another": ("saga_connectors/stripe.py", "from saga_connectors import postgres"),
    "vendors-apart: a vendor using its own twin": ("saga_connectors/postgres.py", "import saga_connectors.sync"),
}
NAMES = {
    "core-layers": "saga_core: a layer imports only what stands below it BROKEN",
    "core-alone": "saga_core knows no framework, no vendor and none of its users BROKEN",
    "public-door": "adapters and connectors import public modules of saga_core only BROKEN",
    "users-apart": "no adapter imports another one, nor the connectors an adapter BROKEN",
    "vendors-apart": "saga_connectors: a vendor's module knows no other vendor BROKEN",
}


def broken(files: dict[str, str], folder: Path) -> list[str]:
    """Return the ids of the contracts that these sources, alone on the path, break."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n", encoding="utf-8")
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    run = subprocess.run(
        [*command, "--no-cache", str(ROOT / "pyproject.toml")],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder), "COLUMNS": "200"},
    )
    assert "Contracts: " in run.stdout, run.stdout + run.stderr
    return [key for key, verdict in NAMES.items() if verdict in run.stdout]


def test_sound_sources_break_no_contract(tmp_path: Path) -> None:
    assert broken(SOUND, tmp_path) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_import_breaks_its_contract(fault: str, tmp_path: Path) -> None:
    name, text = FAULTS[fault]
    files = SOUND | {name: f"{SOUND.get(name, '')}\n{text}"}
    assert fault.partition(":")[0] in broken(files, tmp_path)
