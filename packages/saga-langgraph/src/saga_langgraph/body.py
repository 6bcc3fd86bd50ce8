"""One run of a tool's or a node's body."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from saga_core import NoActiveSaga
from saga_core.adapter import Session
from saga_langgraph.place import place_of
from saga_langgraph.run import config_here, run_of

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

_entered: ContextVar[str | None] = ContextVar("saga_langgraph_place", default=None)


@contextmanager
def body(config: Mapping[str, Any] | None = None, call: str | None = None) -> Generator[None]:
    """Make the saga of the run, or the `saga_scope` around it, ambient for one run of a body.

    In the body of the same place already, nothing changes.

    Args:
        config: The config of the task; default, the one that is running here.
        call: The id of the tool call.

    Raises:
        NoActiveSaga: An effect was called, and neither is there; nothing was called.
    """
    here = config or config_here()
    place = place_of(here, call)
    run = run_of(here)
    if _entered.get() == place != "":
        yield
        return
    scope = run.session.body(place or None) if run is not None else Session.body_here(place) if place else None
    before = _entered.set(place)
    try:
        if scope is None:
            yield
        else:
            with scope:
                yield
    except NoActiveSaga as error:
        if scope is None:
            error.next = "wrap the compiled graph: graph = with_saga(graph), or open a saga_scope() around the run"
        raise
    finally:
        _entered.reset(before)
