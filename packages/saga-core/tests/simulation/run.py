"""One run: a machine, an agent, recoverers, and what befalls them, all from one seed; and what must hold after it."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from saga_core import SagaClosed, SagaError, ids
from saga_core import recovery as recovering
from saga_core.engine import age, io, janitor, opening
from saga_core.engine.io import ASYNC
from saga_core.engine.scope import Scope
from saga_core.engine.session import Session
from saga_core.engine.terms import Terms
from saga_core.errors import ScopeMisuse
from saga_core.fold import FoldError
from saga_core.stores import fork

from .host import Host, ProcessStore
from .loop import PROCESS, VirtualLoop
from .oracle import judge
from .program import Failed, draw_program, play
from .remote import REMOTE, Declined, Lost, Remote

if TYPE_CHECKING:
    from collections.abc import Generator

    from .loop import Process
    from .program import End, Program

_SECOND = 1_000_000_000
_LONG = 900.0
"""Virtual seconds after which a calm world must have come to rest."""


class Run:
    """Everything of one seed."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.loop = VirtualLoop(self.draw)
        self.host = Host(self.loop)
        self.remote = Remote(self.host)
        self.program = draw_program(self.draw)
        self._recoverers = 0

    def play(self) -> list[str]:
        """Run to the end and return what was wrong."""
        with _in_this_world(self.host):
            try:
                self.loop.run_until_complete(self._world())
                return self.loop.problems + judge(self.host, self.remote)
            except (AssertionError, FoldError) as wrong:
                return [*self.loop.problems, str(wrong)]
            finally:
                self._bury()

    @property
    def told(self) -> list[str]:
        """The trace, a line an event."""
        return self.loop.told

    def _bury(self) -> None:
        for heir in list(fork._heirs):  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
            if isinstance(heir, Session) and isinstance(heir.store, ProcessStore):
                heir.is_dead = True
        for process in self.loop.processes:
            process.kill("at the end of the world")
            process.bury()
        self.loop.close()

    async def _world(self) -> None:
        draw = self.draw
        agent = self._agent(self.program, self.program.end)
        mishaps = [self._mishap(agent) for _ in range(draw.choice([0, 1, 1, 2, 3, 4]))]
        for _ in range(draw.randint(0, 2)):
            self._recoverer(draw.uniform(0.0, 6.0), grace=draw.choice([0.0, 60.0]))
        if self.program.key and draw.random() < 0.5:
            mishaps.append(self._second_agent(draw.uniform(0.0, 6.0)))
        await asyncio.gather(*mishaps)
        await asyncio.sleep(draw.choice([0.0, 0.5, 20.0]))
        self.remote.is_calm = True
        self.host.faults = 0.0
        for process in self.loop.processes:
            process.fuse = None
            process.is_stopped = False
        await self._come_to_rest()

    def _process(self, name: str) -> Process:
        process = self.host.process(name)
        process.context.run(REMOTE.set, self.remote)
        return process

    def _agent(self, program: Program, end: End) -> Process:
        process = self._process(f"agent {sum(one.name.startswith('agent') for one in self.loop.processes) + 1}")
        process.start(self._work(process, program, end))
        return process

    async def _work(self, process: Process, program: Program, end: End) -> None:
        terms = Terms(
            "simulated",
            key=program.key,
            store=ProcessStore(self.host, process),
            stray=program.stray,
            drain_timeout=timedelta(seconds=self.draw.choice([1, 30])),
            unwind_timeout=timedelta(seconds=self.draw.choice([1, 30])),
            clock=self.host,
        )
        saga_id: str | None = None
        try:
            async with Scope(terms) as saga:
                saga_id = saga.id
                await play(saga, program.parts)
                if end == "raise":
                    raise Failed
                if end == "rollback":
                    saga.rollback("it is to be undone")
                elif end == "suspend":
                    saga.suspend("it is to go on later")
        except (Failed, Lost, Declined, TimeoutError):
            pass
        except SagaClosed as closed:
            if saga_id is None and closed.saga_id is not None:
                self.host.promise(closed.saga_id, "committed")
        except SagaError as told:
            self.loop.tell(f"{process}: {type(told).__name__}")
            if isinstance(told, ScopeMisuse):
                raise
        except asyncio.CancelledError:
            self.loop.tell(f"{process}: cancelled")
        else:
            if end == "return":
                self.host.promise(saga_id or "", "committed")
        self.loop.tell(f"{process}: left the scope")

    def _recoverer(self, start: float, *, grace: float) -> Process:
        self._recoverers += 1
        process = self._process(f"recoverer {self._recoverers}")
        process.start(self._recover(process, start, grace))
        return process

    async def _recover(self, process: Process, start: float, grace: float) -> None:
        await asyncio.sleep(start)
        while not self.remote.is_calm:
            await self._pass(process, grace)
            await asyncio.sleep(self.draw.uniform(0.1, 4.0))

    async def _pass(self, process: Process, grace: float) -> dict[str, str]:
        store = ProcessStore(self.host, process)
        terms = recovering.Terms(timedelta(seconds=5), timedelta(seconds=grace), age.WITHIN, clock=self.host)
        outcomes: dict[str, str] = {}
        for saga in list(store.due_sagas()):
            found = await recovering.recover_one(ASYNC, store, saga, terms)
            if found is not None:
                self.loop.tell(f"{process}: found {saga[-2:]} {found.outcome}: {found.words}")
                outcomes[saga] = found.outcome
                if found.outcome == "settled":
                    self.host.promise(saga, self.host.view(saga).state)
        return outcomes

    async def _second_agent(self, start: float) -> None:
        await asyncio.sleep(start)
        self._agent(self.program, self.program.end)

    async def _mishap(self, agent: Process) -> None:
        draw = self.draw
        kind = draw.choice(["fuse", "fuse", "kill", "power", "stop", "cancel"])
        if kind == "fuse":
            await asyncio.sleep(draw.choice([0.0, draw.uniform(0.0, 8.0)]))
            draw.choice(self.loop.processes).fuse = draw.randint(0, 40)
            return
        await asyncio.sleep(draw.choice([draw.uniform(0.0, 1.0), draw.uniform(0.0, 12.0)]))
        if kind == "power":
            self.host.cut_power()
            await asyncio.sleep(draw.uniform(0.0, 1.0))
            for _ in range(draw.randint(0, 2)):
                self._recoverer(draw.uniform(0.0, 2.0), grace=0.0)
        elif kind == "kill":
            draw.choice(self.loop.processes).kill("from outside")
        elif kind == "cancel":
            for task in agent.tasks[:1]:
                agent.context.copy().run(task.cancel)
        else:
            process = draw.choice(self.loop.processes)
            process.is_stopped = True
            await asyncio.sleep(draw.uniform(0.0, 15.0))
            process.is_stopped = False

    async def _come_to_rest(self) -> None:
        """Have one recoverer, and where it is wanted one more run of the program, end what is open."""
        until = self.loop.time() + _LONG
        last = self._process("the last recoverer")
        while True:
            was_working = self._is_working()
            found = await last.start(self._pass(last, 0.0))
            outcomes = set(found.values())
            if list(ProcessStore(self.host, last).parked_sagas("suspended")):
                self._agent(self.program, self.draw.choice(["return", "raise"]))
            elif outcomes <= {"settled", "needs_human"} and not self.host.owners and not was_working:
                return
            if self.loop.time() > until:
                raise AssertionError(f"it never came to rest: {found}, owned: {self.host.owners}")
            await asyncio.sleep(1.0)

    def _is_working(self) -> bool:
        agents = [
            process for process in self.loop.processes if process.name.startswith("agent") and not process.is_dead
        ]
        return any(not process.tasks[0].done() for process in agents)


