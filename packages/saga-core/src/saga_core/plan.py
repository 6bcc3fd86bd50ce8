"""What to do next about a saga: one pure function from state and time to a move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from saga_core import registry
from saga_core.clock import SECOND
from saga_core.view import OPEN, PROVEN, is_proven

KEY_LIFE = 24 * 3600 * SECOND
"""For how long a remote is taken to know an idempotency key: a held effect is sent again under its own only so long."""

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from saga_core.answers import Compensation
    from saga_core.declaration import Declaration
    from saga_core.inverse import Inverse
    from saga_core.types import StepState
    from saga_core.view import SagaView, StepView

MAX_TRIALS = 6
"""How often an undo that raises is tried before a person is asked."""

_UNDO_AHEAD = frozenset({"applied", "undoing", "undo_in_doubt", "undo_pending"})

_UNSETTLED = frozenset({"intended", "in_doubt", "undoing", "undo_in_doubt", "undo_pending", "undo_failed", "conflict"})

_STUCK: frozenset[StepState] = frozenset({"conflict", "undo_failed"})

MoveKind = Literal["ask", "undo", "undo_unasked", "ask_undo", "observe", "drop", "send", "case", "wait", "done"]


class Move(NamedTuple):
    """The next thing to do.

    Attributes:
        kind: `ask` whether a step landed, `undo` it, `undo_unasked` by its keyed inverse although nobody knows whether
            it landed, `ask_undo` whether an undo landed, `observe` a pending undo, `drop` a hold of what is
            undone, `send` a held effect of what is committed, open a `case`, `wait` until `due`
            (nanoseconds since boot; None: until a running effect ends) or `done`.
        step: The step concerned.
        words: For a case, what a person must know.
        due: For a wait, when something is to be done.
    """

    kind: MoveKind
    step: StepView | None = None
    words: str = ""
    due: int | None = None


def inverse_of(step: StepView) -> Inverse[Any] | None:
    """Return the registered inverse that the step's undo names."""
    return None if step.undo is None else registry.INVERSES.get(step.undo.inverse)


def declaration_of(step: StepView) -> Declaration | None:
    """Return the registered action of a step."""
    return registry.ACTIONS.get(step.action)


def uncased(view: SagaView) -> list[StepView]:
    """Return the steps that somebody has to look at, and of which no open case tells."""
    cased = {case.step for case in view.open_cases}
    return [
        step
        for step in view.steps.values()
        if (step.state in OPEN | _STUCK or (view.unwinding and not is_proven(step) and step.state in PROVEN))
        and step.number not in cased
    ]


def unmet(view: SagaView) -> list[str]:
    """Return, in words, the handlers that the saga's pending work needs and this process lacks."""
    lacking: list[str] = []
    for step in view.steps.values():
        if step.is_hold:
            lacking += _unsendable(view, step)
        elif step.state in {"intended", "in_doubt"}:
            declared = declaration_of(step)
            if declared is None:
                lacking.append(f"action {step.action!r}")
            elif declared.probe is None and step.keyed_undo is not None:
                lacking += _misfit(step.keyed_undo)
        elif step.undo is not None and view.ended != "committed" and step.state in _UNDO_AHEAD:
            lacking += _misfit(step.undo)
    return sorted(set(lacking))


def _unsendable(view: SagaView, step: StepView) -> list[str]:
    if view.ended != "committed" or not (step.is_unsent or step.state in {"intended", "in_doubt"}):
        return []
    why = unfit(step)
    return [] if why is None else [f"action {step.action!r} ({why})"]


def unfit(step: StepView) -> str | None:
    """Return why a held effect cannot be sent by this process; None where it can."""
    declared = declaration_of(step)
    if declared is None or not declared.hold:
        return "is not registered" if declared is None else "is not declared as held here"
    try:
        declared.recorded(step)
    except TypeError as misfit:
        return str(misfit)
    return None


def _misfit(undo: Compensation) -> list[str]:
    handler = registry.INVERSES.get(undo.inverse)
    why = "is not registered" if handler is None else handler.fits(undo)
    return [] if why is None else [f"inverse {undo.inverse!r} ({why})"]


def next_move(
    view: SagaView, *, up: int, wall: int, asked: Mapping[int, int], within: Callable[[StepView], bool] = lambda _: True
) -> Move:
    """Decide the next move.

    Steps are taken newest outcome first. A step that cannot be settled now holds up only steps of its own resource.
    Behind a commit, once nothing is in doubt, the held effects are sent, oldest first.

    Args:
        view: The saga.
        up: Now, in nanoseconds since boot.
        wall: Now, in nanoseconds since 1970.
        asked: When each step in doubt may be asked about again, in nanoseconds since boot.
        within: Which steps are concerned: those of a savepoint, or all.
    """
    cased = {case.step for case in view.cases if case.open}
    blocked: set[str] = set()
    due: int | None = None
    waiting = False
    for step in _pending(view, within):
        label = step.resource
        if label is not None and label in blocked:
            waiting = waiting or step.number not in cased
            continue
        if step.number in cased:
            move = None
        elif step.number in view.running:
            move = Move("wait")
        elif (doubtful := _doubtful_neighbour(view, step, cased)) is not None:
            move = _move(view, doubtful, up, wall, asked)
        else:
            move = _move(view, step, up, wall, asked)
        if move is not None and move.kind != "wait":
            return move
        if label is not None:
            blocked.add(label)
        if move is not None:
            waiting = True
            if move.due is not None:
                due = move.due if due is None else min(due, move.due)
    if waiting and (due is not None or view.running):
        return Move("wait", due=due)
    return _forward(view, up, wall, asked)


