"""A thread-safe ledger in memory, and tools over it: the world that the engine's tests look at."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from saga_core import (
    Action,
    AsyncAction,
    Attempt,
    Call,
    Compensation,
    Inverse,
    Landed,
    NotLanded,
    Saga,
    Store,
    Unknown,
    compensable,
    current_step,
    inverse,
    saga_scope,
)
from saga_core.stores.store import Backend

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType

    from saga_core.types import NoEffect

_numbers = itertools.count(1)


class Declined(Exception):
    """The world said no: nothing happened."""


class Lost(ConnectionError):
    """The answer did not come."""


def raising(error: BaseException) -> Callable[[], object]:
    """Return an act that raises."""

    def act() -> object:
        raise error

    return act


def lose() -> object:
    """Lose the request or its answer, depending on when."""
    raise Lost("the connection broke")


def decline() -> object:
    """Say no."""
    raise Declined("no")


@dataclass
class Charge:
    """One effect: what was bought, under which key, and the key that gave it back."""

    id: str
    item: str
    key: str
    back: str | None = None


class World:
    """What really happened.

    Attributes:
        before: Acts inside the effect of an item, ahead of its landing; each call takes the next one.
        after: The same behind its landing.
        on_undo: Acts of the inverse ahead of its effect, by item; what one returns that is not None is the answer.
        after_undo: The same behind the effect.
        sent: Every request that got as far as the world, as `charge ITEM` and `refund ITEM`, in order.
        keys: The keys of the refund requests, in order, by item.
        violations: What must never happen.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.RLock())
        self._charges: dict[str, Charge] = {}
        self.before: defaultdict[str, list[Callable[[], object]]] = defaultdict(list)
        self.after: defaultdict[str, list[Callable[[], object]]] = defaultdict(list)
        self.on_undo: defaultdict[str, list[Callable[[], object]]] = defaultdict(list)
        self.after_undo: defaultdict[str, list[Callable[[], object]]] = defaultdict(list)
        self.sent: list[str] = []
        self.keys: defaultdict[str, list[str]] = defaultdict(list)
        self.violations: list[str] = []

    def charge(self, item: str, key: str) -> str:
        with self._changed:
            self.sent.append(f"charge {item}")
            made = Charge(f"ch_{len(self._charges) + 1}", item, key)
            self._charges[made.id] = made
            self._changed.notify_all()
            return made.id

    def refund(self, charge_id: str, key: str) -> None:
        with self._changed:
            made = self._charges.get(charge_id)
            if made is None:
                self.violations.append(f"refund of {charge_id}, which was never made")
                return
            self.sent.append(f"refund {made.item}")
            self.keys[made.item].append(key)
            if made.back is not None and made.back != key:
                self.violations.append(f"{made.item} was given back under two keys")
            made.back = key
            self._changed.notify_all()

    def item_of(self, charge_id: str) -> str:
        with self._changed:
            return self._charges[charge_id].item

    def find(self, key: str) -> str | None:
        """Return the newest charge of a key, given back or not."""
        with self._changed:
            return next((made.id for made in reversed(self._charges.values()) if made.key == key), None)

    @property
    def charges(self) -> list[Charge]:
        """Every charge ever made, in order."""
        with self._changed:
            return list(self._charges.values())

    @property
    def standing(self) -> list[str]:
        """What stands, in the order in which it landed."""
        with self._changed:
            return [made.item for made in self._charges.values() if made.back is None]

    @property
    def undone(self) -> list[str]:
        """What was given back, in the order of the first requests."""
        with self._changed:
            return list(dict.fromkeys(line.split()[1] for line in self.sent if line.startswith("refund")))

    def landed(self, item: str) -> int:
        """Return how often an item was charged, ever."""
        with self._changed:
            return sum(made.item == item for made in self._charges.values())

    def change(self) -> None:
        """Wake those who wait for something that a test keeps beside the ledger."""
        with self._changed:
            self._changed.notify_all()

    def wait_until(self, holds: Callable[[], bool], seconds: float = 20.0) -> None:
        """Return when `holds` is true; looked at after each change.

        Raises:
            AssertionError: The time is over.
        """
        with self._changed:
            assert self._changed.wait_for(holds, seconds), f"the world never came to it: {self.sent}"


