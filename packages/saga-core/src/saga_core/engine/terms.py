"""On what terms a scope is opened, and the opening itself."""

from __future__ import annotations

import os
import weakref
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from saga_core.clock import SYSTEM, Clock
from saga_core.engine import janitor
from saga_core.engine.context import AMBIENT
from saga_core.engine.ending import Limits
from saga_core.engine.node import Node
from saga_core.engine.opening import begin, begin_or_resume
from saga_core.engine.saga import ambient_node
from saga_core.engine.session import Asks, Session
from saga_core.errors import ScopeMisuse
from saga_core.gate import DEFAULT, Gate
from saga_core.records import ScopeOpened
from saga_core.secrets import find
from saga_core.stores import open_store
from saga_core.stores.store import Backend

if TYPE_CHECKING:
    from collections.abc import Mapping

    from saga_core.engine.io import Io
    from saga_core.stores import Store

NO_TAGS: Mapping[str, str] = {}
_backends: set[type] = set()  # a look at a protocol takes its time, so it is taken once a type
HALF_A_MINUTE = timedelta(seconds=30)


class Terms(NamedTuple):
    """What the caller asked for; `saga_scope` documents each. A test brings a clock of its own."""

    name: str
    key: str | None = None
    if_settled: Literal["raise", "new", "return"] = "raise"
    new: bool = False
    store: Store | str | None = None
    gate: Gate | None = None
    tags: Mapping[str, str] = NO_TAGS
    stray: Literal["undo", "case"] = "undo"
    drain_timeout: timedelta = HALF_A_MINUTE
    unwind_timeout: timedelta = HALF_A_MINUTE
    clock: Clock = SYSTEM
    approval_wait: timedelta | None = None

    @property
    def limits(self) -> Limits:
        """How long the ending may take.

        Raises:
            ValueError: A limit is negative, or no duration.
        """
        return Limits(self.drain_timeout, self.unwind_timeout)


def refuse_unfit(terms: Terms) -> None:
    """Refuse names that a record could not hold.

    Raises:
        ScopeMisuse: One of them is no text.
    """
    key = () if terms.key is None else (terms.key,)
    for text in (terms.name, *key, *terms.tags.keys(), *terms.tags.values()):
        try:
            str.encode(text)
        except (TypeError, UnicodeEncodeError):
            raise ScopeMisuse(
                f"a scope's name, key and tags are text; one of them is a {type(text).__qualname__} that is not",
                world="nothing was opened",
                next="pass str values",
            ) from None
        found = find(text)
        if found is not None:
            raise ScopeMisuse(
                f"a scope's name, key and tags stand in the log; one of them holds a secret ({found})",
                world="nothing was opened",
                next="name the saga by something that may be read",
            )


async def open_node(io: Io, terms: Terms) -> Node:
    """Open the scope: a savepoint of the ambient one, or the root of a saga.

    Raises:
        SagaError: It cannot be opened; nothing was.
    """
    outer = ambient_node()
    if outer is not None and not terms.new and not outer.session.is_dead and not outer.is_over:
        if terms.key is not None or terms.store is not None or terms.gate is not None:
            raise ScopeMisuse(
                "a nested scope is a savepoint: key=, store= and gate= belong to the outermost one",
                saga_id=outer.session.saga_id,
                world="nothing was opened",
                next="leave them out, or write new=True for an independent saga",
            )
        return savepoint(outer, terms.name)
    session = await _open_session(io, terms)
    session.asks = Asks(terms.approval_wait or timedelta(0), session.key is not None, terms.tags.get("requester"))
    node = Node(session, None, "", outer=_ambient())
    if node.session.is_replay:
        node.closed = "the saga is committed; only recorded steps answer"
    return node


def watch(holder: object, node: Node) -> None:
    """Have the janitor unwind the root of a saga whose holder is collected before it was ended."""
    if node.parent is None:
        weakref.finalize(holder, _abandon, node).atexit = False


def savepoint(outer: Node, name: str) -> Node:
    """Open a savepoint in a scope."""
    node = Node(outer.session, outer, outer.next_path(), outer=_ambient())
    session = outer.session
    if not session.is_replay:
        session.append(ScopeOpened(node.path, outer.path, name, session.clock.wall()))
    return node


def may_end(node: Node) -> bool:
    """Take the right to end a scope; False where this process has nothing to end."""
    session = node.session
    if session.is_dead or session.is_replay or (node.parent is None and not session.claim_ending()):
        node.is_over = True
        return False
    return True


def _ambient() -> Node | None:
    node = AMBIENT.get()
    if node is not None:
        node.outside()
    return node


async def _open_session(io: Io, terms: Terms) -> Session:
    if terms.store is None or isinstance(terms.store, str):
        store = await io.offload(backend, terms.store)
    else:
        store = backend(terms.store)
    gate = terms.gate or DEFAULT
    if terms.key is None:
        return begin(store, terms.name, gate=gate, tags=terms.tags, stray=terms.stray, clock=terms.clock)
    return await begin_or_resume(
        io,
        store,
        terms.name,
        terms.key,
        terms.if_settled,
        gate=gate,
        tags=terms.tags,
        stray=terms.stray,
        clock=terms.clock,
    )


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
    if type(found) in _backends or isinstance(found, Backend):
        _backends.add(type(found))
        return cast("Backend", found)
    raise ScopeMisuse(
        f"a {type(found).__qualname__} is no store",
        world="nothing was opened",
        next="pass what saga_core.open_store returns, or its URL",
    )
