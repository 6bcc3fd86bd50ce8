"""Held effects: staged by a call, sent behind the commit, dropped with what is undone."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from saga_core import codec
from saga_core.answers import Receipt
from saga_core.clock import SECOND
from saga_core.engine.asking import pause, with_step
from saga_core.engine.case import open_case
from saga_core.engine.context import STEP
from saga_core.engine.io import is_interrupt
from saga_core.engine.session import log
from saga_core.errors import StoreError
from saga_core.plan import declaration_of, unfit
from saga_core.records import EMPTY, Applied, Doubted, Held, Missed, Released

if TYPE_CHECKING:
    from msgspec import Raw

    from saga_core.declaration import Declaration
    from saga_core.engine.invocation import Invocation
    from saga_core.engine.io import Io
    from saga_core.engine.judge import Money
    from saga_core.engine.session import Session
    from saga_core.view import StepView


def stage(call: Invocation, position: str, attempt: int, frozen: Raw, asked: Raw, money: Money) -> StepView:
    """Write that a call is staged, under the session's lock; the barrier of the commit makes it durable.

    A hold that is lost before the commit record is the hold of a saga that did not commit: it never happens.

    Raises:
        StoreError: It could not be written.
    """
    session, declared, outer = call.session, call.declared, STEP.get()
    is_child = outer is not None and outer.saga_id == session.saga_id and not outer.is_over
    number = session.next_step()
    session.write(
        Held(
            number,
            session.clock.wall(),
            declared.name,
            declared.version,
            declared.reversibility,
            call.node.path,
            position,
            attempt,
            outer.number if outer is not None and is_child else None,
            frozen,
            asked,
            declared.tier,
            declared.lands_for,
            amount=money.text,
            currency=money.currency,
        )
    )
    log.info("saga %s step %d %s is held until the commit", session.saga_id, number, declared.name)
    return session.view.steps[number]


def receipt(session: Session, step: StepView) -> Receipt:
    """Return what the caller of a held action is given, the same whenever the program runs again."""
    words = (
        f"{step.action} is staged, not done: it happens when this run commits, and not at all if the run fails. "
        "Do not call it again."
    )
    return Receipt(f"{session.saga_id}#{step.number}", step.action, words)


def drop(session: Session, step: StepView) -> None:
    """Log that a hold goes with what is undone around it."""
    session.append_outcome(Missed(step.number, session.clock.wall(), "dropped with the run, never sent"))
    log.info("saga %s step %d %s: the hold is dropped, never sent", session.saga_id, step.number, step.action)


async def send(io: Io, session: Session, step: StepView) -> None:
    """Run a held effect of a committed saga, once it is durable that it may start, and log what became of it.

    Raises:
        StoreError: The log can no longer be written.
    """
    misfit = unfit(step)
    declared = declaration_of(step)
    if declared is None or misfit is not None:
        open_case(session, step, f"it was not sent: its action {misfit}")
        return
    arguments = declared.recorded(step)
    attempt, is_again = step.attempt + (step.state == "not_landed"), step.state == "in_doubt"
    session.asked.pop(step.number, None)
    written = session.append(Released(step.number, session.clock.wall(), attempt, step.trials + 1))
    try:
        await io.barrier(session.log, written)
    except BaseException as error:
        with suppress(StoreError):
            _never_sent(session, step, f"the wait for the disk ended by {type(error).__qualname__}", is_again=is_again)
        raise
    sending = _Sending(session, step, declared, is_again=is_again)
    try:
        await with_step(io, session, step, "do", sending.effect, **arguments)
    except BaseException as error:
        sending.call_off()
        if isinstance(error, Exception) or is_interrupt(io, error):
            raise
    if declared.probe is None and not declared.replay:
        await io.barrier(session.log, session.written)
    else:
        session.log.sync_soon()  # were it lost, the effect would be asked about, or sent again under its key


def _never_sent(session: Session, step: StepView, why: str, *, is_again: bool) -> None:
    """Log that nothing was sent now; what was sent before under the same key stays in doubt."""
    clock = session.clock
    if is_again:
        session.append_outcome(Doubted(step.number, clock.wall(), clock.up(), f"not sent again: {why}"))
    else:
        session.append_outcome(Missed(step.number, clock.wall(), f"never sent: {why}"))


class _Sending:
    """One run of a held effect, which logs its own end: its thread can outlast whoever waits for it."""

    def __init__(self, session: Session, step: StepView, declared: Declaration, *, is_again: bool) -> None:
        self._session = session
        self._step = step
        self._declared = declared
        self._is_again = is_again
        self._beginning = threading.Lock()
        self._is_begun = False
        self._is_off = False
        self._flight = session.enter(step.scope, step.number)
        self.effect = self._run_async if declared.is_async else self._run

    def call_off(self) -> None:
        """Let the effect not begin any more; one that has begun goes on."""
        with self._beginning:
            if self._is_begun or self._is_off:
                return
            self._is_off = True
        try:
            with suppress(StoreError):
                _never_sent(self._session, self._step, "the wait for it ended first", is_again=self._is_again)
        finally:
            self._session.leave(self._flight)

    def _begin(self) -> bool:
        with self._beginning:
            self._is_begun = not self._is_off
            return self._is_begun

    def _run(self, **arguments: Any) -> None:
        if not self._begin():
            return
        try:
            try:
                result = self._declared.fn(**arguments)
            except BaseException as error:
                self._failed(error)
                if not isinstance(error, Exception):
                    raise
            else:
                self._landed(result)
        finally:
            self._session.leave(self._flight)

    async def _run_async(self, **arguments: Any) -> None:
        if not self._begin():
            return
        try:
            try:
                result = await self._declared.fn(**arguments)
            except BaseException as error:
                self._failed(error)
                if not isinstance(error, Exception):
                    raise
            else:
                self._landed(result)
        finally:
            self._session.leave(self._flight)

    def _landed(self, result: Any) -> None:
        session, step = self._session, self._step
        try:
            frozen = codec.freeze(result)
        except (TypeError, ValueError):  # nobody asks for it: what its caller was given is the receipt
            frozen = EMPTY
        session.append_outcome(Applied(step.number, session.clock.wall(), frozen, None))
        log.info("saga %s step %d %s: the held effect landed", session.saga_id, step.number, step.action)

    def _failed(self, error: BaseException) -> None:
        session, step, clock = self._session, self._step, self._session.clock
        kind = type(error).__qualname__
        log.warning("saga %s step %d %s: the held effect raised %s", session.saga_id, step.number, step.action, kind)
        log.debug("saga %s step %d", session.saga_id, step.number, exc_info=error)
        is_proven = self._declared.proves_not_landed(error) and not self._is_again  # an earlier one may be on its way
        if is_proven or self._declared.probe is None:
            session.asked[step.number] = clock.up() + int(pause(error, step.trials, clock.jitter) * SECOND)
        record: Missed | Doubted = Doubted(step.number, clock.wall(), clock.up(), kind)
        if is_proven:
            record = Missed(step.number, clock.wall(), f"{kind} proves it")
        session.append_outcome(record)