def eventually(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    """Return when something becomes true that rings no bell, as a log's end does not.

    Raises:
        AssertionError: The time is over.
    """
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it never came to it"
        time.sleep(0.002)


class Tools(NamedTuple):
    """A charge in both kinds, which are two actions, and its inverse in one of them."""

    charge: AsyncAction[..., dict[str, Any]]
    charge_now: Action[..., dict[str, Any]]
    refund: Inverse[[str]]


def unique(name: str) -> str:
    """Return a name that nothing is registered under."""
    return f"{name}.{next(_numbers)}"


def take(acts: defaultdict[str, list[Callable[[], object]]], item: str) -> object:
    """Do the next act of an item and return its answer."""
    return acts[item].pop(0)() if acts[item] else None


def _refunds(world: World, *, is_sync: bool, keyed: bool) -> Inverse[[str]]:
    async def give_back(charge_id: str) -> Any:
        item = world.item_of(charge_id)
        answer = take(world.on_undo, item)
        if inspect.isawaitable(answer):
            answer = await answer
        if answer is not None:
            return answer
        world.refund(charge_id, current_step().key)
        answer = take(world.after_undo, item)
        return await answer if inspect.isawaitable(answer) else answer

    def give_back_now(charge_id: str) -> Any:
        item = world.item_of(charge_id)
        answer = take(world.on_undo, item)
        if answer is not None:
            return answer
        world.refund(charge_id, current_step().key)
        return take(world.after_undo, item)

    return inverse(unique("refund"), keyed=keyed)(give_back_now if is_sync else give_back)


def _charges(world: World, options: dict[str, Any]) -> tuple[AsyncAction[..., Any], Action[..., Any]]:
    async def charge(item: str, amount: int = 100) -> dict[str, Any]:
        key = current_step().key
        answer = take(world.before, item)
        if inspect.isawaitable(answer):
            await answer
        made = world.charge(item, key)
        answer = take(world.after, item)
        if inspect.isawaitable(answer):
            await answer
        return {"id": made, "item": item}

    def charge_now(item: str, amount: int = 100) -> dict[str, Any]:
        key = current_step().key
        take(world.before, item)
        made = world.charge(item, key)
        take(world.after, item)
        return {"id": made, "item": item}

    return compensable(unique("charge"), **options)(charge), compensable(unique("charge"), **options)(charge_now)


def declare(
    world: World,
    *,
    probe: bool | Callable[[Attempt], Any] = False,
    undo: bool | Callable[[Call[Any]], Any] = True,
    sync_inverse: bool = False,
    keyed: bool = False,
    not_landed: NoEffect = (),
    keyed_undo: Callable[[Attempt], Compensation] | None = None,
    resource: Callable[[Attempt], str] | None = None,
    **options: Any,
) -> Tools:
    """Declare a charge over the world under names of its own.

    Args:
        world: The ledger.
        probe: Ask the ledger, or use this probe.
        undo: Bind the refund, or use this undo.
        sync_inverse: The inverse is a plain function.
        keyed: The inverse is declared as keyed.
        not_landed: As for `compensable`, as are the next two.
        keyed_undo: An undo without a result.
        resource: What the charge changes.
        **options: What else `compensable` takes.
    """
    refund = _refunds(world, is_sync=sync_inverse, keyed=keyed)

    def bind(call: Call[dict[str, Any]]) -> Compensation:
        return refund.bind(call.result["id"])

    async def ask(attempt: Attempt) -> Landed[dict[str, Any]] | NotLanded | Unknown:
        found = world.find(attempt.key)
        return NotLanded() if found is None else Landed({"id": found, "item": attempt.args["item"]})

    options |= {"not_landed": not_landed, "keyed_undo": keyed_undo, "resource": resource}
    charge, charge_now = _charges(world, options)
    for action in (charge, charge_now):
        if undo is not False:
            action.undo(bind if undo is True else undo)
        if probe is not False:
            action.probe(ask if probe is True else probe)
    return Tools(charge, charge_now, refund)


class Cut:
    """A timeout that passes when an effect gets to it: around the call as `async with`, and among the effect's acts."""

    async def __aenter__(self) -> None:
        self._limit = asyncio.timeout(None)
        await self._limit.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._limit.__aexit__(kind, error, trace)

    async def __call__(self) -> None:
        self._limit.reschedule(asyncio.get_running_loop().time())
        await asyncio.sleep(60)


class Ended(NamedTuple):
    """A scope that was left: its saga, and what came out of it."""

    saga: Saga
    error: BaseException | None

    @property
    def states(self) -> list[str]:
        """The steps' states, in the order of their intents."""
        return [step.state for step in self.saga.report.steps]

    @property
    def notes(self) -> str:
        """The notes on the exception that came out."""
        return "\n".join(getattr(self.error, "__notes__", ()))


def in_scope(store: Store, body: Callable[[Saga], Coroutine[Any, Any, object]], **options: Any) -> Ended:
    """Run a body inside `async with saga_scope()` on a loop of its own, and return how it ended.

    What a failed expectation of the test raises passes through.
    """
    opened: list[Saga] = []

    async def scope() -> None:
        async with saga_scope(store=store, **options) as saga:
            opened.append(saga)
            await body(saga)

    try:
        asyncio.run(scope())
    except (AssertionError, pytest.fail.Exception):
        raise
    except BaseException as error:
        if not opened:
            raise
        return Ended(opened[0], error)
    return Ended(opened[0], None)


def in_plain_scope(store: Store, body: Callable[[Saga], object], **options: Any) -> Ended:
    """Run a body inside `with saga_scope()`, and return how it ended; a failed expectation passes through."""
    opened: list[Saga] = []
    try:
        with saga_scope(store=store, **options) as saga:
            opened.append(saga)
            body(saga)
    except (AssertionError, pytest.fail.Exception):
        raise
    except BaseException as error:
        if not opened:
            raise
        return Ended(opened[0], error)
    return Ended(opened[0], None)


def done(store: Store) -> list[str]:
    """Return the ids of a store's settled sagas."""
    assert isinstance(store, Backend)
    return list(store.done_sagas())


def left_open(store: Store) -> list[str]:
    """Return the ids of a store's sagas that are not settled."""
    assert isinstance(store, Backend)
    return list(store.open_sagas())
