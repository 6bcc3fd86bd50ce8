"""A saga's state as values: its steps, cases and savepoints, and what they say together."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from saga_core.records import EMPTY

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from msgspec import Raw

    from saga_core.answers import Compensation
    from saga_core.records import Adopted, Answered, Asked, Began, CaseOpened, CaseResolved, Intended, Refused
    from saga_core.types import SagaState, StepState

NO_FACTS: Mapping[str, Any] = MappingProxyType({})
"""The notes of a step that noted nothing."""

PROVEN: frozenset[StepState] = frozenset({"refused", "not_landed", "undone"})
"""Step states in which nothing of the step stands in the world."""

OPEN: frozenset[StepState] = frozenset({"intended", "in_doubt", "undoing", "undo_in_doubt", "undo_pending"})
"""Step states that something still has to be found out about."""


def is_proven(step: StepView) -> bool:
    """Tell whether nothing of the step stands in the world; a neighbour undone since can have brought it back."""
    return step.state in PROVEN and not (step.state == "not_landed" and step.beside)


def is_over(step: StepView) -> bool:
    """Tell whether nothing of the step stands in the world, but on purpose."""
    return is_proven(step) or step.state == "left_in_place"


def is_within(path: str, outer: str) -> bool:
    """Tell whether a scope path is the outer one or inside it."""
    return not outer or path == outer or path.startswith(outer + ".")


def may_hide(other: StepView, step: StepView) -> bool:
    """Tell whether the other step, where it stands, can stand on top of this one: it changed the same thing later."""
    if step.resource is None or other.resource != step.resource:
        return False
    return other.number > step.number or other.number in step.overlaps


class StepView:
    """One step as the records so far tell it: its intent, and what became of it."""

    state: StepState = "intended"
    notes: Mapping[str, Any] = NO_FACTS
    result: Raw | None = None
    undo: Compensation | None = None
    undo_until: int | None = None
    problem: str | None = None
    applied_at: int | None = None
    order: int = 0
    overlaps: AbstractSet[int] = frozenset()
    doubted_up: int | None = None
    error: str | None = None
    stray: bool = False
    beside: tuple[int, ...] = ()
    trials: int = 0
    undo_at: int | None = None
    undo_ended_at: int | None = None
    undo_key: str | None = None
    undo_raised: bool = False
    undo_up: int = 0
    undo_wait: int = 0
    undo_ref: str | None = None
    words: str = ""
    is_hold: bool = False
    is_dropped: bool = False
    released_at: int | None = None

    def __init__(self, intent: Intended) -> None:
        self.intent = intent

    @property
    def number(self) -> int:
        return self.intent.step

    @property
    def at(self) -> int:
        return self.intent.at

    @property
    def action(self) -> str:
        return self.intent.action

    @property
    def version(self) -> int:
        return self.intent.version

    @property
    def reversibility(self) -> str:
        return self.intent.reversibility

    @property
    def scope(self) -> str:
        return self.intent.scope

    @property
    def position(self) -> str:
        return self.intent.position

    @property
    def attempt(self) -> int:
        return self.intent.attempt

    @property
    def parent(self) -> int | None:
        return self.intent.parent

    @property
    def args(self) -> Raw:
        return self.intent.args

    @property
    def asked(self) -> Raw:
        """The arguments as they were given."""
        return self.intent.args if self.intent.asked == EMPTY else self.intent.asked

    @property
    def captured(self) -> Raw:
        return self.intent.captured

    @property
    def tier(self) -> str:
        return self.intent.tier

    @property
    def lands_within(self) -> int:
        return self.intent.lands_within

    @property
    def resource(self) -> str | None:
        return self.intent.resource

    @property
    def amount(self) -> str | None:
        return self.intent.amount

    @property
    def currency(self) -> str | None:
        return self.intent.currency

    @property
    def keyed_undo(self) -> Compensation | None:
        return self.intent.keyed_undo

    @property
    def is_unsent(self) -> bool:
        """It is held, and nothing of it stands: it is sent once the saga is committed."""
        return self.is_hold and not self.is_dropped and self.state in {"held", "not_landed"}

    def overlap(self, number: int) -> None:
        """Note that another step ran, or was in doubt, while this one was begun, or the other way round."""
        if not isinstance(self.overlaps, set):
            self.overlaps = set()
        self.overlaps.add(number)


class RefusedView:
    """A call that the gate refused."""

    __slots__ = ("action", "at", "number", "position", "reason", "reversibility", "rule", "scope", "state")

    def __init__(self, record: Refused) -> None:
        self.number = record.step
        self.action = record.action
        self.reversibility = record.reversibility
        self.scope = record.scope
        self.position = record.position
        self.rule = record.rule
        self.reason = record.reason
        self.at = record.at
        self.state: StepState = "refused"


class AskedView:
    """A call that waits for a person."""

    __slots__ = ("answer", "asked")

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.answer: Answered | None = None

    @property
    def number(self) -> int:
        return self.asked.step

    @property
    def action(self) -> str:
        return self.asked.action

    @property
    def state(self) -> StepState:
        return "awaiting_approval"


class CaseView:
    """Something that a person must settle."""

    __slots__ = ("at", "number", "open", "resolved", "step", "words")

    def __init__(self, record: CaseOpened) -> None:
        self.number = record.case
        self.at = record.at
        self.step = record.step
        self.words = record.words
        self.open = True
        self.resolved: CaseResolved | None = None


class ScopeView:
    """A savepoint."""

    __slots__ = ("kept", "name", "parent", "path", "unwinding")

    def __init__(self, path: str, parent: str | None, name: str) -> None:
        self.path = path
        self.parent = parent
        self.name = name
        self.kept: bool | None = None
        self.unwinding = False


class SagaView:
    """One saga as the records so far tell it."""

    __slots__ = (
        "adopted",
        "began",
        "cases",
        "committing",
        "doomed",
        "ended",
        "ended_at",
        "has_holds",
        "in_doubt",
        "landed",
        "last_at",
        "owner",
        "permitted",
        "positions",
        "questions",
        "reason",
        "refused",
        "running",
        "scopes",
        "steps",
        "suspended",
        "unwinding",
        "waiting",
    )

    def __init__(self) -> None:
        self.began: Began | None = None
        self.adopted: Adopted | None = None
        self.owner: Began | Adopted | None = None
        self.scopes: dict[str, ScopeView] = {"": ScopeView("", None, "")}
        self.steps: dict[int, StepView] = {}
        self.refused: list[RefusedView] = []
        self.positions: dict[str, StepView] = {}
        self.waiting: dict[str, AskedView] = {}
        self.questions: dict[str, Asked] = {}
        self.permitted = 0
        self.running: set[int] = set()
        self.in_doubt: set[int] = set()
        self.cases: list[CaseView] = []
        self.landed = 0
        self.last_at = 0
        self.unwinding = False
        self.committing = False
        self.has_holds = False
        self.doomed: list[tuple[str, int, int]] = []
        self.suspended: str | None = None
        self.reason = ""
        self.ended: str | None = None
        self.ended_at: int | None = None

    @property
    def state(self) -> SagaState:
        """The saga's state in one word."""
        if self.ended is not None:
            return self.ended  # pyright: ignore[reportReturnType]
        if self.unwinding:
            return "unwinding"
        if self.committing:
            return "committing"
        return "suspended" if self.suspended is not None else "running"

    @property
    def open_cases(self) -> list[CaseView]:
        """What waits for a person."""
        return [case for case in self.cases if case.open]

    @property
    def is_settled(self) -> bool:
        """Nothing is left to do or to find out, for anybody."""
        return (
            self.ended in {"committed", "rolled_back", "left_in_place"}
            and not any(case.open for case in self.cases)
            and not any(step.state in OPEN for step in self.steps.values())
            and not (self.has_holds and self.holds_left)
        )

    @property
    def holds_left(self) -> bool:
        """Held effects are left to be sent once the saga is committed, or to be found out about."""
        return self.has_holds and any(
            step.is_unsent or (step.is_hold and step.state in OPEN) for step in self.steps.values()
        )

    @property
    def leaves_strays(self) -> bool:
        """A commit leaves strays to a person instead of undoing them."""
        return self.began is not None and self.began.stray == "case"

    def is_doomed(self, step: StepView) -> bool:
        """Tell whether the records so far decide that the step is to be undone."""
        if self.unwinding:
            return self.ended != "committed"
        if step.stray and self.committing and not self.leaves_strays:
            return True
        if any(since <= step.number <= until and is_within(step.scope, path) for path, since, until in self.doomed):
            return True
        scope = self.scopes.get(step.scope)
        while scope is not None:
            if scope.unwinding:
                return True
            scope = None if scope.parent is None else self.scopes.get(scope.parent)
        return False
