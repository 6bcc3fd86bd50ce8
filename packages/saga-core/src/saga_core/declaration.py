"""What is declared about an action: its function, its reversibility, its undo, probe and capture."""

from __future__ import annotations

import contextlib
import inspect
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast

import msgspec
from msgspec import Raw

from saga_core.answers import Compensation
from saga_core.clock import nanoseconds
from saga_core.codec import thaw
from saga_core.errors import DeclarationError
from saga_core.ids import step_key
from saga_core.records import EMPTY
from saga_core.secrets import is_suspect
from saga_core.signature import Signature, refuse_unrunnable, restore
from saga_core.view import NO_FACTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from saga_core.types import Money, Reversibility, Tier
    from saga_core.view import StepView

T = TypeVar("T")

StepKey: TypeAlias = tuple[str, str, str, int]
"""What `step_key` makes a key of, once somebody asks for it: saga, position, purpose, attempt."""

LANDS_WITHIN = timedelta(minutes=5)
"""How long after its last possible send an effect may still land, where an action does not say."""


class Attempt(msgspec.Struct, eq=False):
    """What capture and probe see of a step: only what the log holds.

    Attributes:
        action: The action's registered name.
        version: The recorded version.
    """

    action: str
    version: int
    _args: Mapping[str, Any] | Raw
    _key: str | StepKey
    _started: datetime | int
    _captured: Any
    _notes: Mapping[str, Any]
    _restore: Callable[[Raw], Mapping[str, Any]] = thaw

    def __repr__(self) -> str:
        return f"<attempt of {self.action!r} version {self.version}>"

    @property
    def args(self) -> Mapping[str, Any]:
        """The arguments in the annotated types."""
        if isinstance(self._args, Raw):
            self._args = self._restore(self._args)
        return self._args

    @property
    def key(self) -> str:
        """The idempotency key of this attempt."""
        if isinstance(self._key, tuple):
            self._key = step_key(*self._key)
        return self._key

    @property
    def started_at(self) -> datetime:
        """When the intent was written."""
        if isinstance(self._started, int):
            self._started = datetime.fromtimestamp(self._started / 1e9, UTC)
        return self._started

    @property
    def captured(self) -> Any:
        """What the capture returned, None before it ran."""
        if isinstance(self._captured, Raw):
            self._captured = thaw(self._captured)
        return self._captured

    @property
    def notes(self) -> Mapping[str, Any]:
        """The facts noted in mid-effect."""
        return dict(self._notes)


class Call(Attempt, Generic[T], eq=False):
    """What undo sees: the attempt and its `result`, both from the log."""

    result: T = cast("T", None)


