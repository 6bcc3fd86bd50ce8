"""A saga in the hands of this process: its log, its state, and who may still append."""

from __future__ import annotations

import logging
import threading
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from saga_core import codec, fold, ids
from saga_core.clock import SYSTEM
from saga_core.engine.io import ASYNC, PRIVATE_LOOP
from saga_core.errors import BadArguments, SagaForked, SecretRefused, StoreError
from saga_core.gate import DEFAULT, Gate
from saga_core.records import Doubted, Noted
from saga_core.report import Report, report_of
from saga_core.secrets import find
from saga_core.stores import fork

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from saga_core.clock import Clock
    from saga_core.records import Record
    from saga_core.stores.store import Backend, Log
    from saga_core.types import SagaState
    from saga_core.view import SagaView

log = logging.getLogger("saga_core")


class Watcher(Protocol):
    """Who wants to know when it is decided that something unwinds."""

    def tell(self) -> None:
        """Look at what was decided; neither blocks nor raises."""
        ...


class Flight(Protocol):
    """Something under way in a scope; `number` is its step's, 0 for none."""

    @property
    def path(self) -> str: ...
    @property
    def number(self) -> int: ...


class Asks(NamedTuple):
    """How a call waits for a person: in place for so long, then, where that is possible, with the saga suspended."""

    wait: timedelta
    can_suspend: bool
    requester: str | None


class _Errand(msgspec.Struct, eq=False):
    """What is under way and is no call."""

    path: str
    number: int


