"""One saga, or one savepoint of it, in the hands of an adapter."""

from __future__ import annotations

import asyncio
import itertools
import threading
import weakref
from concurrent.futures import Future
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from saga_core import codec, registry
from saga_core.adapter.body import Body, placed
from saga_core.adapter.notice import notice_of
from saga_core.adapter.place import is_at, outermost, quoted
from saga_core.clock import seconds
from saga_core.engine.context import STEP
from saga_core.engine.ending import drain
from saga_core.engine.hold import receipt
from saga_core.engine.io import ASYNC, SYNC, drive
from saga_core.engine.leaving import leave, leave_on_loop
from saga_core.engine.rewind import rewind
from saga_core.engine.saga import Saga, ambient_node
from saga_core.engine.terms import HALF_A_MINUTE, NO_TAGS, Terms, may_end, open_node, refuse_unfit, savepoint, watch
from saga_core.errors import RollbackIncomplete, ScopeMisuse
from saga_core.view import PROVEN, is_proven

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from saga_core.engine.action import Action, AsyncAction
    from saga_core.engine.io import Io
    from saga_core.engine.node import Node
    from saga_core.gate import Gate
    from saga_core.report import Report
    from saga_core.stores import Store
    from saga_core.types import SagaState, StepState
    from saga_core.view import StepView

    T = TypeVar("T")

_live: weakref.WeakSet[Session] = weakref.WeakSet()
_live_lock = threading.Lock()
_numbers = itertools.count(1)

_GRACE = 2.0
"""Seconds that a second ending is waited for longer than the first may take."""


class Recorded(NamedTuple):
    """What the log knows of one call.

    Attributes:
        state: What became of it.
        result: The effect's result in the annotated type, None unless the state is `applied`; of a held
            call its receipt.
    """

    state: StepState
    result: Any