class Declaration:
    """An action as declared; shared by all callables that stand for it.

    Attributes:
        lands_for: `lands_within` in nanoseconds.
        suspects: The names of its parameters are such that what stands under them may be a secret.
        is_simple: Nothing but the built-in rules stands between a call and its intent: nothing is read or derived.
    """

    __slots__ = (
        "capture",
        "fn",
        "hidden",
        "hold",
        "identity",
        "is_async",
        "is_simple",
        "keyed_undo",
        "lands_for",
        "money",
        "name",
        "not_landed",
        "outside",
        "prepare",
        "probe",
        "replay",
        "resource",
        "reversibility",
        "signature",
        "suspects",
        "tier",
        "timeout",
        "undo",
        "undo_within",
        "version",
    )

    def __init__(
        self,
        name: str,
        fn: Callable[..., Any],
        reversibility: Reversibility,
        *,
        version: int = 1,
        undo: Callable[[Call[Any]], Compensation] | None = None,
        not_landed: Any = (),
        lands_within: timedelta = LANDS_WITHIN,
        undo_within: timedelta | Callable[[Call[Any]], datetime | None] | None = None,
        resource: Callable[[Attempt], str] | None = None,
        keyed_undo: Callable[[Attempt], Compensation] | None = None,
        replay: bool = False,
        identity: tuple[str, ...] | None = None,
        hide: tuple[str, ...] = (),
        money: Money | None = None,
        timeout: timedelta | None = None,
        tier: Tier = "power",
        outside: str = "refuse",
        hold: bool = False,
    ) -> None:
        what = f"action {name!r}"
        refuse_unrunnable(fn, what)
        if type(version) is not int:
            raise DeclarationError(f"{what}: version= is a {type(version).__qualname__}, not an integer")
        self.name = name
        self.fn = fn
        self.version = version
        self.reversibility: Reversibility = reversibility
        self.is_async = inspect.iscoroutinefunction(fn)
        self.signature = Signature(fn, what=what)
        self.hidden = hide
        self.signature.check(what, hidden=hide, result=reversibility != "read_only")
        for label, names in (("hide", hide), ("identity", identity or ())):
            unknown = set(names) - set(self.signature.names)
            if unknown and not self.signature.is_open:
                raise DeclarationError(f"{what}: {label}= names no parameter: {', '.join(sorted(unknown))}")
        self.undo: Callable[[Call[Any]], Compensation] | None = None
        self.probe: Callable[[Attempt], Any] | None = None
        self.capture: Callable[[Attempt], Any] | None = None
        self.prepare: Callable[[Mapping[str, Any]], Any] | None = None
        self.not_landed = not_landed
        self.lands_for = nanoseconds(lands_within)
        self.undo_within = undo_within
        self.resource = resource
        self.keyed_undo = keyed_undo
        self.replay = replay
        self.identity = identity
        self.money = money
        self.timeout = timeout
        self.tier: Tier = tier
        self.outside = outside
        self.hold = hold
        if hold and hide:
            raise DeclarationError(
                f"{what}: it is held, and hide= keeps out of the log what it needs when it is sent",
                next="pass a reference under which the function finds the value, and let it look there",
            )
        self.suspects = self.signature.is_open or any(
            is_suspect(name) for name in self.signature.names if name not in hide
        )
        self.is_simple = False
        if undo is not None:
            self.set_undo(undo)

    @property
    def lands_within(self) -> timedelta:
        """How long after its last possible send the effect may still land."""
        return timedelta(microseconds=self.lands_for / 1000)

    @lands_within.setter
    def lands_within(self, span: timedelta) -> None:
        self.lands_for = nanoseconds(span)

    def set_undo(self, fn: Callable[[Call[Any]], Compensation]) -> None:
        """Declare the undo.

        Raises:
            DeclarationError: It is asynchronous, or names an argument that the log does not hold, or nothing is undone.
        """
        self._refuse_held("undo", "is dropped when the run fails, and nothing undoes it behind the commit")
        if inspect.iscoroutinefunction(fn):
            raise DeclarationError(
                f"action {self.name!r}: its undo is asynchronous",
                next="bind an inverse in a plain function; the inverse may be asynchronous",
            )
        code = getattr(fn, "__code__", None)
        needed = [name for name in self.hidden if code is not None and name in code.co_consts]
        if needed:
            raise DeclarationError(
                f"action {self.name!r}: its undo needs {', '.join(needed)}, which hide= keeps out of the log",
                next="derive the undo from the result, or let the inverse find the value by a reference",
            )
        self.undo = fn
        self._sum_up()

    def set_capture(self, fn: Callable[[Attempt], Any]) -> None:
        """Declare what is read before the effect.

        Raises:
            DeclarationError: The action is held.
        """
        self._refuse_held("capture", "is not undone, so nothing has to be read before it")
        self.capture = fn
        self._sum_up()

    def set_prepare(self, fn: Callable[[Mapping[str, Any]], Any]) -> None:
        """Declare how missing arguments are read before the gate."""
        self.prepare = fn
        self._sum_up()

    def _refuse_held(self, part: str, why: str) -> None:
        if self.hold:
            raise DeclarationError(
                f"action {self.name!r} is held and {why}: it takes no {part}",
                next=f"leave the {part} away, or declare the action as compensable",
            )

    def _sum_up(self) -> None:
        reads = (self.capture, self.resource, self.keyed_undo, self.prepare, self.money)
        self.is_simple = (
            self.reversibility == "compensable" and self.undo is not None and all(part is None for part in reads)
        )

    def refuse_incomplete(self) -> None:
        """Refuse a reversible action without a capture.

        Raises:
            DeclarationError: It could not restore anything exactly.
        """
        if self.reversibility == "reversible" and self.capture is None:
            raise DeclarationError(
                f"action {self.name!r} is reversible and has no capture: nothing could be restored exactly",
                world="nothing was called",
                next="declare what to read before the effect with @action.capture, or make it compensable",
            )

    def proves_not_landed(self, error: BaseException) -> bool:
        """Tell whether the declaration takes this error as proof that nothing landed."""
        declared = self.not_landed
        if isinstance(declared, (type, tuple)):
            return isinstance(error, declared)  # pyright: ignore[reportArgumentType, reportUnknownArgumentType]
        try:
            return bool(declared(error))
        except Exception:  # noqa: BLE001 -- a predicate that raises has proven nothing
            return False

    def money_of(self, args: Mapping[str, Any]) -> tuple[Any, str | None]:
        """Return the amount and currency that the arguments name, as they stand there."""
        if self.money is None:
            return None, None
        amount, currency = self.money
        if currency is None:
            return _at_path(args, amount), None
        first = currency.partition(".")[0]
        if first not in self.signature.names and first not in args:
            return _at_path(args, amount), currency
        named = _at_path(args, currency)
        return _at_path(args, amount), named if isinstance(named, str) and named else None

    def attempt(
        self,
        args: Raw,
        key: str | StepKey,
        at: int,
        captured: Raw = EMPTY,
        notes: Mapping[str, Any] = NO_FACTS,
    ) -> Attempt:
        """Return an attempt as capture and probe see it: everything from the bytes that the log holds."""
        return Attempt(self.name, self.version, args, key, at, captured, notes, self._restored)

    def recorded(self, step: StepView) -> dict[str, Any]:
        """Return a step's recorded arguments in the annotated types, as the function takes them.

        Raises:
            TypeError: They do not fit the function any more.
        """
        return self.signature.convert(thaw(step.args))

    def _restored(self, args: Raw) -> dict[str, Any]:
        recorded: dict[str, Any] = thaw(args)
        with contextlib.suppress(TypeError):
            hints = self.signature.hints()
            return {name: restore(value, hints.get(name, Any)) for name, value in recorded.items()}
        return recorded

    def attempt_of(self, step: StepView, key: str | StepKey) -> Attempt:
        """Return a recorded step as capture and probe see it."""
        return self.attempt(step.args, key, step.at, step.captured, step.notes)

    def call_of(self, step: StepView, key: str | StepKey, result: Any) -> Call[Any]:
        """Return the recorded step as undo sees it; `result`, the thawed one, as it is where it does not fit."""
        try:
            shown = self.signature.restore_result(result)
        except TypeError:
            shown = result
        intent = step.intent
        return Call(
            self.name,
            self.version,
            intent.args,
            key,
            intent.at,
            intent.captured,
            step.notes,
            self._restored,
            shown,
        )


def _at_path(args: Mapping[str, Any], path: str) -> Any:
    found: Any = args
    for part in path.split("."):
        if not hasattr(found, "get"):
            return None
        found = found.get(part)
    return found
