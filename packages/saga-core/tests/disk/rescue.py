"""What is done after a crash: the store is opened, everything is read and judged, taken over, ended and put away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saga_core import records
from saga_core.errors import SagaError

from .actor import Actor
from .witness import Promise, Violation, judge

if TYPE_CHECKING:
    from .stage import Stage
    from .witness import Witness

_ENDS = (records.Committed, records.RolledBack)


def rescue(stage: Stage, witness: Witness, *, process: str, is_faulty: bool = False) -> None:
    """Judge every log of the machine, and end every saga.

    Args:
        stage: The stage, with the machine as it came back.
        witness: What was promised before.
        process: Who does it.
        is_faulty: A fault is planted into the rescue: what it cannot do it may leave, and what it reads still counts.

    Raises:
        Violation: The store broke a promise.
    """
    actor = Actor(stage, witness, process)
    is_sound = not is_faulty
    if not actor.open():
        _refuse(is_sound, "the store cannot be opened")
        return
    try:
        _rescue(stage, witness, actor, is_sound=is_sound)
    finally:
        actor.end()


def _rescue(stage: Stage, witness: Witness, actor: Actor, *, is_sound: bool) -> None:
    try:
        listed = [*actor.store.open_sagas()]
        done = [*actor.store.done_sagas()]
    except (SagaError, KeyboardInterrupt):
        _refuse(is_sound, "the store cannot be listed")
        return
    foreign = {*listed, *done} - {*witness.promises}
    if foreign:
        raise Violation(f"sagas that nobody began: {sorted(foreign)}")
    for (key, _), saga in stage.machine.keys.items():
        if is_sound and actor.store.read(saga) is None:
            raise Violation(f"the log of saga {saga}, which holds key {key!r}, is gone")
    for saga in list(witness.promises):
        _end(stage, witness, actor, saga, is_sound=is_sound)


def _end(stage: Stage, witness: Witness, actor: Actor, saga: str, *, is_sound: bool) -> None:
    """Judge a saga, end it as recovery would, and judge it again."""
    promise = witness.promises.get(saga, Promise())
    try:
        reading = actor.store.read(saga)
    except (SagaError, KeyboardInterrupt):
        _refuse(is_sound, f"saga {saga} cannot be read")
        return
    judge(saga, promise, reading)
    if reading is None or reading.settled or reading.damage is not None:
        return
    witness.take_over(saga, reading.records)
    last = reading.records[-1] if reading.records else None
    if last is None or isinstance(last, _ENDS):
        actor.claim(saga)
    elif not isinstance(last, records.Suspended):
        number = 1000 + len(reading.records)
        if actor.adopt(saga, number):
            actor.append(saga, records.UnwindBegan("", "the test", number), records.RolledBack(number))
            actor.sync(saga)
    actor.settle(saga)
    try:
        after = actor.store.read(saga)
    except (SagaError, KeyboardInterrupt):
        _refuse(is_sound, f"saga {saga} cannot be read")
        return
    judge(saga, witness.promises[saga], after)
    if is_sound and after is not None and not after.settled and not isinstance(last, records.Suspended):
        raise Violation(f"saga {saga} could not be ended after the crash")


def _refuse(is_sound: bool, what: str) -> None:  # noqa: FBT001 -- read in place
    if is_sound:
        raise Violation(what)
