"""`crew_saga`: the block around a kickoff."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from crewai.hooks.dispatch import scoped_hooks

from saga_core.adapter import Session
from saga_core.errors import ScopeMisuse
from saga_crewai.errors import SagaFailed
from saga_crewai.watch import WATCH, Watch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from saga_core import Gate, Saga, Store

__all__ = ["crew_saga"]

_NO_TAGS: Mapping[str, str] = {}
_HALF_A_MINUTE = timedelta(seconds=30)


class CrewScope:
    """What `crew_saga` returns: good for one `with` or `async with`."""

    def __init__(self, name: str, terms: dict[str, Any]) -> None:
        self._name = name
        self._terms = terms
        self._session: Session | None = None

    def __enter__(self) -> Saga:
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            raise ScopeMisuse(
                "`with crew_saga()` on the thread of a running event loop would block it",
                world="nothing was opened",
                next="write `async with crew_saga()` and await kickoff_async() or akickoff()",
            )
        self._refuse_again()
        return self._begin(Session.open_sync(self._name, **self._terms))

    async def __aenter__(self) -> Saga:
        self._refuse_again()
        return self._begin(await Session.open(self._name, **self._terms))

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        session, failed = self._leave(error)
        session.end_sync(failed or error)
        if failed is not None:
            raise _told(failed, session) from self._cause(error)

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        session, failed = self._leave(error)
        await session.end(failed or error)
        if failed is not None:
            raise _told(failed, session) from self._cause(error)

    def _refuse_again(self) -> None:
        if self._session is not None:
            raise ScopeMisuse(
                "a scope is good for one block", world="nothing was opened", next="call crew_saga() again"
            )

    def _begin(self, session: Session) -> Saga:
        self._session = session
        self._watch, self._outer = Watch(session), WATCH.get()
        WATCH.set(self._watch)
        self._body, self._scope = session.body(), scoped_hooks(self._watch.hooks())
        self._scope.__enter__()
        return self._body.__enter__()

    def _leave(self, error: BaseException | None) -> tuple[Session, SagaFailed | None]:
        """Leave the context, and return the error that the block has to raise instead of ending well."""
        session = self._session
        assert session is not None
        self._body.__exit__(None, None, None)
        self._watch.stop_models()  # a crew may still run in threads of its own
        if WATCH.get() is self._watch:
            WATCH.set(self._outer)
        try:
            self._scope.__exit__(None, None, None)
        except ValueError:  # left in another context than it was entered in, where nothing can be taken back
            self._watch.close()
        if not self._watch.stopped(error) and (error is not None or not self._watch.is_failed):
            return session, None
        return session, SagaFailed(f"the crew failed: {session.latched}", saga_id=session.saga.id)

    def _cause(self, error: BaseException | None) -> BaseException | None:
        return error or self._watch.cause


def _told(failed: SagaFailed, session: Session) -> SagaFailed:
    failed.world, failed.report = session.notice(), session.report
    failed.next = f"saga show {session.saga.id}"
    return failed


def crew_saga(
    name: str = "crew",
    /,
    *,
    key: str | None = None,
    if_settled: Literal["raise", "new", "return"] = "raise",
    store: Store | str | None = None,
    gate: Gate | None = None,
    tags: Mapping[str, str] = _NO_TAGS,
    stray: Literal["undo", "case"] = "undo",
    drain_timeout: timedelta = _HALF_A_MINUTE,
    unwind_timeout: timedelta = _HALF_A_MINUTE,
) -> CrewScope:
    """Return a scope, for `with` or `async with`, around any kickoff of a crew, an agent or a flow.

    What the tools of `saga_tools` do inside stays if the block succeeds. It is undone, newest first, if an error leaves
    the block; if a run that began inside has not ended, as when a stream was broken off; or if it was decided: by
    `saga.rollback(...)`, by a tool that failed under `tool_failure_policy="raise"`, or because the log could take no
    more. After such a decision no tool and no model is called any more, and the block raises `SagaFailed`, even where
    CrewAI made an answer of the failure. Effects that still run in threads are waited for first. Inside another scope
    this is a savepoint, and `key`, `store` and `gate` are that one's.

    Args:
        name: What the saga is for, for people.
        key: Names the saga, so that a later run resumes it.
        if_settled: What to do when the saga of the key is committed: raise, begin a new one, or return its results.
        store: A store or its URL; default SAGA_STORE, else `file:.saga`.
        gate: The rules that every call passes; the built-in ones always stand.
        tags: Names and values to find the saga by.
        stray: What the commit does with a step that failed towards its caller and landed: undo it, or open a case.
        drain_timeout: How long the end waits for effects that still run.
        unwind_timeout: How long the end undoes in the caller's sight; the rest goes on in the background.

    Raises:
        SagaFailed: The crew was stopped, or ended well although it had failed; everything is unwound.
        ScopeMisuse: It cannot be opened like this.
        SagaBusy: Another process owns the saga of the key.
        SagaClosed: The saga of the key is committed.
        SagaUnsettled: The saga of the key waits for recovery or a person.
        StoreError: The store is missing, read-only or full.
    """
    return CrewScope(
        name,
        {
            "key": key,
            "if_settled": if_settled,
            "store": store,
            "gate": gate,
            "tags": tags,
            "stray": stray,
            "drain_timeout": drain_timeout,
            "unwind_timeout": unwind_timeout,
        },
    )