def _forward(view: SagaView, up: int, wall: int, asked: Mapping[int, int]) -> Move:
    """Return what is to be done about the first held effect of a committed saga that is not settled yet.

    Whatever a person has to settle comes before it: it may be what the effect would tell of.
    """
    if view.ended != "committed" or not view.has_holds or view.open_cases:
        return Move("done")
    for step in view.steps.values():
        if not step.is_hold and step.state in OPEN:
            return Move("done")
    first = next((s for s in view.steps.values() if s.is_unsent or (s.is_hold and s.state in OPEN)), None)
    if first is None:
        return Move("done")
    if first.number in view.running:
        return Move("wait")
    if first.state == "in_doubt":
        return _doubted_hold(first, up, wall, asked)
    if first.trials >= MAX_TRIALS:
        return Move("case", first, f"it was tried {first.trials} times and did not land: {first.words}")
    return _when(asked.get(first.number, 0), up, Move("send", first))


def _doubted_hold(step: StepView, up: int, wall: int, asked: Mapping[int, int]) -> Move:
    declared = declaration_of(step)
    if declared is None:
        return Move("case", step, "it may have landed, and its action is not registered here")
    may_repeat = declared.replay and step.trials < MAX_TRIALS and wall - (step.released_at or 0) < KEY_LIFE
    due = asked.get(step.number, 0)
    if declared.probe is not None and not (may_repeat and step.number in asked):
        return _when(due, up, Move("ask", step))
    if may_repeat:
        return _when(due, up, Move("send", step))
    if declared.replay:
        return Move("case", step, f"it may have landed, and was sent {step.trials} times under its key: {step.error}")
    return Move("case", step, "it may have landed, and nothing is declared that could ask")


def _pending(view: SagaView, within: Callable[[StepView], bool]) -> Iterable[StepView]:
    found = [
        step
        for step in view.steps.values()
        if within(step)
        and (
            (step.state in _UNSETTLED and not step.is_hold)
            or (step.state == "held" and view.is_doomed(step))
            or (step.state == "applied" and view.is_doomed(step))
            or is_reopened(view, step)
        )
    ]
    found.sort(key=lambda step: step.order or len(view.steps) + step.number, reverse=True)
    return found


def is_reopened(view: SagaView, step: StepView) -> bool:
    """A step once found not landed is asked again when its neighbours are undone, as far as they can be."""
    if step.state != "not_landed" or not step.beside:
        return False
    cased = {case.step for case in view.open_cases}
    beside = [view.steps[number] for number in step.beside]
    is_moving = any(
        (other.state in OPEN or (other.state == "applied" and view.is_doomed(other))) and other.number not in cased
        for other in beside
    )
    return not is_moving and any(other.state != "applied" for other in beside)


def _doubtful_neighbour(view: SagaView, step: StepView, cased: set[int | None]) -> StepView | None:
    """Return a step in doubt that ran beside this one on the same resource: it is settled first."""
    if step.resource is None or step.state != "applied":
        return None
    for number in step.overlaps:
        other = view.steps[number]
        if other.resource == step.resource and other.state == "in_doubt" and number not in cased:
            return other
    return None


def _move(view: SagaView, step: StepView, up: int, wall: int, asked: Mapping[int, int]) -> Move | None:
    match step.state:
        case "in_doubt" | "not_landed":
            return _settle(view, step, up, asked)
        case "held":
            return Move("drop", step)
        case "applied":
            return _undo(step, wall)
        case "undo_in_doubt":
            return _repeat(step, up, asked)
        case "undo_pending":
            handler = inverse_of(step)
            if handler is None or handler.observe_fn is None:
                return Move("case", step, "its undo is accepted, not settled, and nothing is declared to look again")
            return _when(step.undo_up + step.undo_wait, up, Move("observe", step))
        case _:
            return None


def _when(due: int, up: int, move: Move) -> Move:
    return move if up >= due else Move("wait", due=due)


def _settle(view: SagaView, step: StepView, up: int, asked: Mapping[int, int]) -> Move:
    declared = declaration_of(step)
    if declared is not None and declared.probe is not None:
        return _when(asked.get(step.number, 0), up, Move("ask", step))
    if step.keyed_undo is not None and view.is_doomed(step):
        return _when((step.doubted_up or 0) + step.lands_within, up, Move("undo_unasked", step))
    why = "its action is not registered here" if declared is None else "nothing is declared that could ask"
    return Move("case", step, f"it may have landed, and {why}")


def _undo(step: StepView, wall: int) -> Move:
    if step.undo is None:
        return Move("case", step, step.problem or "it landed, and no undo was recorded")
    if step.undo_until is not None and wall >= step.undo_until:
        return Move("case", step, "it landed, and the time within which it can be undone has passed")
    if step.trials >= MAX_TRIALS:
        return Move("case", step, f"its undo was tried {step.trials} times: {step.words}")
    return Move("undo", step)


def _repeat(step: StepView, up: int, asked: Mapping[int, int]) -> Move:
    handler = inverse_of(step)
    if handler is None:
        return Move("case", step, "its undo may have landed, and its inverse is not registered here")
    if step.trials >= MAX_TRIALS:
        return Move("case", step, f"its undo failed {step.trials} times: {step.words}")
    due = asked.get(step.number, 0)
    if step.undo_raised:
        due = max(due, step.undo_up + step.undo_wait)
    if handler.probe_fn is not None:
        return _when(due, up, Move("ask_undo", step))
    if step.undo_raised or handler.keyed:
        return _when(due, up, Move("undo", step))
    return Move("case", step, "its undo was cut short, and nothing is declared that could tell whether it landed")