class Session:
    """A scope that belongs to a run instead of a block: opened, entered from any thread or task, and ended once.

    A session opened inside an open scope is a savepoint of it, as a nested `saga_scope` is. A session that is dropped
    without being ended is unwound in the background.

    Attributes:
        saga: The handle of the saga.
    """

    def __init__(self, node: Node, terms: Terms) -> None:
        """Do not call this: `open`, `open_sync`, `join` and `savepoint` return sessions."""
        self._node = node
        self._terms = terms
        self._limits = terms.limits
        self._lock = threading.Lock()
        self._runs = 0
        self._told: list[Callable[[], None]] = []
        self._number = next(_numbers)
        self._is_claimed = False
        self._ending: Future[None] = Future()
        node.stays_closed = True
        self.saga = Saga(node, terms.name)

    def __repr__(self) -> str:
        return f"<session of {self.saga!r}>"

    @classmethod
    async def open(
        cls,
        name: str = "saga",
        /,
        *,
        key: str | None = None,
        if_settled: Literal["raise", "new", "return"] = "raise",
        new: bool = False,
        store: Store | str | None = None,
        gate: Gate | None = None,
        tags: Mapping[str, str] = NO_TAGS,
        stray: Literal["undo", "case"] = "undo",
        drain_timeout: timedelta = HALF_A_MINUTE,
        unwind_timeout: timedelta = HALF_A_MINUTE,
    ) -> Session:
        """Begin a saga, resume the unfinished one of `key`, or open a savepoint of the scope that is open here.

        The arguments are those of `saga_scope`. Nothing becomes ambient: enter a `body`.

        Raises:
            ScopeMisuse: It cannot be opened like this; a savepoint takes no key, store or gate.
            SagaBusy: Another process owns the saga of the key.
            SagaClosed: The saga of the key is committed.
            SagaUnsettled: The saga of the key waits for recovery or a person.
            StoreError: The store is missing, read-only or full.
        """
        terms = Terms(name, key, if_settled, new, store, gate, tags, stray, drain_timeout, unwind_timeout)
        return cls._opened(await open_node(ASYNC, _checked(terms)), terms)

    @classmethod
    def open_sync(
        cls,
        name: str = "saga",
        /,
        *,
        key: str | None = None,
        if_settled: Literal["raise", "new", "return"] = "raise",
        new: bool = False,
        store: Store | str | None = None,
        gate: Gate | None = None,
        tags: Mapping[str, str] = NO_TAGS,
        stray: Literal["undo", "case"] = "undo",
        drain_timeout: timedelta = HALF_A_MINUTE,
        unwind_timeout: timedelta = HALF_A_MINUTE,
    ) -> Session:
        """Do as `open` does, blocking; on an event loop's own thread too, where the framework blocks it anyway."""
        terms = Terms(name, key, if_settled, new, store, gate, tags, stray, drain_timeout, unwind_timeout)
        return cls._opened(drive(open_node(SYNC, _checked(terms))), terms)

    @classmethod
    def _opened(cls, node: Node, terms: Terms) -> Session:
        session = cls(node, terms)
        watch(session, node)
        if terms.key is not None:
            with _live_lock:
                _live.add(session)
        return session

    @staticmethod
    def join(key: str) -> Session | None:
        """Return the session of this process that was opened under the key and has not ended; None if there is none.

        For a tool's body that has lost its context, in whatever thread or task it runs. Where a session was left behind
        without being ended, the newest one is meant; None where sagas of several stores have the key, as nobody can
        tell which one is.
        """
        with _live_lock:
            found = [session for session in _live if session.saga.key == key and not session.is_ended]
        stores = {id(session._node.session.store) for session in found}  # noqa: SLF001 -- its own class
        return max(found, key=lambda session: session._number) if len(stores) == 1 else None  # noqa: SLF001

    @property
    def found(self) -> SagaState | None:
        """How an earlier owner left the saga: `suspended`, or `running` if cut off; None if it was begun here."""
        return self._node.session.found

    @property
    def places(self) -> list[str]:
        """Where steps of this session are recorded, each place once, in the order of their first ones."""
        with self._node.session.lock:
            steps = list(self._node.session.view.steps.values())
        found = (outermost(step) for step in steps if self._node.holds(step.scope))
        return list(dict.fromkeys(place for place in found if place is not None))

    @property
    def is_ended(self) -> bool:
        """Tell whether the session was ended, or the saga that it is a savepoint of."""
        node: Node | None = self._node
        while node is not None:
            if node.scope.is_over:  # a body that is over ends nothing
                return True
            node = node.scope.parent
        return self._is_claimed

    @property
    def report(self) -> Report:
        """What became of the saga so far."""
        return self._node.session.report()

    def notice(self) -> str:
        """Return what stands and what was undone, in words that a model can read.

        No argument or result is in it, declared amounts of money excepted.
        """
        with self._node.session.lock:
            view, report = self._node.session.view, self.report
            unsure = [
                step.number
                for step in view.steps.values()
                if (step.state == "applied" and view.is_doomed(step)) or (step.state in PROVEN and not is_proven(step))
            ]
        return notice_of(report, unsure)

    def run_began(self) -> None:
        """Mark that a run of the framework goes on in here: until it ends, the session and the saga only unwind.

        In a session that has ended nothing runs any more, and this does nothing.
        """
        with self._node.session.lock:
            if self.is_ended:
                return
            self._runs += 1
            self._node.session.runs += 1

    def run_ended(self) -> None:
        """Mark that the run has come to its own end."""
        with self._node.session.lock:
            if self._runs:
                self._runs -= 1
                self._node.session.runs -= 1

    def body(self, place: str | None = None) -> Body:
        """Return a context manager for one run of a tool's body: actions called in it are steps of this session.

        It does no I/O, serves `with` in any thread, task or generator, and needs nothing ambient. If a savepoint of
        this saga is ambient, it takes the steps.

        Args:
            place: The framework's name of this call, the same when the call is run again: a call that is recorded is
                answered from the log. None: the steps count on in the scope, and are found again by their order alone.

        Raises:
            ValueError: The place is empty.
        """
        inner = ambient_node()
        is_inside = inner is not None and inner.session is self._node.session and self._node.holds(inner.path)
        outer = inner if inner is not None and is_inside else self._node
        return Body(outer if place is None else placed(outer, place))

    @staticmethod
    def body_here(place: str) -> Body | None:
        """Return a body in the innermost scope that is open in this context, whoever opened it; None outside.

        For a tool's body in a user's own `saga_scope`, without a session of the adapter around it.

        Raises:
            ValueError: The place is empty.
        """
        scope = ambient_node()
        return None if scope is None else Body(placed(scope, place))

    def savepoint(self, name: str, *, place: str | None = None) -> Session:
        """Open a part of the saga that can be unwound on its own.

        Args:
            name: What it is for, for people.
            place: The framework's name of it, by which its steps are found again when the run is resumed.

        Raises:
            SagaClosed: The log takes no more.
            StoreError: It could not be written.
        """
        body = self.body(place)
        terms = Terms(name, drain_timeout=self._terms.drain_timeout, unwind_timeout=self._terms.unwind_timeout)
        return Session(savepoint(body.node, name), terms)

    def recorded(self, place: str, action: Action[..., Any] | AsyncAction[..., Any]) -> Recorded | None:
        """Return what the log knows of the action's newest call at the place; None if it was never called there."""
        found = [step for step in self._placed(place) if step.action == action.name]
        if not found:
            return None
        step = found[-1]
        if step.is_hold and not step.is_dropped:
            return Recorded(step.state, receipt(self._node.session, step))
        if step.state != "applied" or step.result is None:
            return Recorded(step.state, None)
        declared = registry.ACTIONS.get(step.action)
        plain = codec.thaw(step.result)
        return Recorded(step.state, plain if declared is None else declared.signature.restore_result(plain))

    def _placed(self, place: str) -> list[StepView]:
        mark = quoted(place)
        with self._node.session.lock:
            steps = list(self._node.session.view.steps.values())
        return [step for step in steps if self._node.holds(step.scope) and is_at(step, mark)]

    def seal(self, reason: str) -> None:
        """Refuse every further step with `SagaClosed`; what runs goes on. Decides nothing about the end."""
        if self._node.closed is None:
            self._node.closed = codec.words(reason)

    def latch(self, reason: str) -> None:
        """Decide that the session unwinds when it ends, whatever the framework makes of it; no further step starts."""
        self.saga.rollback(reason)

    @property
    def latched(self) -> str | None:
        """Why the session will unwind when it ends; None if nothing has decided so."""
        decision = self._node.decision
        if decision is not None and decision[0] == "rollback":
            return decision[1]
        return self._node.session.latched

    def on_latch(self, told: Callable[[], None]) -> None:
        """Call `told` when it is decided that the session unwinds: at once if it is, else from wherever that happens.

        It may be called more than once, and must neither block nor raise.
        """
        self._told.append(told)
        self._node.session.watch(self)
        if self.latched is not None:
            told()

    def tell(self) -> None:
        """Serve the engine, which says that something was decided: call what `on_latch` was given."""
        if self.latched is not None:
            for told in self._told:
                told()

    async def drain(self, patience: timedelta = HALF_A_MINUTE) -> bool:
        """Wait for effects that still run, wherever they do; False if one still runs after `patience`."""
        if self._node.session.is_dead:
            return True  # a forked child's copy: what it knows of runs in the parent
        return await drain(ASYNC, self._node, seconds(patience))

    def drain_sync(self, patience: timedelta = HALF_A_MINUTE) -> bool:
        """Do as `drain` does, blocking."""
        if self._node.session.is_dead:
            return True
        return drive(drain(SYNC, self._node, seconds(patience)))

    async def end(self, error: BaseException | None = None) -> None:
        """End it as a block would: with an error, or an unended run, unwind; else do what was decided, or commit.

        Seals, drains, then acts. Durable when this returns. Ending twice only waits for the first ending, which heeds
        an error that comes before its commit is written. The error gets a note and is not raised here: raise it again.
        A cancellation is held back until the ending is done.

        Raises:
            RollbackIncomplete: Something that was to be undone, without an error, is not.
            CommitUnknown: Whether the commit is durable is not known.
            StoreError: The log cannot be written.
        """
        if not self._claim(error):
            await _shielded(self._wait_for_the_other(ASYNC))
            return
        try:
            if may_end(self._node):
                await leave_on_loop(self._node, error, self._limits)
        finally:
            self._ending.set_result(None)

    def end_sync(self, error: BaseException | None = None) -> None:
        """Do as `end` does, blocking."""
        if not self._claim(error):
            drive(self._wait_for_the_other(SYNC))
            return
        try:
            if may_end(self._node):
                leave(self._node, error, self._limits)
        finally:
            self._ending.set_result(None)

    async def commit(self) -> None:
        """Keep what was done.

        Raises:
            ScopeMisuse: A run has not ended, or something else was decided, and nothing changed; or it has ended so.
            CommitUnknown: Whether the commit is durable is not known.
            StoreError: The log cannot be written.
        """
        self._refuse_commit()
        await self.end()
        self._refuse_unless_kept()

    def commit_sync(self) -> None:
        """Do as `commit` does, blocking."""
        self._refuse_commit()
        self.end_sync()
        self._refuse_unless_kept()

    async def suspend(self, reason: str) -> None:
        """Leave the saga waiting, owned by nobody, to be resumed by its key.

        Raises:
            ScopeMisuse: It has no key, is a savepoint, has ended, or it was decided to unwind; nothing changed.
            StoreError: The log cannot be written.
        """
        self._pause(reason)
        await self.end()

    def suspend_sync(self, reason: str) -> None:
        """Do as `suspend` does, blocking."""
        self._pause(reason)
        self.end_sync()

    async def unwind(self, reason: str, *, since: str | None = None) -> Report:
        """Undo, newest first, and return the report, which says what could not be undone.

        Args:
            reason: Why, for people.
            since: A place: only the steps from the first one recorded there are undone, and the session stays open.
                None: all of them, and the session is ended.

        Raises:
            ScopeMisuse: Nothing is recorded at the place, or what was done is kept already; nothing changed.
            StoreError: The log cannot be written.
        """
        self._refuse_unwind(since)
        if since is not None:
            await _shielded(rewind(ASYNC, self._node, self._first(since), codec.words(reason), self._limits.unwind))
            return self.report
        self.latch(reason)
        try:
            await self.end()
        except RollbackIncomplete as left:
            return left.report or self.report
        return self.report

    def unwind_sync(self, reason: str, *, since: str | None = None) -> Report:
        """Do as `unwind` does, blocking."""
        self._refuse_unwind(since)
        if since is not None:
            drive(rewind(SYNC, self._node, self._first(since), codec.words(reason), self._limits.unwind))
            return self.report
        self.latch(reason)
        try:
            self.end_sync()
        except RollbackIncomplete as left:
            return left.report or self.report
        return self.report

    def _first(self, place: str) -> int:
        steps = self._placed(place)
        if not steps:
            raise self._misuse(f"nothing is recorded at {place!r}", "name a place at which a body recorded a step")
        return steps[0].number

    def _refuse_commit(self) -> None:
        decision = self._node.decision
        why = self.latched or (None if decision is None else f"{decision[0]} was decided: {decision[1]}")
        if not self.is_ended and (self._runs or why):
            raise self._misuse(
                f"the saga cannot be committed: {why or 'a run inside it has not ended'}",
                "call end() or unwind()",
                "nothing changed; what landed stands until it is ended",
            )

    def _refuse_unless_kept(self) -> None:
        if not self._is_kept:
            state = self._node.session.view.state.replace("_", " ")
            raise self._misuse(
                f"the saga was not committed: it is {state}",
                f"saga show {self.saga.id}",
                "`report` says which of its effects stand",
            )

    def _refuse_unwind(self, since: str | None) -> None:
        if self._node.session.is_replay:
            raise self._misuse(
                "this is a replay of a committed saga", 'begin another saga of the key: if_settled="new"'
            )
        if self.is_ended and (self._is_kept or since is not None):
            raise self._misuse(
                "the session has ended: nothing of it is undone any more",
                "unwind before the session is committed or ended",
            )

    @property
    def _is_kept(self) -> bool:
        """What the session did stands, as far as it is the session's to decide."""
        node: Node | None = self._node
        while node is not None:
            if node.is_undone:
                return False
            node = node.parent
        state = self._node.session.view.state
        return state == "committed" or (self._node.parent is not None and state in {"running", "committing"})

    def _misuse(self, what: str, to_do: str, world: str = "nothing changed") -> ScopeMisuse:
        return ScopeMisuse(what, saga_id=self.saga.id, world=world, next=to_do)

    def _pause(self, reason: str) -> None:
        why = "it has ended" if self.is_ended else self.latched
        if why is not None:
            raise self._misuse(f"the saga cannot be suspended: {why}", "call end()")
        self.saga.suspend(reason)
        self._forget_runs()

    def _forget_runs(self) -> None:
        with self._node.session.lock:
            self._node.session.runs -= self._runs
            self._runs = 0

    def _claim(self, error: BaseException | None) -> bool:
        """Take the one right to end it; False where nothing is left to end."""
        node = self._node
        with self._lock:
            if self.is_ended:
                if self._is_claimed and error is not None and not node.is_over:
                    self.latch(type(error).__qualname__)  # heeded as long as no commit is written
                return False
            self._is_claimed = True
        with node.session.lock:
            if error is None and node.decision is None:
                if self._runs:
                    self.latch("its run had not ended")
                elif node.session.latched is not None:
                    self.latch(node.session.latched)
            self._forget_runs()
        return True

    async def _wait_for_the_other(self, io: Io) -> None:
        """Wait for the ending that somebody else began, unless that one waits for this very call."""
        step = STEP.get()
        is_inside = step is not None and step.saga_id == self.saga.id and not step.is_over
        if not self._is_claimed or is_inside or self._node.session.is_dead:
            return
        limit = self._limits.drain + self._limits.unwind + _GRACE
        await io.wait(lambda ring: self._ending.add_done_callback(lambda _: ring()), limit)


def _checked(terms: Terms) -> Terms:
    refuse_unfit(terms)
    return terms


async def _shielded(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end whatever cancels the caller; the cancellation is raised afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as late:
            cancelled = late
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # the caller is told of its cancellation instead
        raise cancelled
    return task.result()
