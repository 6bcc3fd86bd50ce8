"""The gate: rules over a frozen proposal decide before anything happens."""

from __future__ import annotations

from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, cast, runtime_checkable

import msgspec
from msgspec import Raw

from saga_core.codec import is_scalar, thaw

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from decimal import Decimal

    from saga_core.permissions import Charge
    from saga_core.types import Reversibility


class Proposal(msgspec.Struct, frozen=True, eq=False):
    """A call as the gate sees it: exactly what would run.

    Attributes:
        action: The action's registered name.
        reversibility: The action's declared class.
        amount: The amount in the arguments, where the action declares `money=`.
        currency: Its currency.
        undo_until: When the undo's window closes; None where it stays open.
        recoverable: An undo is declared, or nothing happens before the commit.
        probeable: The remote can be asked whether the call landed.
    """

    action: str
    _args: Mapping[str, Any] | Raw
    reversibility: Reversibility
    amount: Decimal | None
    currency: str | None
    undo_until: datetime | None
    recoverable: bool
    probeable: bool = False

    @property
    def args(self) -> Mapping[str, Any]:
        """The arguments as they would be recorded; nobody can change them, however deep."""
        found = self._args
        if isinstance(found, Raw):
            found = _fixed(thaw(found))
            msgspec.structs.force_setattr(self, "_args", found)
        return found


def _fixed(value: Any) -> Any:
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value)
        return MappingProxyType(items if is_scalar(items) else {name: _fixed(item) for name, item in items.items()})
    return tuple(map(_fixed, cast("list[Any]", value))) if isinstance(value, list) else value


class Refuse:
    """A rule says no, for `reason`."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


class Escalate:
    """A rule asks for a person's decision, for `reason`."""

    __slots__ = ("approvals", "expires_in", "reason")

    def __init__(self, reason: str, *, approvals: int = 1, expires_in: timedelta = timedelta(hours=24)) -> None:
        self.reason = reason
        self.approvals = approvals
        self.expires_in = expires_in


Rule: TypeAlias = "Callable[[Proposal], Refuse | Escalate | None]"


@runtime_checkable
class Meter(Protocol):
    """A rule that takes from ledgers, which all processes of a store share."""

    def __call__(self, proposal: Proposal, /) -> Refuse | Escalate | None: ...

    def charges(self, proposal: Proposal, /) -> tuple[Charge, ...]:
        """Return what the call would take; empty where the rule does not concern it."""
        ...


class Verdict(NamedTuple):
    """Why a call does not run, or not without a person: the rule's name, its place and its reason."""

    rule: str
    place: str
    reason: str


class Question(NamedTuple):
    """What a rule wants a person to decide, by how many and for how long."""

    verdict: Verdict
    approvals: int
    expires_in: timedelta


class Judgement(NamedTuple):
    """What the rules say together.

    Attributes:
        refusal: The first no; nothing else counts then.
        questions: What a person has to decide before the call runs.
        charges: What it takes from ledgers before it runs.
    """

    refusal: Verdict | None = None
    questions: tuple[Question, ...] = ()
    charges: tuple[Charge, ...] = ()


_FREE = Judgement()
_DAY = timedelta(hours=24)
_YEARS = timedelta(days=3650)
_IRREVERSIBLE = Question(Verdict("irreversible", "built in", "irreversible"), 1, _DAY)
_NO_UNDO = Question(Verdict("no_undo", "built in", "no undo is declared"), 1, _DAY)


class Gate:
    """Rules over proposals; no rule can allow, so each one only tightens.

    Attributes:
        has_rules: There are others than the built-in ones, which look at nothing but the declaration.
    """

    def __init__(self, *rules: Rule) -> None:
        """Take the rules in order; the built-in ones cannot be removed."""
        self._rules = rules
        self._meters = tuple(rule for rule in rules if isinstance(rule, Meter))
        self.has_rules = bool(rules)

    def judge(self, proposal: Proposal) -> Judgement:
        """Return what the rules say: each is asked, a no comes before a question. A rule that raises says no."""
        questions: list[Question] = []
        if not proposal.recoverable:
            questions.append(_IRREVERSIBLE if proposal.reversibility == "irreversible" else _NO_UNDO)
        for rule in self._rules:
            try:
                answer = rule(proposal)
            except Exception as error:  # noqa: BLE001 -- whatever a rule raises, the gate fails closed
                return Judgement(verdict_of(rule, f"the rule raised {type(error).__qualname__}"))
            if answer is None:
                continue
            if isinstance(answer, Refuse):
                return Judgement(verdict_of(rule, answer.reason))
            if not isinstance(answer, Escalate):  # pyright: ignore[reportUnnecessaryIsInstance] -- the user's function
                kind = type(answer).__qualname__
                return Judgement(verdict_of(rule, f"the rule answered a {kind}, which is no verdict"))
            flaw = _flaw(answer)
            if flaw is not None:
                return Judgement(verdict_of(rule, flaw))
            questions.append(Question(verdict_of(rule, answer.reason), answer.approvals, answer.expires_in))
        charges: list[Charge] = []
        for meter in self._meters:
            try:
                charges += meter.charges(proposal)
            except Exception as error:  # noqa: BLE001 -- as above
                return Judgement(verdict_of(meter, f"the rule raised {type(error).__qualname__}"))
        return Judgement(None, tuple(questions), tuple(charges)) if questions or charges else _FREE


def _flaw(answer: Escalate) -> str | None:
    """Return what is wrong with a question that nobody could answer."""
    if type(answer.approvals) is not int or answer.approvals < 1:
        return "the rule asks for no approval, which is no question"
    span = cast("object", answer.expires_in)
    if not isinstance(span, timedelta) or not timedelta(0) < span <= _YEARS:
        return "the rule's question expires at once, or never"
    return None


def verdict_of(rule: Rule, reason: object) -> Verdict:
    """Return a verdict of a rule with its name and the place where the user's code has it."""
    place = getattr(rule, "place", None)
    code = getattr(rule, "__code__", None) or getattr(getattr(rule, "__call__", None), "__code__", None)  # noqa: B004 -- an object's own code
    if not isinstance(place, str):
        place = type(rule).__module__ if code is None else f"{code.co_filename}:{code.co_firstlineno}"
    name = getattr(rule, "__name__", None)
    return Verdict(name if isinstance(name, str) else type(rule).__name__, place, cast("str", reason))


DEFAULT = Gate()
