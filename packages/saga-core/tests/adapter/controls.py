"""Adapters with one fault each, which the scenarios must find."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from saga_core import GateRefused, current_saga
from saga_core.conformance.adapter import Played
from saga_core.conformance.adapter.ledger import Ledger

from .reference import Reference

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from saga_core import Store
    from saga_core.adapter import Session
    from saga_core.conformance.adapter import Form, Script
    from saga_core.conformance.adapter.script import Tool

    from .reference import Around


class WithoutBody(Reference):
    def around(self, session: Session) -> Around:
        return lambda _: nullcontext(session)


class WithoutDrain(Reference):
    def terms(self, store: Store | str | None, key: str | None) -> dict[str, Any]:
        return {**super().terms(store, key), "drain_timeout": timedelta(0)}


class EndingAside(Reference):
    """Nobody waits for the end."""

    def __init__(self) -> None:
        self.endings: set[asyncio.Task[None]] = set()

    async def fail(self, session: Session, error: BaseException) -> None:
        self.endings.add(asyncio.ensure_future(session.end(error)))


class CommittingFailures(Reference):
    async def fail(self, session: Session, error: BaseException) -> None:
        if isinstance(error, Exception):
            session.run_ended()
            error = None  # pyright: ignore[reportAssignmentType] -- the fault
        await session.end(error)

    def fail_sync(self, session: Session, error: BaseException) -> None:
        session.run_ended()
        session.end_sync(None if isinstance(error, Exception) else error)


class CommittingBreaks(Reference):
    async def fail(self, session: Session, error: BaseException) -> None:
        session.run_ended()
        await session.end(None if isinstance(error, GeneratorExit | asyncio.CancelledError) else error)


class SwallowingErrors(Reference):
    def play(self, script: Script, actions: Sequence[Tool], store: Store | str | None, key: str | None) -> Played:
        try:
            return super().play(script, actions, store, key)
        except Exception as error:  # noqa: BLE001 -- the fault
            return Played(str(error), [])

    async def play_async(
        self, script: Script, actions: Sequence[Tool], store: Store | str | None, key: str | None
    ) -> Played:
        try:
            return await super().play_async(script, actions, store, key)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 -- the fault
            return Played(str(error), [])


class ReplacingErrors(Reference):
    def fail_sync(self, session: Session, error: BaseException) -> None:
        super().fail_sync(session, error)
        raise LookupError(str(error)) from error

    async def fail(self, session: Session, error: BaseException) -> None:
        await super().fail(session, error)
        raise LookupError(str(error)) from error


class WithoutNote(Reference):
    def fail_sync(self, session: Session, error: BaseException) -> None:
        super().fail_sync(session, error)
        error.__notes__.clear()

    async def fail(self, session: Session, error: BaseException) -> None:
        await super().fail(session, error)
        error.__notes__.clear()


class HidingReasons(Reference):
    def around(self, session: Session) -> Around:
        @contextmanager
        def body(name: str) -> Generator[None]:
            with session.body(name):
                try:
                    yield
                except GateRefused:
                    raise LookupError("it did not work") from None

        return body


class UndoingAtToolErrors(Reference):
    def around(self, session: Session) -> Around:
        @contextmanager
        def body(name: str) -> Generator[None]:
            with session.body(name):
                try:
                    yield
                except Exception as error:
                    session.latch(str(error))
                    raise

        return body


class OldestFirst(Reference):
    """Each call is a savepoint; a failed run undoes them in the order of their outcomes."""

    def __init__(self) -> None:
        self.parts: list[Session] = []

    def around(self, session: Session) -> Around:
        def body(name: str) -> AbstractContextManager[Any]:
            self.parts.append(session.savepoint(name, place=name))
            return self.parts[-1].body(name)

        return body

    def in_order(self) -> list[Session]:
        def outcome(part: Session) -> int:
            node = part._node  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] -- the fault needs what no adapter sees
            return next(step.order for step in node.session.view.steps.values() if step.scope == node.path)

        return sorted(self.parts, key=outcome)

    def fail_sync(self, session: Session, error: BaseException) -> None:
        for part in self.in_order():
            part.unwind_sync("the run failed")
        super().fail_sync(session, error)

    async def fail(self, session: Session, error: BaseException) -> None:
        for part in self.in_order():
            await part.unwind("the run failed")
        await super().fail(session, error)


class UndoingTwice(Reference):
    """A second engine: it gives back on its own what the session gave back before."""

    def fail_sync(self, session: Session, error: BaseException) -> None:
        super().fail_sync(session, error)
        for line in Ledger.here().lines("land"):
            Ledger.here().take_back(line["effect"], "once more")

    async def fail(self, session: Session, error: BaseException) -> None:
        await super().fail(session, error)
        await asyncio.to_thread(UndoingTwice.fail_sync, self, session, error)


class ForgettingTheScope(Reference):
    def terms(self, store: Store | str | None, key: str | None) -> dict[str, Any]:
        return {"store": store or "memory:", "key": key, "new": True}


class UndoingTheWholeScope(Reference):
    def fail_sync(self, session: Session, error: BaseException) -> None:
        super().fail_sync(session, error)
        around = current_saga()
        if around is not None:
            around.rollback("a run in it failed")

    async def fail(self, session: Session, error: BaseException) -> None:
        await super().fail(session, error)
        around = current_saga()
        if around is not None:
            around.rollback("a run in it failed")


class Forgetful(Reference):
    """It keeps its sagas in memory."""

    def terms(self, store: Store | str | None, key: str | None) -> dict[str, Any]:
        return {**super().terms(store, key), "store": "memory:"}


class NamingAllCallsAlike(Reference):
    """Every call has the same place, so that the second of two equal ones is answered from the log."""

    def around(self, session: Session) -> Around:
        return lambda _: session.body("call")


class OneSagaForAll(Reference):
    """Runs of one agent share a key, and a kept saga is taken up again."""

    def terms(self, store: Store | str | None, key: str | None) -> dict[str, Any]:
        return {"store": store, "key": key or "agent", "if_settled": "return"}


class GoingOn(Reference):
    """Who stops listening stops nothing: the run goes on in a task of its own."""

    tasks: set[asyncio.Task[Played]]

    def __init__(self) -> None:
        self.tasks = set()

    async def break_off(
        self, script: Script, actions: Sequence[Tool], store: Store | str | None, key: str | None
    ) -> None:
        task = asyncio.ensure_future(self.play_async(script, actions, store, key))
        self.tasks.add(task)
        await Ledger.here().until(lambda: bool(Ledger.here().landed))


class WithoutStreams(Reference):
    forms: frozenset[Form] = frozenset({"sync", "async"})
