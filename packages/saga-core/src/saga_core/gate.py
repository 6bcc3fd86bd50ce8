"""The gate: rules over a frozen proposal decide before anything happens."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from decimal import Decimal

    from saga_core.types import Reversibility


class Proposal:
    """A call as the gate sees it: exactly what would run.

    Attributes:
        action: The action's registered name.
        reversibility: The action's declared class.
        amount: The amount in the arguments, where the action declares `money=`.
        currency: Its currency.
        undo_until: When the undo's window closes, where known.
        recoverable: An undo is declared.
    """

    __slots__ = ("_args", "action", "amount", "currency", "recoverable", "reversibility", "undo_until")

    def __init__(
        self,
        action: str,
        args: Mapping[str, Any] | Callable[[], Mapping[str, Any]],
        reversibility: Reversibility,
        *,
        amount: Decimal | None,
        currency: str | None,
        undo_until: datetime | None,
        recoverable: bool,
    ) -> None:
        """Take the facts; where `args` is a function, it is called when a rule first asks for them."""
        self.action = action
        self._args = args
        self.reversibility = reversibility
        self.amount = amount
        self.currency = currency
        self.undo_until = undo_until
        self.recoverable = recoverable

    @property
    def args(self) -> Mapping[str, Any]:
        """The arguments as they would be recorded."""
        if callable(self._args):
            self._args = self._args()
        return self._args


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


class Verdict(NamedTuple):
    """Why a call does not run: the rule's name, its place and its reason."""

    rule: str
    place: str
    reason: str


class Gate:
    """Rules over proposals; no rule can allow, so each one only tightens.

    Attributes:
        has_rules: There are others than the built-in ones, which look at nothing but the declaration.
    """

    def __init__(self, *rules: Rule) -> None:
        """Take the rules in order; the built-in ones cannot be removed."""
        self._rules = rules
        self.has_rules = bool(rules)

    def judge(self, proposal: Proposal) -> Verdict | None:
        """Return why the call does not run, None if it may.

        A rule that raises refuses. A rule's `Escalate` refuses too: nobody can be asked from here.
        """
        if proposal.reversibility == "irreversible":
            return Verdict("irreversible", "built in", "irreversible, and nobody approved it")
        if not proposal.recoverable:
            return Verdict("no_undo", "built in", "no undo is declared, and nobody approved it")
        for rule in self._rules:
            try:
                answer = rule(proposal)
            except Exception as error:  # noqa: BLE001 -- whatever a rule raises, the gate fails closed
                return _verdict(rule, f"the rule raised {type(error).__qualname__}")
            if isinstance(answer, Refuse):
                return _verdict(rule, answer.reason)
            if isinstance(answer, Escalate):
                return _verdict(rule, f"{answer.reason}, and nobody approved it")
            if answer is not None:
                return _verdict(rule, f"the rule answered a {type(answer).__qualname__}, which is no verdict")
        return None


def _verdict(rule: Rule, reason: str) -> Verdict:
    code = getattr(rule, "__code__", None)
    place = f"{code.co_filename}:{code.co_firstlineno}" if code is not None else type(rule).__module__
    return Verdict(getattr(rule, "__name__", type(rule).__name__), place, reason)


DEFAULT = Gate()