class Session:
    """The one place where a saga's records are appended and its state changes.

    Attributes:
        view: The fold of what was appended.
        asked: When each step in doubt may be asked about again, in nanoseconds since boot.
        written: The log position behind the newest record.
        has_rules: The gate asks more than the built-in rules, which look at nothing but the declaration.
        flights: The calls under way, and whatever else runs inside the saga.
        latched: Why no further effect may start although the scope is open, in words.
        is_wary: A scope was closed, or the session latched or dead: each call looks whether it may still be made.
        newest: The number of the newest step or refused call.
        found: The state in which an earlier owner left the saga; None if it was begun here.
        runs: How many runs of a framework have begun inside the saga and not ended.
        unwritten: Outcomes that the log did not take; written first as soon as it takes records again.
        unattended: Steps whose effects still run although their callers went on.
        is_stopped: Somebody wants the ending to stop at once; what remains is recovery's.
        is_passed_on: The janitor ends the saga, because an interrupt cut the scope's own ending short.
        is_replay: The saga is committed; recorded positions answer, nothing new runs.
        is_past_pivot: The commit is on the disk; only held effects are left to be sent.
        is_dead: This is a forked child's copy: it may do nothing.
        is_encrypted: The logs are, so that they may hold what an undo needs although it looks like a secret.
        asks: How calls that a person has to decide about wait; None where nobody can be asked.
    """

    def __init__(
        self, store: Backend, log_: Log, view: SagaView, *, gate: Gate = DEFAULT, clock: Clock = SYSTEM
    ) -> None:
        assert view.began is not None
        self.store = store
        self.log = log_
        self.view = view
        self.gate = gate
        self.has_rules = type(gate) is not Gate or gate.has_rules
        self.clock = clock
        self.saga_id = view.began.saga
        self.name = view.began.name
        self.key = view.began.key
        self.lock = threading.RLock()
        self.latched: str | None = None
        self.is_wary = False
        self._watchers: weakref.WeakSet[Watcher] = weakref.WeakSet()
        self.found: SagaState | None = None
        self.runs = 0
        self.asked: dict[int, int] = {}
        self.written = 0
        self.unwritten: list[Record] = []
        self.unattended: set[int] = set()
        self.is_stopped = False
        self.is_passed_on = False
        self.is_replay = False
        self.is_past_pivot = False
        self.is_dead = False
        self.is_encrypted = getattr(store, "encryption", None) is not None
        self.asks: Asks | None = None
        self.newest = max((*view.steps, *(call.number for call in (*view.refused, *view.waiting.values()))), default=0)
        self.flights: set[Flight] = set()
        self._bells: list[Callable[[], None]] = []
        self._torn = False
        self._is_ending = False
        self._is_unwinding = False
        fork.watch(self)
        fork.watch(PRIVATE_LOOP)

    def die_in_child(self) -> None:
        """Become a forked child's dead copy: the saga is the parent's."""
        self.is_dead = self.is_wary = True
        self.lock = threading.RLock()

    def latch(self, why: str) -> None:
        """Let no further effect start, and tell the watchers."""
        self.latched = why
        self.is_wary = True
        self.tell()

    def watch(self, watcher: Watcher) -> None:
        """Tell the watcher, as long as somebody else holds it, when the session is latched or a scope is decided on."""
        with self.lock:
            self._watchers.add(watcher)

    def tell(self) -> None:
        """Tell the watchers."""
        with self.lock:
            watchers = list(self._watchers)
        for watcher in watchers:
            watcher.tell()

    def append(self, record: Record) -> int:
        """Write a record, take it into the state, and return the log position behind it.

        Raises:
            StoreError: It could not be written.
            SagaForked: This process is a forked child.
        """
        with self.lock:
            return self.write(record)

    def append_outcome(self, record: Record) -> int:
        """Append what became of an effect; where the log refuses, keep it for later and latch the saga.

        Raises:
            StoreError: It could not be written now.
        """
        with self.lock:
            try:
                return self.write(record)
            except StoreError:
                self.unwritten.append(record)
                self.latch("the outcome of an earlier step could not be written")
                raise

    def write(self, record: Record) -> int:
        """Do as `append` does, for a caller who holds the lock."""
        if self._torn or self.unwritten or self.is_dead:
            self._make_good()
        view = self.view
        fold.check(view, record)
        self._torn = True  # stays set where an interrupt falls between the write and the state
        try:
            self.written = position = self.log.append(record)
        except StoreError:
            self._torn = False
            raise
        except (UnicodeEncodeError, OverflowError, TypeError):
            record = codec.cleaned(record)
            self.written = position = self.log.append(record)
        fold.follow(view, record)
        self._torn = False
        return position

    def _make_good(self) -> None:
        if self.is_dead:
            raise SagaForked(
                "this scope belongs to the parent process",
                saga_id=self.saga_id,
                world="this process called nothing in its name",
                next="open a scope of your own in the child",
            )
        self.catch_up()

    @property
    def is_behind(self) -> bool:
        """The state lacks a record that an interrupt, or a log that refused it, kept out."""
        return self._torn or bool(self.unwritten)

    def catch_up(self) -> None:
        """Bring state and log together again after an interrupt or a refused outcome.

        Raises:
            StoreError: The log still refuses.
        """
        with self.lock:
            if self._torn:
                self._reread()
            kept, self.unwritten = self.unwritten, []
            try:
                while kept:
                    try:
                        self.write(kept[0])
                    except fold.FoldError as told:  # the same was found out, and written, in another way meanwhile
                        log.info("saga %s: a kept outcome is not needed any more: %s", self.saga_id, told)
                    del kept[0]
            finally:
                self.unwritten = kept + self.unwritten

    def _reread(self) -> None:
        reading = self.store.read(self.saga_id)
        if reading is not None:
            self.view = fold.fold(reading.records)
        self._torn = False

    def next_step(self) -> int:
        """Return the number of the next step."""
        with self.lock:
            self.newest += 1
            return self.newest

    def key_of(self, position: str, purpose: str, attempt: int) -> str:
        """Return the idempotency key of one attempt."""
        return ids.step_key(self.saga_id, position, purpose, attempt)

    def note(self, step: int, facts: dict[str, Any]) -> int:
        """Append facts about a step.

        Raises:
            BadArguments: A fact is not JSON.
            StoreError: It could not be written.
        """
        try:
            plain = codec.thaw(codec.freeze(facts))
            codec.refuse_unfit(plain)
        except (TypeError, ValueError) as unfit:
            raise BadArguments(
                f"a noted fact cannot be recorded: {unfit}",
                saga_id=self.saga_id,
                world="the effect is under way; the fact was not noted",
                next="note JSON only: ids, numbers, text",
            ) from unfit
        found = None if self.is_encrypted else find(plain)
        if found is not None:
            raise SecretRefused(
                f"a noted fact would put a secret into the log ({found})",
                saga_id=self.saga_id,
                world="the effect is under way; the fact was not noted",
                next="note an id, or encrypt the store",
            )
        return self.append(Noted(step, plain))

    async def wait_durable(self, step: int, position: int) -> None:
        """Wait until the position is durable within the step's tier."""
        if self.view.steps[step].tier == "power" and self.log.durable < position:
            await ASYNC.barrier(self.log, position)

    def sync_durable(self, step: int, position: int) -> None:
        """Do as `wait_durable` does, blocking."""
        if self.view.steps[step].tier == "power":
            self.log.sync(position)

    def enter(self, path: str, number: int = 0) -> Flight:
        """Count something as running in the scope; a call counts itself, in `flights`."""
        errand = _Errand(path, number)
        self.flights.add(errand)
        return errand

    def leave(self, flight: Flight) -> None:
        """Count it as ended and wake whoever waits for that."""
        self.flights.discard(flight)
        if self._bells:  # looked at behind the removal, as `on_leave` looks behind its bell: one of them sees the other
            self._ring()

    def _ring(self) -> None:
        with self.lock:
            bells, self._bells = self._bells, []
        for ring in bells:
            ring()

    def is_busy(self, within: Callable[[str], bool]) -> bool:
        """Tell whether an effect runs in one of the scopes."""
        return any(within(flight.path) for flight in self.flights.copy())

    def doubt_interrupted(self) -> None:
        """Put in doubt each step whose caller was interrupted between two records of it."""
        with self.lock:
            self.catch_up()
            for number in self.view.running - {flight.number for flight in self.flights.copy()}:
                self.append(Doubted(number, self.clock.wall(), self.clock.up(), "interrupted"))

    def stop(self) -> None:
        """Have the ending stop as soon as it can, and wake whoever waits for a running effect."""
        self.is_stopped = True
        self._ring()

    def on_leave(self, ring: Callable[[], None]) -> None:
        """Call `ring` once, when the next effect ends; at once if none runs."""
        with self.lock:
            self._bells.append(ring)
        if not self.flights:
            self._ring()

    def give_up(self) -> None:
        """Free the log for whoever recovers the saga, once no effect of it runs here any more."""
        if self.is_busy(lambda _: True):
            self.on_leave(self.give_up)
        else:
            self.log.release()

    def begin_unwinding(self) -> bool:
        """Take the one right to carry out moves; False while somebody else does."""
        with self.lock:
            taken, self._is_unwinding = self._is_unwinding, True
            return not taken

    def end_unwinding(self) -> None:
        """Give the right back."""
        self._is_unwinding = False

    def claim_ending(self) -> bool:
        """Take the one right to end the saga; False if somebody has it already."""
        with self.lock:
            taken, self._is_ending = self._is_ending, True
            return not taken

    def report(self) -> Report:
        """Return what became of the saga so far."""
        with self.lock:
            return report_of(self.view)
