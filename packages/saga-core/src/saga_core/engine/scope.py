"""`saga_scope`: the block inside which what an agent does can be undone."""

from __future__ import annotations

import os
import weakref
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, overload

from saga_core.codec import words
from saga_core.engine import janitor
from saga_core.engine.context import AMBIENT
from saga_core.engine.ending import Limits
from saga_core.engine.io import ASYNC, SYNC, drive, on_loop_thread
from saga_core.engine.leaving import leave, leave_on_loop
from saga_core.engine.node import Node
from saga_core.engine.opening import begin, begin_or_resume
from saga_core.errors import ScopeMisuse
from saga_core.gate import DEFAULT, Gate
from saga_core.records import ScopeOpened
from saga_core.stores import open_store
from saga_core.stores.store import Backend

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import ParamSpec, TypeVar

    from saga_core.engine.action import Action, AsyncAction
    from saga_core.engine.io import Io
    from saga_core.engine.session import Session
    from saga_core.report import Report
    from saga_core.stores import Store
    from saga_core.types import Co

    P = ParamSpec("P")
    T = TypeVar("T")

_NOTHING: Mapping[str, str] = {}


class Saga:
    """The handle of one open scope; usable from any thread or task. No method does I/O.

    Attributes:
        id: The saga's id.
        name: The name given to the scope.
        key: The key under which the saga is found again.
    """

    def __init__(self, node: Node, name: str) -> None:
        self._node = node
        self.id = node.session.saga_id
        self.name = name
        self.key = node.session.key

    def __repr__(self) -> str:
        return f"<saga {self.name!r} {self.id} {self._node.session.view.state}>"

    @property
    def report(self) -> Report:
        """What became of the saga so far; complete once the scope has ended and nothing is left to settle."""
        return self._node.session.report()

    @overload
    def run(self, action: AsyncAction[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Co[T]: ...
    @overload
    def run(self, action: Action[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    def run(self, action: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call an action inside this saga."""
        return action(self, *args, **kwargs)

    def rollback(self, reason: str) -> None:
        """Decide that the scope unwinds when it ends; later steps raise `SagaClosed`."""
        self._decide("rollback", reason)

    def suspend(self, reason: str) -> None:
        """Decide that the saga waits, owned by nobody, once the scope has ended; found again by its key."""
        if self._node.parent is not None:
            raise ScopeMisuse(
                "a savepoint cannot be suspended on its own",
                saga_id=self.id,
                world="nothing changed",
                next="suspend the outermost scope's saga",
            )
        if self.key is None:
            raise ScopeMisuse(
                "a saga without a key could not be found again",
                saga_id=self.id,
                world="nothing changed",
                next="open the scope with key=",
            )
        self._decide("suspend", reason)

    def _decide(self, kind: str, reason: str) -> None:
        reason = words(reason)
        if self._node.decision is None or kind == "rollback":
            self._node.decision = (kind, reason)
        self._node.closed = f"{kind} was decided: {reason}"


def node_of(saga: Saga) -> Node:
    """Return the engine's side of a handle."""
    return saga._node  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] -- the handle's own module


def current_saga() -> Saga | None:
    """Return the innermost open scope's saga of this context, None outside."""
    node = ambient_node()
    return None if node is None else Saga(node, node.session.view.scopes[node.path].name)


def ambient_node() -> Node | None:
    """Return the innermost scope of this context that takes steps.

    A savepoint that was kept belongs to the scope around it; one that was undone stays closed.
    """
    node = AMBIENT.get()
    while node is not None and node.is_over and node.parent is not None and not node.is_undone:
        node = node.parent
    return node


def _ambient() -> Node | None:
    node = AMBIENT.get()
    if node is not None:
        node.outside()
    return node


class Scope:
    """What `saga_scope` returns: good for one `with` or `async with`."""

    def __init__(
        self,
        name: str,
        *,
        key: str | None,
        if_settled: Literal["raise", "new", "return"],
        new: bool,
        store: Store | str | None,
        gate: Gate | None,
        tags: Mapping[str, str],
        stray: str,
        limits: Limits,
    ) -> None:
        self._name = name
        self._key = key
        self._if_settled: Literal["raise", "new", "return"] = if_settled
        self._new = new
        self._store = store
        self._gate = gate
        self._tags = tags
        self._stray = stray
        self._limits = limits
        self._node: Node | None = None

    def __enter__(self) -> Saga:
        if on_loop_thread():
            raise ScopeMisuse(
                "`with saga_scope()` on the thread of a running event loop would block it",
                world="nothing was opened",
                next="write `async with saga_scope()`",
            )
        return drive(self._open(SYNC))

    async def __aenter__(self) -> Saga:
        return await self._open(ASYNC)

    async def _open(self, io: Io) -> Saga:
        if self._node is not None:
            raise ScopeMisuse(
                "a scope is good for one block", world="nothing was opened", next="call saga_scope() again"
            )
        outer = ambient_node()
        if outer is not None and not self._new and not outer.session.is_dead and not outer.is_over:
            node = self._open_savepoint(outer)
        else:
            node = Node(await self._open_session(io), None, "", outer=_ambient())
            if node.session.is_replay:
                node.closed = "the saga is committed; only recorded steps answer"
            weakref.finalize(self, _abandon, node).atexit = False
        self._node = node
        AMBIENT.set(node)
        return Saga(node, self._name)

    def _open_savepoint(self, outer: Node) -> Node:
        if self._key is not None or self._store is not None or self._gate is not None:
            raise ScopeMisuse(
                "a nested scope is a savepoint: key=, store= and gate= belong to the outermost one",
                saga_id=outer.session.saga_id,
                world="nothing was opened",
                next="leave them out, or write new=True for an independent saga",
            )
        node = Node(outer.session, outer, outer.next_path(), outer=_ambient())
        session = outer.session
        if not session.is_replay:
            session.append(ScopeOpened(node.path, outer.path, self._name, session.clock.wall()))
        return node

    async def _open_session(self, io: Io) -> Session:
        store = self._store
        if not isinstance(store, Backend):
            store = await io.offload(backend, store)
        gate = self._gate or DEFAULT
        if self._key is None:
            return begin(store, self._name, gate=gate, tags=self._tags, stray=self._stray)
        return await begin_or_resume(
            io, store, self._name, self._key, self._if_settled, gate=gate, tags=self._tags, stray=self._stray
        )

    def _close(self) -> Node | None:
        """Leave the ambient scope; None where this process has nothing to end."""
        node = self._node
        if node is None:
            return None
        if AMBIENT.get() is node:
            AMBIENT.set(node.outside())
        else:
            node.is_left_early = True
        session = node.session
        if session.is_dead or session.is_replay or (node.parent is None and not session.claim_ending()):
            node.is_over = True
            return None
        return node

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        node = self._close()
        if node is not None:
            leave(node, error, self._limits)

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        node = self._close()
        if node is not None:
            await leave_on_loop(node, error, self._limits)


def _abandon(node: Node) -> None:
    session = node.session
    if session.is_dead or session.is_replay or not session.claim_ending():
        return
    node.closed = node.closed or "its scope was abandoned"
    node.is_over = True
    janitor.take(session, session.clock.up())


def backend(store: Store | str | None) -> Backend:
    """Return the store itself, opened by its URL, or the configured one: SAGA_STORE, else ./.saga."""
    if store is None or isinstance(store, str):
        found = open_store(store or os.environ.get("SAGA_STORE") or "file:.saga")
    else:
        found = store
    if not isinstance(found, Backend):
        raise ScopeMisuse(
            f"a {type(found).__qualname__} is no store",
            world="nothing was opened",
            next="pass what saga_core.open_store returns, or its URL",
        )
    return found


def _refuse_unfit(name: str, key: str | None, tags: Mapping[str, str]) -> None:
    """Refuse names that a record could not hold."""
    for text in (name, *(() if key is None else (key,)), *tags.keys(), *tags.values()):
        try:
            str.encode(text)
        except (TypeError, UnicodeEncodeError):
            raise ScopeMisuse(
                f"a scope's name, key and tags are text; one of them is a {type(text).__qualname__} that is not",
                world="nothing was opened",
                next="pass str values",
            ) from None


def saga_scope(
    name: str = "saga",
    /,
    *,
    key: str | None = None,
    if_settled: Literal["raise", "new", "return"] = "raise",
    new: bool = False,
    store: Store | str | None = None,
    gate: Gate | None = None,
    tags: Mapping[str, str] = _NOTHING,
    approval_wait: timedelta | None = None,  # noqa: ARG001 -- frozen in the public signature; nothing waits yet
    mode: Literal["enforce", "record"] | None = None,
    stray: Literal["undo", "case"] = "undo",
    drain_timeout: timedelta = timedelta(seconds=30),
    unwind_timeout: timedelta = timedelta(seconds=30),
) -> Scope:
    """Return a scope, for `with` or `async with`: what happens inside stays if it succeeds, and is undone if it fails.

    The block's exception always comes out unchanged, with a note. Each effect's intent is durable before it starts; the
    commit is durable before the block is left. Inside another scope this is a savepoint.

    Args:
        name: What the saga is for, for people.
        key: Names the saga, so that a later run resumes it.
        if_settled: What to do when the saga of the key is committed: raise, begin a new one, or return its results.
        new: An independent saga although a scope is open.
        store: A store or its URL; default SAGA_STORE, else `file:.saga`.
        gate: The rules that every call passes; the built-in ones always stand.
        tags: Names and values to find the saga by.
        approval_wait: How long a call may wait for a person's decision; nothing waits yet, an escalation refuses.
        mode: `enforce`; `record` is not built yet.
        stray: What the commit does with a step that failed towards its caller and landed: undo it, or open a case.
        drain_timeout: How long the end waits for effects that still run.
        unwind_timeout: How long the end undoes in the caller's sight; the rest goes on in the background.

    Raises:
        ScopeMisuse: It cannot be opened like this.
        SagaBusy: Another process owns the saga of the key.
        SagaClosed: The saga of the key is committed.
        SagaUnsettled: The saga of the key waits for recovery or a person.
        StoreError: The store is missing, read-only or full.
    """
    if (mode or os.environ.get("SAGA_MODE") or "enforce") != "enforce":
        raise ScopeMisuse(
            "record mode is not built yet",
            world="nothing was opened",
            next='leave mode= and SAGA_MODE out, or set them to "enforce"',
        )
    _refuse_unfit(name, key, tags)
    return Scope(
        name,
        key=key,
        if_settled=if_settled,
        new=new,
        store=store,
        gate=gate,
        tags=tags,
        stray=stray,
        limits=Limits(drain_timeout, unwind_timeout),
    )
