"""Sagas through the engine over the simulated disk, and a ledger that outlives every crash: G1 to G5 on top."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from saga_core import (
    Attempt,
    Call,
    Compensation,
    Landed,
    NotLanded,
    Saga,
    SagaError,
    compensable,
    current_step,
    inverse,
    saga_scope,
)
from saga_core.fold import fold
from saga_core.recovery import recover

from .exploration import Explorer
from .programs import Play, Program
from .witness import Violation

if TYPE_CHECKING:
    from collections.abc import Callable

    from saga_core.stores.file import FileStore
    from saga_core.view import SagaView

    from .stage import Stage

_PASSES = 3
_NO_TIME = timedelta(0)


class Charge(NamedTuple):
    """An effect: which saga's, under which key, and the keys under which it was given back."""

    saga: str
    key: str
    back: tuple[str, ...] = ()


class Book(NamedTuple):
    """What the world knows and what the program was told.

    Attributes:
        charges: By id.
        kept: Sagas whose scopes ended by a commit, as their callers were told, and what stood of them then.
        undone: Sagas that were said to be rolled back.
    """

    charges: tuple[tuple[str, Charge], ...] = ()
    kept: tuple[tuple[str, tuple[str, ...]], ...] = ()
    undone: tuple[str, ...] = ()


class _Ledger:
    """The book that is open now."""

    def __init__(self) -> None:
        self.book = Book()
        self.mark: Callable[[str], None] = lambda _: None

    def charge(self, saga: str, key: str) -> str:
        found = self.find(key)
        if found is not None:
            return found
        charges = dict(self.book.charges)
        name = f"ch_{len(charges) + 1}"
        self._write(charges | {name: Charge(saga, key)})
        return name

    def refund(self, name: str, key: str) -> None:
        charges = dict(self.book.charges)
        if name not in charges:
            raise Violation(f"{name} was given back, and was never made")
        charge = charges[name]
        if key not in charge.back:
            self._write(charges | {name: charge._replace(back=(*charge.back, key))})

    def tell_kept(self, saga: str) -> None:
        """The caller of a scope knows that its saga is committed."""
        names = tuple(name for name, made in self.book.charges if made.saga == saga and not made.back)
        self.book = self.book._replace(kept=(*self.book.kept, (saga, names)))
        self.mark("told")

    def tell_undone(self, saga: str) -> None:
        """The caller of a scope knows that its saga is rolled back."""
        self.book = self.book._replace(undone=(*self.book.undone, saga))
        self.mark("told")

    def find(self, key: str) -> str | None:
        return next((name for name, charge in self.book.charges if charge.key == key), None)

    def _write(self, charges: dict[str, Charge]) -> None:
        self.book = self.book._replace(charges=tuple(charges.items()))
        self.mark("effect")


LEDGER = _Ledger()
"""The world."""


@inverse("disk.refund", keyed=True)
def refund(name: str) -> None:
    LEDGER.refund(name, current_step().key)


@compensable("disk.charge", lands_within=_NO_TIME)
def charge(item: str) -> dict[str, Any]:
    step = current_step()
    return {"id": LEDGER.charge(step.saga_id, step.key)}


@charge.undo
def _undo(call: Call[dict[str, Any]]) -> Compensation:
    return refund.bind(call.result["id"])


@charge.probe
def _probe(attempt: Attempt) -> Landed[dict[str, Any]] | NotLanded:
    found = LEDGER.find(attempt.key)
    return NotLanded() if found is None else Landed({"id": found})


class Unhappy(Exception):
    """What a program raises."""


class Trade:
    """What a program does its business with."""

    def __init__(self, store: FileStore) -> None:
        self.store = store

    def run(self, *items: str, fails: bool = False, key: str | None = None) -> None:
        """Charge each item in a scope, which fails in the end or does not; note what its caller is told."""

        def body() -> None:
            for item in items:
                charge(item)
            if fails:
                raise Unhappy

        self.scope(body, key=key)

    def scope(self, body: Callable[[], None], *, key: str | None = None) -> None:
        """Run a body in a scope, and note what its caller is told."""
        opened: list[Saga] = []
        try:
            with saga_scope("trade", store=self.store, key=key) as saga:
                opened.append(saga)
                body()
        except Unhappy:
            if opened[0].report.state == "rolled_back":
                LEDGER.tell_undone(opened[0].id)
        except SagaError:
            return
        else:
            LEDGER.tell_kept(opened[0].id)


def kept(trade: Trade) -> None:
    trade.run("a", "b")


