"""The facts that a log holds: inert data, one frozen struct a kind.

A record is a msgpack array led by its kind's number. A reader ignores trailing fields that it does not know and fills
missing ones with their defaults, so fields are only ever added at the end. `at` is nanoseconds since 1970, `up`
nanoseconds since boot.
"""

from __future__ import annotations

from typing import Any, TypeAlias, get_args

import msgspec
from msgspec import Raw

from saga_core.answers import Compensation

EMPTY = Raw(b"\xc0")
"""The encoded None: what stands for a frozen value that there is none of."""


class Began(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The saga exists; its first owner is a process of this machine and boot."""

    saga: str
    name: str
    key: str | None
    at: int
    up: int
    boot: str
    pid: int
    host: str
    tags: dict[str, str]
    stray: str = "undo"
    generation: int = 1


class Adopted(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Another owner took over; `dropped` keeps the bytes of a torn tail."""

    epoch: int
    at: int
    up: int
    boot: str
    pid: int
    host: str
    why: str
    dropped: bytes = b""


class ScopeOpened(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """A savepoint opened inside the scope `parent`; the root scope is the empty path."""

    scope: str
    parent: str
    name: str
    at: int


class ScopeEnded(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """A savepoint ended: kept (its steps belong to the parent now) or undone."""

    scope: str
    kept: bool
    at: int


class Refused(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """The gate said no before anything was called."""

    step: int
    at: int
    action: str
    version: int
    reversibility: str
    scope: str
    position: str
    rule: str
    reason: str
    place: str = ""


class Intended(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """An effect is about to start; written, and durable within its tier, before it does.

    `asked` are the arguments as they were given, where `args` completes them; EMPTY else, as for `captured`.
    """

    step: int
    at: int
    action: str
    version: int
    reversibility: str
    scope: str
    position: str
    attempt: int
    parent: int | None
    args: Raw
    asked: Raw
    captured: Raw
    tier: str
    lands_within: int
    resource: str | None = None
    amount: str | None = None
    currency: str | None = None
    keyed_undo: Compensation | None = None


class Noted(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """Facts learned while the effect or the undo of the step ran."""

    step: int
    facts: dict[str, Any]


class Applied(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """The effect landed; `undo` is bound now, or `problem` says why it could not be."""

    step: int
    at: int
    result: Raw
    undo: Compensation | None
    undo_until: int | None = None
    problem: str | None = None
    stray: bool = False


class Doubted(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """The effect ended without proof either way; nothing of it is sent after `up`."""

    step: int
    at: int
    up: int
    error: str


class Missed(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """The effect is proven not to have landed; `beside` are neighbours that could still bring it back."""

    step: int
    at: int
    why: str
    beside: tuple[int, ...] = ()


class UnwindBegan(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """From here the steps of a scope, or of the whole saga (the empty path), are undone."""

    scope: str
    reason: str
    at: int
    since: int = 0
    until: int = 0


class UndoIntended(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """An undo is about to start; durable before it does."""

    step: int
    at: int
    key: str
    undo: Compensation
    trial: int


class UndoEnded(msgspec.Struct, frozen=True, array_like=True, tag=13):
    """What became of an undo: undone, already, pending, conflict, failed (try again), cut or not_landed."""

    step: int
    at: int
    up: int
    how: str
    words: str = ""
    ref: str | None = None
    wait: int = 0


class LeftInPlace(msgspec.Struct, frozen=True, array_like=True, tag=14):
    """The effect stays on purpose; `why` says whose."""

    step: int
    at: int
    why: str


class CaseOpened(msgspec.Struct, frozen=True, array_like=True, tag=15):
    """A person must settle this."""

    case: int
    at: int
    step: int | None
    words: str


class Committing(msgspec.Struct, frozen=True, array_like=True, tag=16):
    """The scope succeeded; strays are undone before the commit."""

    at: int


class Committed(msgspec.Struct, frozen=True, array_like=True, tag=17):
    """Everything that landed and was not undone stays."""

    at: int


class RolledBack(msgspec.Struct, frozen=True, array_like=True, tag=18):
    """Every step is proven undone, not landed or refused."""

    at: int


class Parked(msgspec.Struct, frozen=True, array_like=True, tag=19):
    """Unwinding has done what it could; the rest is in the open cases."""

    at: int


class Suspended(msgspec.Struct, frozen=True, array_like=True, tag=20):
    """The saga waits without an owner; a later scope of the same key resumes it."""

    at: int
    reason: str


class Resent(msgspec.Struct, frozen=True, array_like=True, tag=21):
    """A step in doubt is sent again under the same key."""

    step: int
    at: int


class Returned(msgspec.Struct, frozen=True, array_like=True, tag=22):
    """A stray's recorded result was given to a caller: its landing is known, it is no stray any more."""

    step: int
    at: int


class Asked(msgspec.Struct, frozen=True, array_like=True, tag=23):
    """A person has to decide about a call: `request` names the question, `digest` binds the answer to this record.

    `reasons` are the rules that asked, each with its name, place and words; `within` is how long they wait.
    """

    step: int
    at: int
    request: str
    action: str
    version: int
    reversibility: str
    scope: str
    position: str
    attempt: int
    args: Raw
    amount: str | None
    currency: str | None
    digest: str
    reasons: tuple[tuple[str, str, str], ...]
    approvals: int
    within: int


class Answered(msgspec.Struct, frozen=True, array_like=True, tag=24):
    """What became of a question: approved, rejected, revoked, expired or withdrawn, by whom and why.

    `edit` are the arguments as a person changed them; nil where they are as they were asked for.
    """

    step: int
    at: int
    how: str
    people: tuple[tuple[str, str, int], ...]
    edit: Raw = EMPTY


class Permitted(msgspec.Struct, frozen=True, array_like=True, tag=25):
    """The next intent at the position uses a permission that the control database gave under a commit number."""

    position: str
    at: int
    number: int
    request: str | None
    grant: str | None
    charges: tuple[tuple[str, str], ...]


class Held(msgspec.Struct, frozen=True, array_like=True, tag=26):
    """An irreversible call is staged: nothing of it happens before the commit, whose barrier makes this durable too."""

    step: int
    at: int
    action: str
    version: int
    reversibility: str
    scope: str
    position: str
    attempt: int
    parent: int | None
    args: Raw
    asked: Raw
    tier: str
    lands_within: int
    resource: str | None = None
    amount: str | None = None
    currency: str | None = None


class Released(msgspec.Struct, frozen=True, array_like=True, tag=27):
    """A held effect is about to start, behind the commit; durable before it does.

    `attempt` rises only after a proof that the one before did not land; `trial` counts the sends.
    """

    step: int
    at: int
    attempt: int
    trial: int


class CaseResolved(msgspec.Struct, frozen=True, array_like=True, tag=28):
    """A person settled a case: `retry`, `undone` by hand, or `left` in place; `evidence` is in the person's words."""

    case: int
    at: int
    by: str
    how: str
    evidence: str


class Closed(msgspec.Struct, frozen=True, array_like=True, tag=29):
    """People settled what was left: each step is proven undone, or was left in place on purpose."""

    at: int


Record: TypeAlias = (
    Began
    | Adopted
    | ScopeOpened
    | ScopeEnded
    | Refused
    | Intended
    | Noted
    | Applied
    | Doubted
    | Missed
    | UnwindBegan
    | UndoIntended
    | UndoEnded
    | LeftInPlace
    | CaseOpened
    | Committing
    | Committed
    | RolledBack
    | Parked
    | Suspended
    | Resent
    | Returned
    | Asked
    | Answered
    | Permitted
    | Held
    | Released
    | CaseResolved
    | Closed
)

KINDS: dict[int, type[Any]] = {kind.__struct_config__.tag: kind for kind in get_args(Record)}
"""Each kind of record by the number that leads its array."""

ADOPTED_KIND = 2
COMMITTED_KIND = 17
RELEASED_KIND = 27
