"""One run of the SDK inside a saga: how it begins, and what its result means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, cast

from agents import RunState
from agents.run import RunOptions

from saga_core import Gate, Store, current_saga
from saga_core.adapter import Session
from saga_core.errors import ScopeMisuse
from saga_openai.errors import InterruptedWithoutKey

if TYPE_CHECKING:
    from agents import Agent
    from agents.result import RunResultBase

    from saga_core import Saga

T = TypeVar("T")

_WITHOUT_EFFECT = frozenset({"refused", "not_landed", "undone"})


class Terms(RunOptions[T], Generic[T], total=False):
    """The keyword arguments of `SagaRunner`: those of `agents.Runner.run`, and those of the saga.

    Attributes:
        key: Names the saga, so that it can be resumed.
        if_settled: What to do when the saga of the key is committed: raise, begin a new one, or return its results.
        store: A store or its URL; default SAGA_STORE, else `file:.saga`.
        gate: The rules that every call passes; the built-in ones always stand.
        tags: Names and values to find the saga by.
        stray: What the commit does with a step that failed towards the model and landed: undo it, or open a case.
        drain_timeout: How long the end waits for effects that still run; default 30 s.
        unwind_timeout: How long the end undoes in the caller's sight; the rest goes on in the background. Default 30 s.
        on_handled_error: Whether a run that failed is undone (the default) although one of the `error_handlers`
            answered for it.
    """

    key: str | None
    if_settled: Literal["raise", "new", "return"]
    store: Store | str | None
    gate: Gate | None
    tags: Mapping[str, str]
    stray: Literal["undo", "case"]
    drain_timeout: timedelta
    unwind_timeout: timedelta
    on_handled_error: Literal["rollback", "keep"]


_OF_THE_SAGA = ("key", "if_settled", "store", "gate", "tags", "stray", "drain_timeout", "unwind_timeout")
_OURS = frozenset({*_OF_THE_SAGA, "on_handled_error"})


class Run:
    """A run that has begun.

    Attributes:
        session: Its saga, or its savepoint of the one that was open.
        place: By what the steps of tools without a place of their own are found when the run is resumed.
    """

    def __init__(self, session: Session, outer: Saga | None, place: str | None, terms: Mapping[str, Any]) -> None:
        self.session = session
        self.place = place
        self._outer = outer
        self._terms = terms
        session.run_began()

    @classmethod
    async def open(cls, agent: Agent[Any], given: object, terms: Mapping[str, Any]) -> Self:
        """Open the saga of a run; what an unfinished run of its key left is undone, unless this one resumes it.

        Raises:
            SagaError: It cannot be opened; nothing was run.
        """
        place = _place(cast("RunState[Any]", given)) if isinstance(given, RunState) else None
        asked = {name: terms[name] for name in _OF_THE_SAGA if name in terms}
        outer = current_saga()
        session = await Session.open(agent.name, **asked)
        if outer is not None and outer.id != session.saga.id:  # that scope has ended; the run is a saga of its own
            outer = None
        is_begun = session.report.state != "committed" and bool(session.report.steps)
        if is_begun and outer is None and place is None:
            await session.unwind("a new run of its key began")  # a model does not repeat itself: nothing would match
            session = await Session.open(agent.name, **asked)
        return cls(session, outer, place, terms)

    def options(self) -> dict[str, Any]:
        """Return the arguments for the SDK's runner; an error handler that is asked has the run undone."""
        options = {name: value for name, value in self._terms.items() if name not in _OURS}
        handlers = options.get("error_handlers")
        if handlers and self._terms.get("on_handled_error") != "keep":
            options["error_handlers"] = {kind: self._watched(kind, handlers[kind]) for kind in handlers}
        return options

    def finish(self, result: RunResultBase) -> None:
        """Decide by the result that the run came to: one that waits for approvals is suspended, any other committed.

        Raises:
            InterruptedWithoutKey: It waits, and its saga could not be found again.
        """
        self.session.run_ended()
        waiting = len(getattr(result, "interruptions", ()))
        if not waiting:
            return
        try:
            (self._outer or self.session.saga).suspend(f"its run waits for {waiting} approvals")
        except ScopeMisuse as unfit:
            if all(step.state in _WITHOUT_EFFECT for step in self.session.report.steps):
                return
            raise InterruptedWithoutKey(
                f"the run waits for {waiting} approvals, and its saga cannot: {unfit.args[0]}",
                saga_id=self.session.saga.id,
                world="what the run did is undone",
                next="give the run a key, SagaRunner.run(agent, input, key=...), and resume it under the same one",
            ) from unfit

    def _watched(self, kind: str, handler: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def answer(data: Any) -> Any:
            self.session.latch(f"the run failed ({kind}), whatever its error handler answers")
            return handler(data)

        return answer


def _place(state: RunState[Any]) -> str:
    """Name the resumption by the calls that it waits for: the same saved state has the same name."""
    waiting = (str(getattr(item.raw_item, "call_id", "")) for item in state.get_interruptions())
    return " ".join(["resumed", *sorted(waiting)])