def undone(trade: Trade) -> None:
    trade.run("a", "b", fails=True)


def keyed(trade: Trade) -> None:
    trade.run("a", key="order", fails=True)
    trade.run("b", key="order")


def savepoint(trade: Trade) -> None:
    def body() -> None:
        charge("a")
        try:
            with saga_scope("inner"):
                charge("b")
                raise Unhappy
        except Unhappy:
            charge("c")

    trade.scope(body)


TRADES = {act.__name__: act for act in (kept, undone, keyed, savepoint)}


class TradeExplorer(Explorer):
    """Plays programs over the engine, and recovers by `saga_core.recover`."""

    kinds = frozenset({"eio", "enospc", "full", "short"})

    def program_of(self, name: str) -> Program:
        return program_of(name)

    def play(self, program: Program) -> None:
        _open_book(self.stage, Book())
        self.stage.machine.mark("start")
        try:
            store = self.stage.open("a")
        except SagaError:
            return
        TRADES[program.name.removeprefix("trade-")](Trade(store))
        store.close()

    def judge(self, told: object, *, killed: bool, is_faulty: bool) -> None:  # noqa: ARG002 -- one oracle for both
        assert isinstance(told, Book)
        _open_book(self.stage, told)
        machine = self.stage.machine
        machine.mark("start")
        if is_faulty:
            _recover(self.stage, "rescuer")
            machine.kill("rescuer")
            machine.fault = None
        store = _recover(self.stage, "another rescuer")
        if store is None:
            raise Violation("the store cannot be opened")
        _check(store)
        store.close()


def program_of(name: str) -> Program:
    """Return the program of a name, as `trade-kept`."""
    return Program(name, _nothing)


def _nothing(_: Play) -> None:
    """The explorer plays trades itself."""


def _open_book(stage: Stage, book: Book) -> None:
    LEDGER.book = book
    LEDGER.mark = stage.machine.note
    stage.machine.tell = lambda: LEDGER.book


def _recover(stage: Stage, process: str) -> FileStore | None:
    try:
        store = stage.open(process)
        for _ in range(_PASSES):
            recover(store, wait=_NO_TIME, resume_grace=_NO_TIME)
    except SagaError:
        return None
    return store


class Logs(NamedTuple):
    """What the logs say after recovery: the state of each saga, and the sagas whose logs are damaged."""

    views: dict[str, SagaView]
    damaged: set[str]

    def state(self, saga: str) -> str:
        """Return a saga's state in a word."""
        if saga in self.damaged:
            return "damaged"
        return self.views[saga].state if saga in self.views else "gone"


def _read(store: FileStore) -> Logs:
    logs = Logs({}, set())
    for saga in [*store.open_sagas(), *store.done_sagas()]:
        reading = store.read(saga)
        if reading is not None and reading.damage is not None:
            logs.damaged.add(saga)
        elif reading is not None and reading.records:
            logs.views[saga] = fold(reading.records)
    return logs


def _check(store: FileStore) -> None:
    """Compare the ledger with what the logs say after recovery.

    Raises:
        Violation: A guarantee does not hold.
    """
    book, logs = LEDGER.book, _read(store)
    for name, made in book.charges:
        if len(made.back) > 1:
            raise Violation(f"G4: {name} was given back under {len(made.back)} keys")
        state = logs.state(made.saga)
        if state == "gone":
            raise Violation(f"G1: {name} was made, and its saga {made.saga} has no log")
        if not made.back and state not in {"committed", "damaged"} and not logs.views[made.saga].open_cases:
            raise Violation(f"G3: {name} stands, and its saga is {state}, without a case")
    for saga, names in book.kept:
        if logs.state(saga) != "committed":
            raise Violation(f"G2: saga {saga} was committed, and is {logs.state(saga)}")
        undone = [name for name, made in book.charges if name in names and made.back]
        if undone:
            raise Violation(f"G2: saga {saga} was committed, and {undone} were undone")
    for saga in book.undone:
        if logs.state(saga) != "rolled_back":
            raise Violation(f"G3: saga {saga} was rolled back, and is {logs.state(saga)}")
    _check_ends(book, logs)


def _check_ends(book: Book, logs: Logs) -> None:
    for saga, view in logs.views.items():
        standing = [name for name, made in book.charges if made.saga == saga and not made.back]
        if view.state == "rolled_back" and standing:
            raise Violation(f"G3: saga {saga} is rolled back, and {standing} stand")
        if not view.is_settled and not view.open_cases:
            raise Violation(f"saga {saga} is {view.state} after recovery, and nobody is told")
