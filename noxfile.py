"""The sessions of the workspace: `uv run nox` runs the checks, `uv run nox -l` lists everything."""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import nox

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "uv"
nox.options.error_on_missing_interpreters = True
nox.options.sessions = ["lint", "types", "tests"]

CORE = "packages/saga-core"
PLAIN_PYTEST = "pytest>=8.4"
# What a user installs, each in an environment of its own, and the distributions of ours that must come with it.
INSTALLATIONS = {
    "saga-core": ["saga-core"],
    "saga-connectors[demo]": ["saga-core", "saga-connectors"],
    "saga-langgraph": ["saga-core", "saga-langgraph"],
    "saga-crewai": ["saga-core", "saga-crewai"],
    "saga-openai": ["saga-core", "saga-openai"],
}


@nox.session(venv_backend="none")
def tests(session: nox.Session) -> None:
    """The whole suite in the shared environment; arguments go to pytest."""
    session.run("uv", "run", "pytest", *session.posargs)


@nox.session(venv_backend="none")
def lint(session: nox.Session) -> None:
    """Formatting, lint, the import contracts and a lock file that fits."""
    session.run("uv", "lock", "--check")
    session.run("uv", "run", "ruff", "format", "--check")
    session.run("uv", "run", "ruff", "check")
    session.run("uv", "run", "lint-imports", "--no-logo")


@nox.session(venv_backend="none")
def types(session: nox.Session) -> None:
    """Strict basedpyright over every package, its tests and this file."""
    session.run("uv", "run", "basedpyright", *session.posargs)


@nox.session
def core_alone(session: nox.Session) -> None:
    """saga-core with nothing but msgspec and pytest."""
    session.install(f"./{CORE}", PLAIN_PYTEST)
    plain_pytest(session, "python", "tests/core_alone")


@nox.session
def lowest(session: nox.Session) -> None:
    """The whole suite with the lowest version of every direct dependency."""
    editable = [word for name in INSTALLATIONS for word in ("--editable", f"./packages/{name}")]
    session.install("--resolution", "lowest-direct", *editable, "--group", "test")
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session
def newest_openai(session: nox.Session) -> None:
    """saga-openai with the newest OpenAI Agents SDK, which cannot stand beside CrewAI in the shared environment."""
    session.install("--upgrade", f"./{CORE}", "./packages/saga-openai", "--group", "test")
    session.run("python", "-c", "from importlib.metadata import version; assert int(version('openai')[0]) >= 3")
    session.run("python", "-m", "pytest", "packages/saga-openai/tests", *session.posargs)


@nox.session
def wheels(session: nox.Session) -> None:
    """Build each wheel from its sdist, look into both, and install each as a user does, away from the sources."""
    work = Path(session.create_tmp()).resolve()
    dist = work / "dist"
    shutil.rmtree(work)
    session.run("uv", "build", "--quiet", "--all-packages", "--out-dir", str(dist), external=True)
    session.install(PLAIN_PYTEST)
    plain_pytest(session, "python", "tests/wheels/smoke_archives.py", env={"SAGA_DIST": str(dist)})
    # The locked versions: this session is about our wheels, not about what was released this morning.
    locked = work / "locked.txt"
    export = ["uv", "export", "--quiet", "--all-packages", "--all-extras", "--no-emit-workspace", "--no-hashes"]
    session.run(*export, "--output-file", str(locked), external=True)
    for asked, ours in INSTALLATIONS.items():
        venv = work / ours[-1]
        python = str(venv / "bin" / "python")
        session.run("uv", "venv", "--quiet", "--python", sys.executable, str(venv), external=True)
        names = [*ours[:-1], asked]
        requirements = [f"{name} @ {wheel(dist, name)}" for name in names]
        install = ["uv", "pip", "install", "--quiet", "--python", python, "--constraint", str(locked), PLAIN_PYTEST]
        session.run(*install, *requirements, external=True)
        plain_pytest(session, python, "tests/wheels/smoke_installed.py", env={"SAGA_EXPECTED": ",".join(ours)})
        if ours == ["saga-core"]:
            plain_pytest(session, python, "tests/core_alone")


def plain_pytest(session: nox.Session, python: str, tests: str, *, env: Mapping[str, str] | None = None) -> None:
    """Run tests that need nothing but pytest; isolated, so that only what is installed can be imported."""
    command = [python, "-I", "-m", "pytest", "-c", "tests/plain.ini", "--rootdir", "tests", tests]
    session.run(*command, env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **(env or {})}, external=True)


def wheel(dist: Path, requirement: str) -> str:
    """Return the address of the built wheel that the requirement (a name, perhaps with extras) asks for."""
    name = requirement.partition("[")[0].replace("-", "_")
    (found,) = dist.glob(f"{name}-*.whl")
    return found.as_uri()
