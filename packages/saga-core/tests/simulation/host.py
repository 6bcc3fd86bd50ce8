"""The machine on which the simulated processes run: its clocks, its store, and what its end leaves of them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Literal

from saga_core import codec, ids
from saga_core.errors import StoreError
from saga_core.fold import fold
from saga_core.records import Committed, Held, Intended, Released, UndoIntended
from saga_core.stores.memory import MemoryStore
from saga_core.view import OPEN

from .loop import PROCESS, Process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from saga_core.records import Record
    from saga_core.stores.permits import Permits
    from saga_core.stores.store import Backend, Log, Reading
    from saga_core.stores.tombstone import Tombstone
    from saga_core.view import SagaView

    from .loop import VirtualLoop

_SECOND = 1_000_000_000
_WALL = 1_700_000_000 * _SECOND
_LAZY = 0.007


class Disk(MemoryStore):
    """The store in memory, of which a part can get lost."""

    def payloads(self, saga: str) -> list[bytes]:
        """Return a saga's records as bytes."""
        return self._logs.get(saga, [])

    def written(self, saga: str) -> int:
        """Return the position behind a saga's newest record."""
        return len(self.payloads(saga))

    def sagas(self) -> list[str]:
        """Return every saga of which anything is recorded."""
        return sorted(saga for saga, payloads in self._logs.items() if payloads)

    def is_put_away(self, saga: str) -> bool:
        """Tell whether nobody looks at the saga any more."""
        return self._places.get(saga, "open") != "open"

    def lose(self, saga: str, kept: int) -> None:
        """Lose a saga's records but for the first few; without any there is no saga."""
        del self._logs[saga][kept:]
        if not kept:
            del self._logs[saga]


