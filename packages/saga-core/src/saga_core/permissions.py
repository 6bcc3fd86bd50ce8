"""What is asked of people and ledgers before a call may run, and what they answer: values only."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeAlias

import msgspec

State: TypeAlias = Literal["pending", "approved", "rejected", "revoked", "expired", "used", "withdrawn"]
"""What became of a request; only `approved` lets the call run, once."""


class Request(msgspec.Struct, frozen=True):
    """A question to a person, as the control database indexes it; what would run stands in the saga's log.

    Attributes:
        id: Names it; the same call of the same saga has the same id in every process.
        saga: The saga.
        step: The key of the attempt that waits.
        digest: Of exactly what would run.
        quorum: How many different persons have to approve.
        requester: Who may not approve it, where known.
        asked_at: When, in nanoseconds since 1970 by the control database's clock.
        expires_at: When it turns into a no.
    """

    id: str
    saga: str
    step: str
    digest: str
    quorum: int
    requester: str | None
    asked_at: int = 0
    expires_at: int = 0


class Decision(msgspec.Struct, frozen=True):
    """What one person decided about a request.

    Attributes:
        by: Who.
        verdict: `approve`, `reject`, or `revoke` for an approval taken back before it was used.
        reason: In the person's words.
        digest: Of what was decided on: of the edited arguments where the person changed them.
        edit: The arguments as the person changed them, frozen; None for the call as it was asked.
        at: When, in nanoseconds since 1970.
    """

    by: str
    verdict: Literal["approve", "reject", "revoke"]
    reason: str
    digest: str
    edit: bytes | None = None
    at: int = 0


class Standing(msgspec.Struct, frozen=True):
    """A request, everything that was decided about it, and where it stands."""

    request: Request
    decisions: tuple[Decision, ...]
    state: State

    @property
    def decisive(self) -> Decision | None:
        """The decision that made the state what it is; None while nobody decided enough."""
        return self.decisions[-1] if self.decisions and self.state not in {"pending", "expired"} else None


class Grant(msgspec.Struct, frozen=True):
    """A person's standing approval of calls to come.

    Attributes:
        id: Names it.
        actions: The pattern of the actions' names.
        args: Patterns of argument values by their paths; each has to match.
        uses: How many calls it is good for; None: any number.
        limit: The largest amount of one call; None: it covers calls of any amount.
        currency: Of the limit.
        expires_at: When it ends, in nanoseconds since 1970.
        by: Who granted it.
        reason: In the person's words.
        used: How many calls used it.
        revoked_by: Who took it back.
    """

    id: str
    actions: str
    args: Mapping[str, str]
    uses: int | None
    limit: str | None
    currency: str | None
    expires_at: int
    by: str
    reason: str
    at: int = 0
    used: int = 0
    revoked_by: str | None = None

    def covers(self, action: str, args: Mapping[str, Any]) -> bool:
        """Tell whether a call's name and arguments are what was granted; its amount is looked at elsewhere."""
        return fnmatchcase(action, self.actions) and all(
            _fits(at_path(args, path), pattern) for path, pattern in self.args.items()
        )


class Charge(msgspec.Struct, frozen=True):
    """What a call takes from one ledger of a budget or rate.

    Attributes:
        ledger: The ledger's name; the same for everybody who meters the same thing.
        amount: How much, a decimal.
        limit: How much the ledger may hold within the window.
        window: How long what was taken counts, in nanoseconds.
        rule: The rule's name.
        place: Where it is declared.
        words: What is said when there is not enough left.
    """

    ledger: str
    amount: str
    limit: str
    window: int
    rule: str
    place: str
    words: str


class Dispatch(msgspec.Struct, frozen=True):
    """What a call needs before its intent: taken all together, or not at all.

    Attributes:
        step: The key of the attempt; the same attempt goes on with what it took before.
        saga: The saga.
        digest: Of exactly what would run.
        charges: What it takes from ledgers.
        request: The approval that it uses up.
        grant: The grant that it uses once.
        seen: The highest commit number of the control database that the saga's log tells of.
    """

    step: str
    saga: str
    digest: str
    charges: tuple[Charge, ...] = ()
    request: str | None = None
    grant: str | None = None
    seen: int = 0


class Permit(msgspec.Struct, frozen=True):
    """The control database's yes: everything was taken, under this commit number; durable."""

    number: int


class Denial(msgspec.Struct, frozen=True):
    """Its no: nothing was taken."""

    rule: str
    place: str
    words: str


def digest(saga: str, position: str, attempt: int, action: str, version: int, args: Mapping[str, Any]) -> str:
    """Return what binds a decision to exactly one call: this saga's, at this place, with these arguments."""
    from hashlib import blake2b  # noqa: PLC0415 -- a saga in which nobody is asked never pays for it

    names = f"{saga}\0{position}\0{attempt}\0{action}\0{version}\0"
    data = names.encode() + msgspec.json.encode(args, order="sorted")
    return blake2b(data, digest_size=32, person=b"saga-approval").hexdigest()


def at_path(args: Any, path: str) -> Any:
    """Return what stands at a dotted path inside arguments or models; None where there is nothing."""
    found: Any = args
    for part in path.split("."):
        get = getattr(found, "get", None)
        found = get(part) if callable(get) else getattr(found, part, None)
    return found


def _fits(value: Any, pattern: str) -> bool:
    is_plain = isinstance(value, (str, int)) and not isinstance(value, bool)
    return is_plain and fnmatchcase(str(value), pattern)
