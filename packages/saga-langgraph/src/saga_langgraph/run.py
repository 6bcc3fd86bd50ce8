"""One run of a graph in a saga."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from langchain_core.callbacks import BaseCallbackManager
from langgraph.callbacks import GraphCallbackHandler
from langgraph.config import get_config
from langgraph.errors import GraphDrained, GraphInterrupt, ParentCommand

from saga_core.errors import ScopeMisuse

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from langgraph.callbacks import GraphInterruptEvent

    from saga_core.adapter import Session

Kind = Literal["resumable", "lasting", "savepoint"]
"""What a pause means: the saga waits under its key; nothing can resume it; it is the outer scope's business."""


class Run(GraphCallbackHandler):
    """The session of one run, where each of the run's tasks finds it: among the callbacks of its config.

    LangChain hands them down to everything that a run calls, in whatever thread or task that happens.
    """

    run_inline = True

    def __init__(self, session: Session, kind: Kind, on_guardrail: Literal["rollback", "keep"]) -> None:
        self.session = session
        self.on_guardrail = on_guardrail
        self._kind = kind
        self._root: UUID | None = None
        self._is_interrupted = False
        session.run_began()

    @property
    def ignore_chain(self) -> bool:
        """Only the first event is heard: the beginning of the outermost run."""
        return self._root is not None

    @property
    def ignore_chat_model(self) -> bool:
        return True

    @property
    def ignore_llm(self) -> bool:
        return True

    def on_chain_start(self, *_: Any, run_id: UUID, **__: Any) -> None:
        self._root = run_id

    def on_interrupt(self, event: GraphInterruptEvent) -> None:
        """Learn that the run pauses; the interrupt of a graph that one of its tools has invoked is that graph's own."""
        if event.run_id == self._root:
            self._is_interrupted = True

    def end(self, error: BaseException | None, last: object) -> None:
        """End the session as the run has ended: with an error or none, `last` being the last chunk that it streamed.

        Raises:
            ScopeMisuse: The run is interrupted, and nothing can resume it; what it did was undone.
            SagaError: As for `Session.end`.
        """
        verb, given = self._judge(error, last)
        getattr(self.session, f"{verb}_sync")(given)
        self._refuse_pause(verb, error)

    async def aend(self, error: BaseException | None, last: object) -> None:
        """Do as `end` does, on the run's loop."""
        verb, given = self._judge(error, last)
        await getattr(self.session, verb)(given)
        self._refuse_pause(verb, error)

    def _judge(self, error: BaseException | None, last: object) -> tuple[str, Any]:
        """Return the session's verb, and what it is told."""
        if isinstance(error, GraphDrained) and self._kind == "resumable":
            return "suspend", f"the graph was drained: {error}"
        is_left = isinstance(error, GeneratorExit)
        is_paused = self._is_interrupted if error is None else isinstance(error, GraphInterrupt)
        if is_paused or (is_left and (self._is_interrupted or _shows_interrupt(last))):
            if self._kind != "savepoint":
                return "suspend" if self._kind == "resumable" else "unwind", "the graph was interrupted"
            error = None
        if error is None or isinstance(error, ParentCommand):
            self.session.run_ended()
            return "end", None
        return "end", error

    def _refuse_pause(self, verb: str, error: BaseException | None) -> None:
        if verb == "unwind" and error is None:
            raise ScopeMisuse(
                "the graph was interrupted, and nothing can resume its saga: it has no key",
                saga_id=self.session.saga.id,
                world="what the run did was undone",
                next="compile the graph with a checkpointer and give a thread_id, or name the saga: with_saga(key=...)",
                report=self.session.report,
            )


def run_of(*configs: Mapping[str, Any]) -> Run | None:
    """Return the newest run among the callbacks of the configs whose saga has not ended; None if there is none."""
    for config in configs:
        callbacks = config.get("callbacks") or ()
        handlers = callbacks.handlers if isinstance(callbacks, BaseCallbackManager) else callbacks
        for handler in reversed(handlers):
            if isinstance(handler, Run) and not handler.session.is_ended:
                return handler
    return None


def config_here() -> Mapping[str, Any]:
    """Return the config of the task that runs here; an empty one outside."""
    try:
        return get_config()
    except RuntimeError:
        return {}


def _shows_interrupt(chunk: Any) -> bool:
    """Tell whether a streamed chunk, of whatever stream mode, says that the graph waits for an answer."""
    if isinstance(chunk, tuple):
        return _shows_interrupt(chunk[-1])
    if not isinstance(chunk, dict):
        return False
    parts = cast("dict[str, Any]", chunk)
    return "__interrupt__" in parts or bool(parts.get("interrupts")) or _shows_interrupt(parts.get("data"))
