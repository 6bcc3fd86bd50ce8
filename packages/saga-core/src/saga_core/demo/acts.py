"""The four acts of the demo, played on any world; what each leaves there is read from the world, never from our logs.

A package with a world of its own makes it a `World`, and its entry point (group `saga.demo`, name `full`) calls `run`
with it. What the world needs must be missed when the entry point is loaded, so that the simulated world can step in.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from saga_core.demo.telling import Telling
from saga_core.demo.world import AMOUNT, Holdings, Scripted, World
from saga_core.engine.scope import saga_scope
from saga_core.engine.terms import backend
from saga_core.errors import GateRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

__all__ = ["ACTS", "AMOUNT", "Broken", "Hallucinated", "Holdings", "Scripted", "World", "add_options", "run"]

_LOOK = timedelta(seconds=0.2)


class Act(NamedTuple):
    """An act and what it must leave in the world."""

    name: str
    title: str
    play: Callable[[Stage], None]
    promised: Holdings


class Hallucinated(RuntimeError):
    """What goes wrong in every run of the script."""

    def __init__(self) -> None:
        super().__init__("the agent hallucinated a field")


class Broken(RuntimeError):
    """The demo itself could not be played."""


class Stage:
    """Where the acts are played.

    Attributes:
        killed: The saga whose process was killed.
    """

    def __init__(self, world: World, directory: Path, telling: Telling) -> None:
        self.world = world
        self.store = backend(f"file:{directory / 'store'}")
        self.directory = directory
        self.telling = telling
        self.killed = ""

    def recover(self) -> None:
        """Run one pass of recovery as a process of its own and tell what it prints.

        Raises:
            Broken: It failed.
        """
        arguments = ["recover", "--store", self.store.url, "--import", self.world.imports]
        self.telling.line(f"$ saga {' '.join(arguments)}")
        command = [sys.executable, "-m", "saga_core", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
        for line in done.stdout.splitlines():
            self.telling.line(f"  {line}")
        if done.returncode != 0:
            raise Broken(f"recovery ended with {done.returncode}: {done.stderr}")


def unprotected(stage: Stage) -> None:
    """Make the calls without a saga, and fail."""
    try:
        for call in stage.world.calls():
            stage.telling.call(call.words)
            call.directly()
        raise Hallucinated
    except Hallucinated as error:
        stage.telling.error(error)


def rolled_back(stage: Stage) -> None:
    """Make the calls inside a scope, and fail."""
    saga = ""
    try:
        with saga_scope("close-deal", store=stage.store) as scope:
            saga = scope.id
            for call in stage.world.calls():
                stage.telling.call(call.words)
                call.recorded()
            raise Hallucinated
    except Hallucinated as error:
        stage.telling.error(error)
    stage.telling.undos(stage.store, saga)


def killed(stage: Stage) -> None:
    """Kill the process that makes the calls between the charge and its record, and recover twice from others.

    Raises:
        Broken: The process ended before it was killed, or what it left was not recovered.
    """
    world, telling = stage.world, stage.telling
    world.withhold_answer()
    log = stage.directory / "agent.log"
    with log.open("w") as output:
        environment = {**os.environ, "SAGA_STORE": stage.store.url}
        child = subprocess.Popen(
            world.agent, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        while not world.has_charged(_LOOK):
            if child.poll() is not None:
                raise Broken(f"the agent's process ended by itself: {log.read_text(encoding='utf-8')}")
    finally:
        child.kill()
        child.wait()
    *earlier, charge = world.calls()
    for call in earlier:
        telling.call(call.words)
    telling.call(f"{charge.words}   landed, and its answer is on the way")
    telling.line(f"$ kill -9 {child.pid}   (the agent's process: nothing of it is left to clean up)")
    left = list(stage.store.open_sagas())
    if len(left) != 1:
        raise Broken(f"{len(left)} sagas were left open, not the one of the killed process")
    stage.killed = left[0]
    telling.world(world.read_back())
    stage.recover()
    telling.undos(stage.store, stage.killed)
    once = world.read_back()
    telling.world(once)
    stage.recover()
    if world.read_back() != once:
        raise Broken(f"a second recovery changed the world: {once}, then {world.read_back()}")


def refused(stage: Stage) -> None:
    """Try what could not be undone."""
    call = stage.world.wire()
    try:
        with saga_scope("pay-supplier", store=stage.store):
            stage.telling.call(call.words)
            call.recorded()
    except GateRefused as error:
        stage.telling.error(error)


ACTS = (
    Act(
        "unprotected",
        "The calls of an agent, without a saga. The last thing it does is fail.",
        unprotected,
        Holdings(AMOUNT, 1, 0, "Won", rows_restored=False, wires=0),
    ),
    Act(
        "rolled_back",
        "The same calls inside saga_scope: whatever landed is undone, newest first.",
        rolled_back,
        Holdings(0, 1, 1, "New", rows_restored=True, wires=0),
    ),
    Act(
        "killed",
        "The agent's process is killed after the charge has landed and before it can know. Another process cleans up.",
        killed,
        Holdings(0, 1, 1, "New", rows_restored=True, wires=0),
    ),
    Act(
        "refused",
        "A wire cannot be undone: it is refused before it is sent.",
        refused,
        Holdings(0, 0, 0, "New", rows_restored=True, wires=0),
    ),
)


def run(argv: Sequence[str], open_world: Callable[[Path], AbstractContextManager[World]]) -> int:
    """Play the acts and return an exit code: 0 if the world is after each act as promised, else 1.

    Args:
        argv: `--json`, `--dir DIR`.
        open_world: Starts the world, in a directory that may hold its files.
    """
    parser = argparse.ArgumentParser(prog="saga demo", description="Play four acts on a world that is really changed.")
    add_options(parser)
    options = parser.parse_args(argv)
    directory = Path(options.dir or tempfile.mkdtemp(prefix="saga-demo-")).absolute()
    if (directory / "store").exists():
        parser.error(f"{directory / 'store'} is there already; name another directory")
    directory.mkdir(parents=True, exist_ok=True)
    telling = Telling(None if options.json else sys.stdout)
    left: list[tuple[str, Holdings]] = []
    try:
        with open_world(directory) as world:
            stage = Stage(world, directory, telling)
            telling.line(f"The world: {world.title}", indent="")
            for number, act in enumerate(ACTS, 1):
                left.append((act.name, _play(stage, number, act)))
    except Broken as broken:
        sys.stderr.write(f"saga demo: {broken}\n")
        return 1
    url = stage.store.url
    if options.json:
        acts = [{"name": name, **holdings._asdict()} for name, holdings in left]
        sys.stdout.write(json.dumps({"acts": acts, "world": world.title, "store": url}, indent=2) + "\n")
    telling.end(stage.store, stage.killed)
    broken = [name for (name, holdings), act in zip(left, ACTS, strict=True) if holdings != act.promised]
    if broken:
        sys.stderr.write(f"saga demo: the world is not as promised after: {', '.join(broken)}\n")
    return 1 if broken else 0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that every demo takes."""
    parser.add_argument("--json", action="store_true", help="only what the world holds after each act, for programs")
    parser.add_argument(
        "--dir", metavar="DIR", help="where the store and the world's files are left (default: a new one)"
    )


def _play(stage: Stage, number: int, act: Act) -> Holdings:
    stage.world.prepare()
    stage.telling.title(number, act.title)
    act.play(stage)
    holdings = stage.world.read_back()
    stage.telling.world(holdings, promised=act.promised)
    return holdings
