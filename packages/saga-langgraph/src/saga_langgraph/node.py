"""Nodes that call actions."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from saga_langgraph.body import body

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")


def saga_node(fn: Callable[P, T], /) -> Callable[P, T]:
    """Return the same node, its body in the run's saga: the actions that it calls are recorded.

    The signature is kept, and with it what LangGraph injects. A node that is retried or resumed begins again, and a
    call that it had made already is answered from the log. It also serves under `@task`.
    """
    work: Any = fn

    async def awaited(*args: Any, **kwargs: Any) -> Any:
        with body():
            return await work(*args, **kwargs)

    def called(*args: Any, **kwargs: Any) -> Any:
        with body():
            return work(*args, **kwargs)

    node: Any = awaited if inspect.iscoroutinefunction(fn) else called
    return functools.wraps(fn)(node)
