"""`saga_scope`: the block inside which what an agent does can be undone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from saga_core.engine.context import AMBIENT
from saga_core.engine.io import ASYNC, SYNC, drive, on_loop_thread
from saga_core.engine.leaving import leave, leave_on_loop
from saga_core.engine.saga import Saga
from saga_core.engine.terms import HALF_A_MINUTE, NO_TAGS, Terms, may_end, open_node, refuse_unfit, watch
from saga_core.errors import ScopeMisuse

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from saga_core.engine.io import Io
    from saga_core.engine.node import Node
    from saga_core.gate import Gate
    from saga_core.stores import Store


class Scope:
    """What `saga_scope` returns: good for one `with` or `async with`."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._limits = terms.limits
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
        self._node = node = await open_node(io, self._terms)
        watch(self, node)
        AMBIENT.set(node)
        return Saga(node, self._terms.name)

    def _close(self) -> Node | None:
        """Leave the ambient scope; None where this process has nothing to end."""
        node = self._node
        if node is None:
            return None
        if AMBIENT.get() is node:
            AMBIENT.set(node.outside())
        else:
            node.is_left_early = True
        return node if may_end(node) else None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        node = self._close()
        if node is not None:
            leave(node, error, self._limits)

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        node = self._close()
        if node is not None:
            await leave_on_loop(node, error, self._limits)


def saga_scope(
    name: str = "saga",
    /,
    *,
    key: str | None = None,
    if_settled: Literal["raise", "new", "return"] = "raise",
    new: bool = False,
    store: Store | str | None = None,
    gate: Gate | None = None,
    tags: Mapping[str, str] = NO_TAGS,
    approval_wait: timedelta | None = None,
    mode: Literal["enforce", "record"] | None = None,
    stray: Literal["undo", "case"] = "undo",
    drain_timeout: timedelta = HALF_A_MINUTE,
    unwind_timeout: timedelta = HALF_A_MINUTE,
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
        tags: Names and values to find the saga by; `requester` names who may not approve its calls.
        approval_wait: How long a call waits in place for a person's decision. After that, or at once by default, it
            raises `ApprovalPending`: leaving the scope with it suspends the saga, and a later scope of the same key
            goes on once somebody has decided. Without a key the call is refused instead.
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
    terms = Terms(
        name, key, if_settled, new, store, gate, tags, stray, drain_timeout, unwind_timeout, approval_wait=approval_wait
    )
    refuse_unfit(terms)
    return Scope(terms)