class _Janitor:
    """The janitor of each process, on its own loop."""

    def put(self, session: Session, due: int) -> None:
        store = session.store
        if not isinstance(store, ProcessStore) or store.process.is_dead:
            return
        process, host = store.process, store.host
        seconds = max(0.0, (due - host.up()) / _SECOND)
        context = process.context.copy()
        host.loop.call_later(seconds, lambda: process.start(janitor.turn(ASYNC, session)), context=context)


class _Turns(dict[Any, Any]):
    """The turns of each process, which has a loop of its own in the world that is simulated."""

    def get(self, loop: object, default: object = None) -> Any:  # noqa: ARG002 -- they share one here
        return super().get(PROCESS.get(), default)

    def __setitem__(self, loop: object, turn: object) -> None:
        super().__setitem__(PROCESS.get(), turn)


@contextmanager
def _in_this_world(host: Host) -> Generator[None]:
    def boot() -> str:
        return host.boot

    targets: list[tuple[Any, str, Any]] = [
        (janitor, "_janitor", _Janitor()),
        (io, "_turns", _Turns()),
        (ids, "new_saga_id", host.new_saga_id),
        (opening, "boot_id", boot),
        (recovering, "boot_id", boot),
        (age, "boot_id", boot),
    ]
    logger = logging.getLogger("saga_core")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    with ExitStack() as stack:
        for target, name, value in targets:
            stack.enter_context(patch.object(target, name, value))
        try:
            yield
        finally:
            logger.setLevel(level)
