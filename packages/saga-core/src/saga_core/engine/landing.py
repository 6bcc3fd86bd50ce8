"""What became of an effect: asked of the remote where it is in doubt, and logged with its undo bound."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from saga_core import codec
from saga_core.answers import Compensation, Landed, NotLanded, Unknown
from saga_core.clock import SECOND, nanoseconds
from saga_core.engine.asking import ask_again, with_step
from saga_core.engine.case import MAY_BE_HIDDEN, open_case
from saga_core.engine.io import is_interrupt
from saga_core.engine.session import log
from saga_core.plan import declaration_of
from saga_core.records import EMPTY, Applied, Missed
from saga_core.secrets import find, has_suspect, is_doubtful, marker_in, scrub
from saga_core.view import PROVEN, may_hide

if TYPE_CHECKING:
    from collections.abc import Callable

    from saga_core.declaration import Declaration
    from saga_core.engine.io import Io
    from saga_core.engine.session import Session
    from saga_core.view import StepView


async def ask(
    io: Io, session: Session, step: StepView, *, is_stray: Callable[[], bool], is_ending: bool, patience: int
) -> None:
    """Ask the remote whether a step in doubt landed, and log an answer that counts.

    Args:
        io: The driver.
        session: The saga.
        step: The step in doubt.
        is_stray: Tells whether its caller saw it fail; not so where the caller still waits and is given the result.
        patience: Until when somebody waits here, in nanoseconds since boot; an effect that can land later than that is
            asked about behind it.
        is_ending: A remote that cannot tell when it counts makes a case; before the ending it is asked again.
    """
    declared = declaration_of(step)
    assert declared is not None
    assert declared.probe is not None
    asked_up = session.clock.up()
    key = session.key_of(step.position, "do", step.attempt)
    try:
        answer = await with_step(io, session, step, "do", declared.probe, declared.attempt_of(step, key))
    except BaseException as error:
        if is_interrupt(io, error):
            raise
        answer = Unknown(f"the probe raised {type(error).__qualname__}")
    final_up = (step.doubted_up or 0) + step.lands_within
    with session.lock:
        if step.state in {"in_doubt", "not_landed"}:  # else somebody else has asked, and logged the answer, meanwhile
            _log_answer(
                session, step, answer, asked_up, final_up, stray=is_stray(), is_ending=is_ending, patience=patience
            )


def _log_answer(
    session: Session,
    step: StepView,
    answer: Any,
    asked_up: int,
    final_up: int,
    *,
    stray: bool,
    is_ending: bool,
    patience: int,
) -> None:
    if isinstance(answer, Landed):
        land(session, step, declaration_of(step), cast("Landed[Any]", answer).result, stray=stray)
    elif isinstance(answer, NotLanded) and asked_up >= final_up:
        _log_missed(session, step)
    elif isinstance(answer, NotLanded):
        again = ask_again(asked_up, step.doubted_up or 0, final_up)
        session.asked[step.number] = again if final_up <= patience else max(again, min(patience + 1, final_up))
    else:
        reason = (
            codec.words(answer.reason)
            if isinstance(answer, Unknown)
            else f"the probe answered a {type(answer).__qualname__}"
        )
        if asked_up >= final_up and is_ending:
            open_case(session, step, f"it may have landed, and the remote could not tell: {reason}")
        else:
            session.asked[step.number] = ask_again(asked_up, step.doubted_up or 0, final_up)


def _log_missed(session: Session, step: StepView) -> None:
    beside = _standing_beside(session, step)
    steps = session.view.steps
    if step.state == "not_landed" and any(steps[number].state != "applied" for number in beside):
        open_case(session, step, MAY_BE_HIDDEN)
    else:
        session.append(Missed(step.number, session.clock.wall(), "the remote knows nothing of it", beside))


def _standing_beside(session: Session, step: StepView) -> tuple[int, ...]:
    """Return what stands on the same resource: undoing it can bring the lost effect back."""
    return tuple(
        other.number for other in session.view.steps.values() if other.state not in PROVEN and may_hide(other, step)
    )


def land(session: Session, step: StepView, declared: Declaration | None, result: Any, *, stray: bool = False) -> int:
    """Log that a step landed, with its undo bound from what the log holds.

    Raises:
        StoreError: It could not be written.
    """
    at = session.clock.wall()
    problem: str | None = None
    undo: Compensation | None = None
    undo_until: int | None = None
    try:
        frozen = codec.freeze(result)
        plain = codec.read_back(result, frozen)
    except (TypeError, ValueError) as unfit:
        problem = f"its result cannot be recorded: {unfit}"
        frozen, plain = EMPTY, None
    is_scrubbed = not session.is_encrypted and is_doubtful(plain, frozen) and find(plain) is not None
    if is_scrubbed:
        plain = scrub(plain)
        frozen = codec.freeze(plain)
    if declared is not None and problem is None and declared.undo is not None:
        try:
            call = declared.call_of(step, (session.saga_id, step.intent.position, "do", step.intent.attempt), plain)
            undo = codec.bound(declared.undo(call))
            undo_until = None if declared.undo_within is None else _deadline(declared.undo_within, call, at)
        except Exception as error:  # noqa: BLE001 -- the effect stands whatever the user's undo raises
            problem = f"its undo could not be derived: {type(error).__qualname__} in the undo of {step.action!r}"
            log.debug("saga %s step %d %s", session.saga_id, step.number, problem, exc_info=error)
            undo = None
    if undo is not None and (is_scrubbed or has_suspect(tuple(undo.args))) and not session.is_encrypted:
        secret = find(dict(undo.args)) or marker_in(dict(undo.args))
        if secret is not None:
            problem = f"its undo needs a secret, which only an encrypted store may hold ({secret})"
            undo = None
    if undo is None and problem is None and step.reversibility in {"reversible", "compensable"}:
        problem = "it landed, and no undo is declared for it"
    record = Applied(step.intent.step, at, frozen, undo, undo_until, problem, stray)
    position = session.append_outcome(record)
    if problem is not None:
        open_case(session, step, problem)
    elif stray and session.view.leaves_strays and not session.view.is_doomed(step):
        open_case(session, step, "it landed after it had failed towards its caller")
    return position


def _deadline(within: Any, call: Any, wall: int) -> int | None:
    if isinstance(within, timedelta):
        return wall + nanoseconds(within)
    until = within(call)
    return None if until is None else int(until.timestamp() * SECOND)
