"""A scene: one ledger, one store, and the real processes that die and rescue there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from saga_core.frame import FRAME_HEADER

from .orders import Rescued, RescuerOrders, Told, VictimOrders

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..ledger import Fault, LedgerProcess  # noqa: TID252 -- the one ledger stands beside this folder

PACKAGES = Path(__file__).parents[3]
EVERYTHING = "SAGA_CRASH_SWEEP" in os.environ
"""Die at moments too that the file cannot tell from their neighbours: behind each write, around each barrier; and more.

    SAGA_CRASH_SWEEP=1 uv run pytest packages/saga-core/tests/crash --timeout 900
"""

AT_ONCE = 3
"""How many processes work beside each other, where the order does not matter."""

LONG = 3.0
"""Seconds within which an effect lands, where a test decides when."""

_SECONDS = 60


class Scene:
    """Where it happens.

    Attributes:
        ledger: The world.
        store: The store's directory.
    """

    def __init__(self, ledger: LedgerProcess, store: Path, *, lands_within: float = 0.1) -> None:
        self.ledger = ledger
        self.store = store
        self._lands_within = lands_within
        self._started: list[subprocess.Popen[bytes]] = []

    def close(self) -> None:
        """Kill whatever still lives here."""
        for process in self._started:
            process.kill()
            process.communicate()

    def start(
        self, orders: VictimOrders | RescuerOrders, *, lands_within: float | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a process; its stdin and stdout are pipes."""
        script = "victim" if isinstance(orders, VictimOrders) else "rescuer"
        folder = Path(__file__).parent
        module = ".".join([*folder.relative_to(PACKAGES).parts, script])
        environment = os.environ | {
            "PYTHONPATH": str(PACKAGES),
            "LEDGER_PORT": str(self.ledger.port),
            "LANDS_WITHIN": str(self._lands_within if lands_within is None else lands_within),
        }
        process = subprocess.Popen(
            [sys.executable, "-m", module, msgspec.json.encode(orders)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        self._started.append(process)
        return process

    def victim(self, **orders: Any) -> VictimOrders:
        """Return orders for a victim of this store."""
        orders.setdefault("store", str(self.store))
        return VictimOrders(**orders)

    def rescuer(self, **orders: Any) -> RescuerOrders:
        """Return orders for a rescuer of this store."""
        return RescuerOrders(str(self.store), **orders)

    def moments(self, orders: VictimOrders, *, is_torn: bool = False) -> list[str]:
        """Let a victim live, and return the moments at which its like are to be killed."""
        return to_die_at(self.live(orders).moments, is_on_loop=orders.plan.endswith("_async"), is_torn=is_torn)

    def die(self, orders: VictimOrders | RescuerOrders) -> None:
        """Run a process that is killed at the moment it was told."""
        process = self.start(orders)
        _, errors = process.communicate(timeout=_SECONDS)
        assert process.returncode == -signal.SIGKILL, (orders, process.returncode, errors.decode())

    def die_all(self, many: Iterable[VictimOrders | RescuerOrders]) -> None:
        """Have many processes killed, some at a time."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self.die, many))

    def live(self, orders: VictimOrders) -> Told:
        """Run a victim that lives to its end, and return what it says."""
        return msgspec.json.decode(ended(self.start(orders)), type=Told)

    def live_all(self, many: Iterable[VictimOrders]) -> list[Told]:
        """Run many victims that live to their ends, some at a time."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(self.live, many))

    def rescue(self, **orders: Any) -> Rescued:
        """Recover the store in a process of its own."""
        return msgspec.json.decode(ended(self.start(self.rescuer(**orders))), type=Rescued)

    def rescue_at_once(self, processes: int, **orders: Any) -> list[Rescued]:
        """Recover the store in several processes that begin together."""
        started = [self.start(self.rescuer(is_held=True, **orders)) for _ in range(processes)]
        for process in started:
            said(process, "ready")
        for process in started:
            go_on(process)
        with ThreadPoolExecutor(processes) as pool:
            return [msgspec.json.decode(answer, type=Rescued) for answer in pool.map(ended, started)]

    def files(self) -> Mapping[str, bytes]:
        """Return every log by its path inside the store."""
        logs = sorted(self.store.glob("*/**/*.log"))
        return {str(path.relative_to(self.store)): path.read_bytes() for path in logs}


def cut_short(scene: Scene, operation: str, fault: Fault, **orders: Any) -> None:
    """Kill a victim whose request the ledger holds, before it takes effect or behind it."""
    scene.ledger.fail(fault, operation)
    victim = scene.start(scene.victim(**orders), lands_within=LONG)
    scene.ledger.wait_until(lambda state: state.held == 1)
    victim.kill()
    victim.communicate()


def to_die_at(passed: list[str], *, is_on_loop: bool = False, is_torn: bool = False) -> list[str]:
    """Return the moments of a run at which to kill its like; `is_torn`: in the middle of each write, too."""
    moments: list[str] = []
    for moment in passed:
        event, number, when = [*moment.split(), "", ""][:3]
        if event not in {"key", "write", "charge", "refund", "move", *(["sync"] if EVERYTHING else [])}:
            continue
        if event == "sync" and is_on_loop:
            continue  # a loop does not wait for what is proven already: it passes the moment or does not
        if event != "write" or when == "before" or EVERYTHING:
            moments.append(f"{event} {number} {when}")
        if event == "write" and when == "after" and (is_torn or EVERYTHING):
            cuts = range(1, FRAME_HEADER, 7) if EVERYTHING else [1 + int(number) * 5 % FRAME_HEADER]
            moments += [f"write {number} torn at {cut}" for cut in cuts]
    return moments


def said(process: subprocess.Popen[bytes], line: str) -> None:
    """Wait until a process says a line."""
    assert process.stdout is not None
    assert process.stdout.readline().decode() == f"{line}\n", process.communicate()


def go_on(process: subprocess.Popen[bytes]) -> None:
    """Let a process that waits go on."""
    assert process.stdin is not None
    process.stdin.write(b"go on\n")
    process.stdin.flush()


def ended(process: subprocess.Popen[bytes]) -> bytes:
    """Wait for a process that ends well, and return what it wrote."""
    answer, errors = process.communicate(timeout=_SECONDS)
    assert process.returncode == 0, errors.decode()
    return answer