class Host:
    """One machine.

    Attributes:
        boot: The id of its boot.
        proven: Up to where each saga's log was brought to the disk.
        promises: What somebody was told of a saga's end, by saga; it may not be taken back.
        kept: The keys of the effects that a commit record keeps, by saga.
        owners: Who has each saga's log.
        slowness: Seconds that a sync takes at most.
        faults: How likely the disk fails at a use of it.
    """

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.draw = loop.draw
        self.disk = Disk()
        self.boots = 1
        self.proven: defaultdict[str, int] = defaultdict(int)
        self.promises: dict[str, str] = {}
        self.kept: dict[str, frozenset[str]] = {}
        self.owners: dict[str, Process] = {}
        self.slowness = self.draw.choice([0.004, 0.004, 0.1, 1.5])
        self.faults = self.draw.choice([0.0, 0.0, 0.0, 0.1])
        self._booted = loop.time()
        self._names = 0

    @property
    def boot(self) -> str:
        """The id of this boot."""
        return f"boot-{self.boots}"

    def wall(self) -> int:
        return _WALL + int(self.loop.time() * _SECOND)

    def up(self) -> int:
        return int((self.loop.time() - self._booted) * _SECOND)

    def jitter(self) -> float:
        return self.draw.uniform(0.5, 1.5)

    def new_saga_id(self) -> str:
        """Return the next of ids that every run of the seed repeats."""
        self._names += 1
        return f"01HF7YAT00{self._names:016d}"

    def process(self, name: str) -> Process:
        """Return a new process, whose logs are free when it dies."""
        process = Process(self.loop, name)
        process.on_death.append(lambda: self._free(process))
        return process

    def _free(self, process: Process) -> None:
        for saga in [saga for saga, owner in self.owners.items() if owner is process]:
            del self.owners[saga]
            self.disk.give_up(saga, "open")

    def records(self, saga: str, *, durable: bool = False) -> list[Record]:
        """Return a saga's records, or those of them that a loss of power leaves."""
        payloads = self.disk.payloads(saga)
        return [codec.decode(payload) for payload in payloads[: self.proven[saga] if durable else None]]

    def view(self, saga: str) -> SagaView:
        """Return the state of a saga as its log says it."""
        return fold(self.records(saga))

    def knows_durably(self, saga: str, key: str) -> bool:
        """Tell whether the intent of an attempt, or of its undo, would survive a loss of power now."""
        positions: dict[int, str] = {}
        for record in self.records(saga, durable=True):
            if isinstance(record, UndoIntended) and record.key == key:
                return True
            if isinstance(record, Held):
                positions[record.step] = record.position
            if isinstance(record, Released) and (
                ids.step_key(saga, positions[record.step], "do", record.attempt) == key
            ):
                return True
            if isinstance(record, Intended) and ids.step_key(saga, record.position, "do", record.attempt) == key:
                return True
        return False

    def forbids_mail(self, saga: str) -> str | None:
        """Return why no held effect of a saga may be sent now."""
        if fold(self.records(saga, durable=True)).ended != "committed":
            return "no commit is on the disk"
        view = self.view(saga)
        if view.open_cases or any(step.state in OPEN and not step.is_hold for step in view.steps.values()):
            return "something is in doubt"
        return None

    def fails(self) -> bool:
        """Tell whether the disk fails now."""
        return self.faults > 0.0 and self.draw.random() < self.faults

    def failure(self, process: Process, saga: str) -> StoreError:
        """Return the error of a disk that fails."""
        self.loop.tell(f"{process}: the disk fails")
        return StoreError(f"the disk under saga {saga} failed", saga_id=saga)

    def promise(self, saga: str, what: str) -> None:
        """Note that somebody was told how a saga ended."""
        self.promises[saga] = what

    def cut_power(self) -> None:
        """Kill every process and lose of each log what was not brought to the disk, or part of that."""
        for process in self.loop.processes:
            process.kill("by the loss of power")
        self.boots += 1
        self._booted = self.loop.time()
        for saga in self.disk.sagas():
            there = len(self.disk.payloads(saga))
            kept = self.draw.randint(self.proven[saga], there)
            self.loop.tell(f"power lost: {kept} of {there} records of {saga[-2:]} are left")
            if self.disk.is_put_away(saga) and kept < there:
                self.loop.problems.append(f"{saga} was put away although its end was not on the disk")
            self.disk.lose(saga, kept)
            self.proven[saga] = kept
            state = self.view(saga).state if kept else "unknown"
            if saga in self.promises and self.promises[saga] != state:
                self.loop.problems.append(f"{saga} was told to be {self.promises[saga]} and is {state} after the cut")
            if saga in self.kept and state != "committed":
                del self.kept[saga]


