"""What the log already knows of a call: the same position, or the same call in doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saga_core import codec
from saga_core.engine.landing import ask
from saga_core.errors import StepInDoubt, StepMismatch

if TYPE_CHECKING:
    from msgspec import Raw

    from saga_core.declaration import Declaration
    from saga_core.engine.invocation import Invocation
    from saga_core.engine.session import Session
    from saga_core.view import StepView

_SECOND = 1_000_000_000
_SETTLE_WITHIN = 2.0
_PAUSE = 50_000_000


async def recall(call: Invocation, position: str, asked: Raw) -> StepView | None:
    """Return the step that stands at the position, settled if it was in doubt; None for a new one.

    Raises:
        StepMismatch: It was another call.
        StepInDoubt: Whether it, or the same call elsewhere, landed cannot be told now.
    """
    view = call.session.view
    known = view.positions.get(position)
    if known is None:
        if (view.in_doubt or call.session.unattended) and call.label is None:
            await _refuse_repeat(call, asked)
        return None
    if not _is_same(call.declared, known, asked):
        raise StepMismatch(
            f"step {known.number} at {position!r} is recorded with other arguments",
            saga_id=call.session.saga_id,
            world="nothing was called",
            next="give the call a position of its own: action.at(...)",
        )
    if known.is_hold and not known.is_dropped and not view.is_doomed(known):
        return known
    if known.state == "in_doubt":
        await settle(call, known, stray=False)
    if known.state == "not_landed" and call.label is None:
        known = _retried(call, known, asked)
    if known.state == "applied" and view.is_doomed(known):
        raise _doubt(call.session, known, "is being undone")
    if known.state in {"applied", "not_landed", "undone"} or (known.state == "in_doubt" and call.declared.replay):
        return known
    raise _doubt(call.session, known)


def _retried(call: Invocation, step: StepView, asked: Raw) -> StepView:
    """Return the recorded retry of a call that did not land, where a program that begins again comes to the first one.

    The retry took the next position when it was made. This run takes it over, so that what it did is not done twice.
    """
    view, node, name = call.session.view, call.node, call.declared.name
    while step.state == "not_landed":
        with call.session.lock:
            later = view.positions.get(node.next_position(name))
            if later is None or later.number > node.newest or not _is_same(call.declared, later, asked):
                break
            node.position(name, None)
        step = later
    return step


async def settle(call: Invocation, step: StepView, *, stray: bool) -> None:
    """Ask about a step in doubt for two seconds at the most."""
    if call.declared.probe is None:
        return
    session = call.session
    until = session.clock.up() + int(_SETTLE_WITHIN * _SECOND)
    is_left = stray

    def is_stray() -> bool:
        return is_left

    while step.state == "in_doubt":
        left = (until - session.clock.up()) / _SECOND
        question = ask(call.io, session, step, is_stray=is_stray, is_ending=False, patience=until)
        if not await call.io.bounded(question, left):
            with session.lock:  # an answer that is being logged is waited for, and is the caller's
                is_left = True  # it goes on without one that comes later
            return
        due = max(session.asked.get(step.number, 0), session.clock.up() + _PAUSE)
        if step.state != "in_doubt" or due > until:
            return
        await call.io.sleep((due - session.clock.up()) / _SECOND)


async def _refuse_repeat(call: Invocation, asked: Raw) -> None:
    """Refuse a call whose equal is in doubt: sending it again could double the effect."""
    view = call.session.view
    for number in sorted(view.in_doubt | call.session.unattended):
        step = view.steps[number]
        if step.action != call.declared.name or not _is_same(call.declared, step, asked):
            continue
        await settle(call, step, stray=True)
        if step.state in {"intended", "in_doubt"}:
            raise _doubt(call.session, step)


def _is_same(declared: Declaration, step: StepView, asked: Raw) -> bool:
    recorded, now = codec.thaw(step.asked), codec.thaw(asked)
    if declared.identity is None:
        return recorded == now
    return all(recorded.get(name) == now.get(name) for name in declared.identity)


def _doubt(session: Session, step: StepView, is_what: str | None = None) -> StepInDoubt:
    is_what = is_what or f"is {step.state.replace('_', ' ')}"
    return StepInDoubt(
        f"{step.action!r} was not called again: step {step.number} is the same call and {is_what}",
        saga_id=session.saga_id,
        world="nothing was called now; the earlier call may have landed",
        next="do not repeat it: it is settled when the scope ends. A second, different effect needs action.at(...)",
    )
