"""Rules that come with the gate. None of them can allow; each refuses, or asks a person, or takes from a ledger."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol, cast

from saga_core.clock import nanoseconds
from saga_core.gate import Escalate, Refuse
from saga_core.permissions import Charge, at_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from saga_core.gate import Proposal, Rule

__all__ = ["above", "budget", "deny_actions", "needs_probe", "needs_undo_window", "only_actions", "rate"]


class _Named(Protocol):
    """A rule with the name of its factory and the place where that was called; a meter says what it takes, too."""

    __name__: str
    place: str
    charges: Callable[[Proposal], tuple[Charge, ...]]

    def __call__(self, proposal: Proposal, /) -> Refuse | Escalate | None: ...


def _named(
    name: str,
    actions: str,
    answer: Callable[[Proposal], Refuse | Escalate | None],
    charge: Callable[[Proposal, str, str], Charge | None] | None = None,
) -> Rule:
    """Return the rule that a factory made: a function, so that asking it is one call."""
    caller = sys._getframe(2)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] -- the line of the user's code
    place = f"{caller.f_code.co_filename}:{caller.f_lineno}"
    concerns = _matcher(actions)

    def of_some(proposal: Proposal) -> Refuse | Escalate | None:
        return answer(proposal) if concerns(proposal.action) else None

    def charges(proposal: Proposal) -> tuple[Charge, ...]:
        taken = charge(proposal, name, place) if charge is not None and concerns(proposal.action) else None
        return () if taken is None else (taken,)

    rule = cast("_Named", answer if actions == "*" else of_some)
    rule.__name__ = name
    rule.place = place
    if charge is not None:
        rule.charges = charges
    return rule


def above(limits: Mapping[str, Decimal | int], *, actions: str = "*", refuse: bool = False) -> Rule:
    """Ask a person about a call whose amount is above the limit of its currency, or whose currency has none.

    Args:
        limits: The largest amounts that need nobody, by currency, in minor units.
        actions: The pattern of the names of the actions concerned; those without `money=` are not.
        refuse: Refuse instead of asking.
    """
    exact = _limits(limits)

    def answer(proposal: Proposal) -> Refuse | Escalate | None:
        if proposal.amount is None:
            return None
        limit = exact.get(_currency(proposal))
        if limit is not None and proposal.amount <= limit:
            return None
        words = f"no limit is set for {proposal.currency}" if limit is None else f"above {limit} {proposal.currency}"
        return Refuse(words) if refuse else Escalate(words)

    return _named("above", actions, answer)


def budget(limits: Mapping[str, Decimal | int], *, per: timedelta, by: str | None = None, actions: str = "*") -> Rule:
    """Refuse a call that takes the sum of all amounts within a sliding window over its currency's limit.

    What is metered is what was authorised: a call that fails or is undone later does not give its amount back. All
    processes on the store share the ledger. The window is counted in steps of a 64th: a sum may count up to that much
    longer than the window, never shorter.

    Args:
        limits: The largest sums by currency, in minor units.
        per: The window.
        by: The path of an argument, each value of which has a ledger of its own.
        actions: The pattern of the names of the actions concerned; those without `money=` are not.
    """
    exact, window = _limits(limits), _window(per)

    def answer(proposal: Proposal) -> Refuse | None:
        if proposal.amount is None:
            return None
        limit = exact.get(_currency(proposal))
        if limit is None:
            return Refuse(f"no budget is set for {proposal.currency}")
        if proposal.amount > limit:
            return Refuse(f"above the whole budget of {limit} {proposal.currency}")
        return _unscoped(proposal, by)

    def charge(proposal: Proposal, name: str, place: str) -> Charge | None:
        if proposal.amount is None:
            return None
        currency = _currency(proposal)
        ledger = _ledger("budget", actions, currency, window, proposal, by)
        words = f"the budget of {exact[currency]} {currency} per {per} is used up{_of(by)}"
        return Charge(ledger, str(proposal.amount), str(exact[currency]), window, name, place, words)

    return _named("budget", actions, answer, charge)


def rate(count: int, *, per: timedelta, by: str | None = None, actions: str = "*") -> Rule:
    """Refuse a call beyond so many within a sliding window, counted as `budget` counts.

    Args:
        count: How many calls are let through.
        per: The window.
        by: The path of an argument, each value of which is counted by itself.
        actions: The pattern of the names of the actions concerned.
    """
    if type(count) is not int or count < 0:
        raise ValueError("a rate is a whole number of calls")
    window = _window(per)

    def charge(proposal: Proposal, name: str, place: str) -> Charge:
        ledger = _ledger("rate", actions, "", window, proposal, by)
        words = f"{count} calls per {per} were made{_of(by)}"
        return Charge(ledger, "1", str(count), window, name, place, words)

    def answer(proposal: Proposal) -> Refuse | None:
        return _unscoped(proposal, by)

    return _named("rate", actions, answer, charge)


def only_actions(*patterns: str) -> Rule:
    """Refuse every action whose name none of the patterns matches."""
    is_listed = _matcher(*patterns)

    def answer(proposal: Proposal) -> Refuse | None:
        return None if is_listed(proposal.action) else Refuse(f"only {', '.join(patterns) or 'nothing'} may be called")

    return _named("only_actions", "*", answer)


def deny_actions(*patterns: str) -> Rule:
    """Refuse every action whose name one of the patterns matches."""
    is_listed = _matcher(*patterns)

    def answer(proposal: Proposal) -> Refuse | None:
        return Refuse(f"{', '.join(patterns)} may not be called") if is_listed(proposal.action) else None

    return _named("deny_actions", "*", answer)


def needs_undo_window(at_least: timedelta, *, actions: str = "*") -> Rule:
    """Refuse a call that cannot be undone for so long; a window that only the result tells counts as none."""

    def answer(proposal: Proposal) -> Refuse | None:
        if not proposal.recoverable:
            return Refuse("it cannot be undone")
        if proposal.undo_until is None or proposal.undo_until - datetime.now(UTC) >= at_least:
            return None
        return Refuse(f"its undo has to stay possible for {at_least}")

    return _named("needs_undo_window", actions, answer)


def needs_probe(*, actions: str = "*") -> Rule:
    """Refuse a call of which nobody could ask the remote whether it landed."""

    def answer(proposal: Proposal) -> Refuse | None:
        return None if proposal.probeable else Refuse("no probe is declared that could ask whether it landed")

    return _named("needs_probe", actions, answer)


def _matcher(*patterns: str) -> Callable[[str], bool]:
    """Return what tells whether a name matches one of the patterns; it remembers the names that it was asked about."""

    @lru_cache(1024)
    def matches(name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in patterns)

    return matches


def _limits(limits: Mapping[str, Decimal | int]) -> dict[str, Decimal]:
    exact: dict[str, Decimal] = {}
    for currency, limit in limits.items():
        if isinstance(limit, bool) or not isinstance(limit, (int, Decimal)):  # pyright: ignore[reportUnnecessaryIsInstance] -- the user's mapping
            raise TypeError(f"the limit for {currency} is a {type(limit).__qualname__}, not an exact number")
        exact[currency.lower()] = Decimal(limit)
        if not exact[currency.lower()].is_finite() or limit < 0:
            raise ValueError(f"the limit for {currency} is negative or not finite")
    return exact


def _window(per: timedelta) -> int:
    if per <= timedelta(0):
        raise ValueError("a window is longer than nothing")
    return nanoseconds(per)


def _currency(proposal: Proposal) -> str:
    return (proposal.currency or "").lower()


def _scope(proposal: Proposal, by: str) -> str | None:
    value = at_path(proposal.args, by)
    is_name = isinstance(value, (str, int)) and not isinstance(value, bool)
    return str(value) if is_name else None


def _unscoped(proposal: Proposal, by: str | None) -> Refuse | None:
    if by is None or _scope(proposal, by) is not None:
        return None
    return Refuse(f"{by} is missing or no name, so that no ledger can be told")


def _of(by: str | None) -> str:
    return "" if by is None else f" for this {by}"


def _ledger(kind: str, actions: str, currency: str, window: int, proposal: Proposal, by: str | None) -> str:
    """Return a ledger's name, from which nobody can read whose it is."""
    scope = "" if by is None else f"{by}={_scope(proposal, by)}"
    text = "\0".join((kind, actions, currency, str(window), scope))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, person=b"saga-ledger").hexdigest()