class ProcessStore:
    """The store as one process holds it; every act of it can be the process's last."""

    url = "simulated:"

    def __init__(self, host: Host, process: Process) -> None:
        self.host = host
        self.process = process

    @property
    def _real(self) -> Backend:
        if self.process.is_dead:
            self.process.act("nothing")
        return self.host.disk

    def close(self) -> None:
        pass

    def create(self, saga: str) -> ProcessLog:
        self.process.act(f"creates {saga[-2:]}")
        return self._held(self._real.create(saga))

    def claim(self, saga: str) -> tuple[ProcessLog, Reading] | None:
        self.process.act(f"claims {saga[-2:]}")
        found = self._real.claim(saga)
        return None if found is None else (self._held(found[0]), found[1])

    def _held(self, log: Log) -> ProcessLog:
        self.host.owners[log.saga] = self.process
        return ProcessLog(self, log)

    def read(self, saga: str) -> Reading | None:
        return self._real.read(saga)

    def owner(self, saga: str) -> str | None:
        owner = self.host.owners.get(saga)
        return None if owner is None else str(owner)

    def sync_later(self, wanted: Sequence[tuple[Log, int]], done: Callable[[list[BaseException | None]], None]) -> None:
        self.process.act("asks for a sync")
        ends = {log.saga: self.host.disk.written(log.saga) for log, _ in wanted}

        def finish() -> None:
            if self.host.fails():
                done([self.host.failure(self.process, log.saga) for log, _ in wanted])
                return
            for saga, end in ends.items():
                self.host.proven[saga] = max(self.host.proven[saga], end)
            self.host.loop.tell(f"{self.process}: synced")
            done([None] * len(wanted))

        self.call_later(self.host.draw.uniform(0.0, self.host.slowness), finish)

    def call_later(self, seconds: float, act: Callable[[], Any]) -> None:
        """Call, as this process, if it still lives then."""
        self.host.loop.call_later(seconds, act, context=self.process.context.copy())

    def open_sagas(self) -> Iterator[str]:
        return self._real.open_sagas()

    def due_sagas(self) -> Iterator[str]:
        return self._real.due_sagas()

    def parked_sagas(self, place: Literal["suspended", "cases"]) -> Iterator[str]:
        return self._real.parked_sagas(place)

    def tidy(self) -> None:
        self._real.tidy()

    def done_sagas(self) -> Iterator[str]:
        return self._real.done_sagas()

    def tombstone(self, saga: str) -> Tombstone | None:
        return self._real.tombstone(saga)

    def erased_sagas(self) -> Iterator[str]:
        return self._real.erased_sagas()

    @property
    def permits(self) -> Permits:
        return self._real.permits

    def key_holder(self, key: str) -> tuple[str, int] | None:
        return self._real.key_holder(key)

    def take_key(self, key: str, saga: str, generation: int) -> bool:
        self.process.act(f"binds a key to {saga[-2:]}")
        return self._real.take_key(key, saga, generation)


class ProcessLog:
    """A log in the hands of one process: what is written is in the page cache at once, on the disk after a sync.

    Attributes:
        newest: What this process wrote last.
    """

    def __init__(self, store: ProcessStore, real: Log) -> None:
        self.saga = real.saga
        self.store = store
        self._host = store.host
        self._process = store.process
        self._real = real
        self._is_given_up = False
        self.newest: Record | None = None

    @property
    def durable(self) -> int:
        return self._host.proven[self.saga]

    def append(self, record: Record) -> int:
        self._process.act(f"writes {type(record).__name__} {getattr(record, 'step', '')}")
        if self._host.fails():
            raise self._host.failure(self._process, self.saga)
        position = self._real.append(record)
        self.newest = record
        if isinstance(record, Committed):
            view = self._host.view(self.saga)
            self._host.kept[self.saga] = frozenset(
                ids.step_key(self.saga, step.position, "do", step.attempt)
                for step in view.steps.values()
                if step.state == "applied" and not step.stray
            )
        return position

    def sync(self, position: int) -> None:  # noqa: ARG002 -- everything is synced
        self._process.act("syncs")
        if self._is_given_up:
            raise StoreError(f"the log of saga {self.saga} was given up", saga_id=self.saga)
        if self._host.fails():
            raise self._host.failure(self._process, self.saga)
        self._host.proven[self.saga] = self._host.disk.written(self.saga)

    def sync_soon(self) -> None:
        end = self._host.disk.written(self.saga)

        def catch_up() -> None:
            if not self._is_given_up:
                self._host.proven[self.saga] = max(self.durable, end)

        self.store.call_later(_LAZY, catch_up)

    def release(self) -> None:
        self._give_up(self._real.release)

    def park(self, place: Literal["suspended", "cases"]) -> None:
        self._give_up(lambda: self._real.park(place))

    def settle(self) -> None:
        self._give_up(self._real.settle)

    def _give_up(self, real: Callable[[], None]) -> None:
        if self._is_given_up:
            return
        self._is_given_up = True
        if not self._process.is_dead:
            self._host.loop.tell(f"{self._process.name}: gives {self.saga[-2:]} up")
            self._host.owners.pop(self.saga, None)
            real()


def running() -> Process:
    """Return the process whose code runs."""
    process = PROCESS.get()
    assert process is not None
    return process
