"""A compiled graph whose runs are sagas."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.runnables.config import merge_configs
from langgraph.pregel import Pregel  # pyright: ignore[reportMissingTypeStubs] -- partly untyped

from saga_core import current_saga
from saga_core.adapter import Session
from saga_core.errors import ScopeMisuse
from saga_langgraph.resume import undo_unknown, undo_unknown_sync
from saga_langgraph.run import Run, config_here, run_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from langchain_core.runnables import RunnableConfig

    from saga_core import Gate, Store
    from saga_langgraph.run import Kind

G = TypeVar("G", bound="Pregel[Any, Any, Any, Any]")


def with_saga(
    graph: G,
    /,
    *,
    key: str | None = None,
    store: Store | str | None = None,
    gate: Gate | None = None,
    on_guardrail: Literal["rollback", "keep"] = "rollback",
) -> G:
    """Return the same graph, its runs recorded and undone as sagas.

    A run that ends by an error, a guardrail, a cancellation or an abandoned stream is drained and unwound before the
    caller sees the end; its error comes out unchanged, with a note. One that ends well is committed. One that is
    interrupted or drained is suspended, and resumed by the next run of its key.

    The graph is a copy whose class is derived from the graph's: all methods and `isinstance` hold. Inside an open
    `saga_scope` a run is a savepoint; inside the run of another graph it belongs to that run.

    Args:
        graph: A compiled graph, or an entrypoint of the functional API.
        key: Names the saga of a run, so that a later run resumes it. Default: the thread, where the graph has a
            checkpointer; a committed saga is then followed by a new one.
        store: A store or its URL; default SAGA_STORE, else `file:.saga`.
        gate: The rules that every call passes; the built-in ones always stand.
        on_guardrail: What to do where a guardrail ends an agent early (`jump_to="end"`); SagaMiddleware notices it.

    Raises:
        TypeError: It is no compiled graph.
    """
    if not isinstance(graph, Pregel):  # pyright: ignore[reportUnnecessaryIsInstance] -- a builder is a common mistake
        raise TypeError(f"with_saga takes a compiled graph, not a {type(graph).__qualname__}: call .compile() first")
    plain: Any = type(graph)
    own = {name: value for name, value in (("store", store), ("gate", gate)) if value is not None}

    def stream(self: Any, given: Any, config: RunnableConfig | None = None, **options: Any) -> Iterator[Any]:
        opening = _opening(self, config or {}, key, own)
        if opening is None:
            yield from plain.stream(self, given, config, **options)
            return
        session = Session.open_sync(self.get_name(), **opening[1])
        undo_unknown_sync(session, self, merge_configs(self.config, config))
        run = Run(session, opening[0], on_guardrail)
        chunks = plain.stream(self, given, _carrying(config or {}, run), **options)
        last = None
        try:
            for last in chunks:
                yield last
        except BaseException as error:
            try:
                chunks.close()
            finally:
                run.end(error, last)
            raise
        run.end(None, last)

    async def astream(
        self: Any, given: Any, config: RunnableConfig | None = None, **options: Any
    ) -> AsyncIterator[Any]:
        opening = _opening(self, config or {}, key, own)
        if opening is None:
            async for chunk in plain.astream(self, given, config, **options):
                yield chunk
            return
        session = await Session.open(self.get_name(), **opening[1])
        await undo_unknown(session, self, merge_configs(self.config, config))
        run = Run(session, opening[0], on_guardrail)
        chunks = plain.astream(self, given, _carrying(config or {}, run), **options)
        last = None
        try:
            async for last in chunks:
                yield last
        except BaseException as error:
            try:
                await chunks.aclose()
            finally:
                await run.aend(error, last)
            raise
        await run.aend(None, last)

    members = {"stream": stream, "astream": astream, "__module__": plain.__module__, "__doc__": plain.__doc__}
    same = copy.copy(graph)
    same.__class__ = type(plain.__name__, (plain,), members)
    return same


def _opening(
    graph: Any, config: RunnableConfig, key: str | None, own: dict[str, Any]
) -> tuple[Kind, dict[str, Any]] | None:
    """Return how the session of a run is opened; None where the run belongs to one that goes on around it."""
    around = cast("RunnableConfig", config_here())
    outer = run_of(config, graph.config or {}, around)
    if outer is not None and not own and key is None:
        return None
    if outer is not None:
        raise ScopeMisuse(
            "a graph inside another one's run belongs to its saga: key=, store= and gate= stand on the outermost one",
            saga_id=outer.session.saga.id,
            world="the inner graph was not run",
            next="leave them out where the inner graph is wrapped: with_saga(inner)",
        )
    merged = merge_configs(around, graph.config, config)
    if key is not None:
        return "resumable", {**own, "key": key}
    if current_saga() is not None:
        return "savepoint", own
    where = merged.get("configurable", {})
    thread, task = where.get("thread_id"), where.get("checkpoint_ns")  # a task: the graph is part of another one
    if thread is None or not (graph.checkpointer or task):
        return "lasting", own
    return "resumable", {**own, "key": "/".join(filter(None, (f"langgraph:{thread}", task))), "if_settled": "new"}


def _carrying(config: RunnableConfig, run: Run) -> RunnableConfig:
    """Return the config with the run among its callbacks."""
    callbacks = config.get("callbacks")
    if not isinstance(callbacks, BaseCallbackManager):
        return {**config, "callbacks": [*(callbacks or ()), run]}
    callbacks = callbacks.copy()
    callbacks.add_handler(run, inherit=True)
    return {**config, "callbacks": callbacks}
