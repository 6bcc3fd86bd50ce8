"""What the model's log holds, and the state of each step as the model itself folds it: the specification of both."""

from __future__ import annotations

from typing import Literal, NamedTuple

Settling = Literal["probe", "mute", "keyed", "blind"]
"""What can settle a step in doubt: a probe, a probe that never can tell, a keyed undo, or nothing."""

Inverse = Literal["keyed", "asked", "blind"]
"""What can settle an undo in doubt: its key, a probe, or nothing."""


class Kind(NamedTuple):
    """How an action is declared."""

    settling: Settling
    inverse: Inverse


class Record(NamedTuple):
    """One frame.

    Attributes:
        what: The record's kind.
        step: The attempt that it is about, as `position#attempt`; for scopes their path.
        how: For the end of an undo, how it ended; for a savepoint's end, `kept` or `undone`.
        scope: For an intent, the path of its savepoint.
    """

    what: str
    step: str = ""
    how: str = ""
    scope: str = ""


class StepState(NamedTuple):
    """What the records say of an attempt."""

    name: str
    scope: str
    state: str
    order: int = 0
    is_cased: bool = False
    is_stray: bool = False
    is_hold: bool = False

    @property
    def is_unsent(self) -> bool:
        """It is held, and nothing of it stands."""
        return self.is_hold and self.state in {"held", "not_landed"}


class Story(NamedTuple):
    """What the records say of a saga."""

    steps: tuple[StepState, ...]
    ended: str = ""
    is_unwinding: bool = False
    is_committing: bool = False
    is_suspended: bool = False
    doomed_scopes: tuple[str, ...] = ()

    def is_doomed(self, step: StepState) -> bool:
        """Tell whether the step is to be undone."""
        if self.ended == "committed":
            return False
        if self.is_unwinding or (self.is_committing and step.is_stray):
            return True
        return step.scope in self.doomed_scopes


_UNDO_ENDS = {"undone": "undone", "failed": "undo_raised", "conflict": "conflict", "not_landed": "applied"}
_ENDS = ("committed", "rolled_back", "parked")


def tell(records: tuple[Record, ...]) -> Story:  # noqa: C901, PLR0912 -- one line a kind of record
    """Return the story of the records."""
    steps: dict[str, StepState] = {}
    story = Story(())
    outcomes = 0
    for record in records:
        known = steps.get(record.step)
        match record.what:
            case "intended":
                known = StepState(record.step, record.scope, "intended")
            case "held":
                known = StepState(record.step, record.scope, "held", is_hold=True)
            case "released" if known:
                known = known._replace(state="intended")
            case "missed" if known and known.state == "held":
                known = known._replace(state="dropped")
            case "applied":
                outcomes += 1
                is_stray = record.how == "stray"
                known = known or StepState(record.step, "", "")
                known = known._replace(state="applied", order=known.order or outcomes, is_stray=is_stray)
            case "doubted" if known:
                outcomes += 1
                known = known._replace(state="in_doubt", order=known.order or outcomes)
            case "missed" if known:
                known = known._replace(state="not_landed")
            case "undo" if known:
                known = known._replace(state="undoing")
            case "undo ended" if known:
                known = known._replace(state=_UNDO_ENDS[record.how])
            case "case" if known:
                known = known._replace(is_cased=True)
            case "adopted":
                story = story._replace(is_suspended=False)
                outcomes = _take_over(steps, outcomes)
            case "opened":
                doomed = tuple(path for path in story.doomed_scopes if path != record.step)
                story = story._replace(doomed_scopes=doomed)
            case "unwind" if record.step:
                story = story._replace(doomed_scopes=(*story.doomed_scopes, record.step))
            case "unwind":
                story = story._replace(is_unwinding=True, is_committing=False)
            case "committing":
                story = story._replace(is_committing=True)
            case "suspended":
                story = story._replace(is_suspended=True)
            case what if what in _ENDS:
                story = story._replace(ended=what)
            case _:
                pass
        if known is not None and record.what not in {"opened", "closed", "unwind"}:
            steps[record.step] = known
    return story._replace(steps=tuple(steps.values()))


def _take_over(steps: dict[str, StepState], outcomes: int) -> int:
    for name, step in steps.items():
        if step.state == "intended":
            outcomes += 1
            steps[name] = step._replace(state="in_doubt", order=step.order or outcomes)
        elif step.state == "undoing":
            steps[name] = step._replace(state="undo_in_doubt")
    return outcomes


PROVEN = frozenset({"not_landed", "undone", "dropped"})
"""States in which nothing of a step stands in the world."""
