"""LangGraph's SQLite saver, run in an environment that has it; see `isolated.py` for how it is asked."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
from typing import Any, TypedDict


class State(TypedDict):
    """Where the graph stands."""

    left: int


async def _node(state: State) -> State:
    return {"left": state["left"] - 1}


def _again(state: State) -> str:
    return "node" if state["left"] else "__end__"


async def _supersteps(steps: int, number: int) -> float:
    graphs = importlib.import_module("langgraph.graph")
    savers = importlib.import_module("langgraph.checkpoint.sqlite.aio")
    graph = graphs.StateGraph(State)
    graph.add_node("node", _node)
    graph.add_edge("__start__", "node")
    graph.add_conditional_edges("node", _again)
    async with savers.AsyncSqliteSaver.from_conn_string(f"{sys.argv[1]}/langgraph.sqlite") as saver:
        compiled = graph.compile(checkpointer=saver)
        options: dict[str, Any] = {"configurable": {"thread_id": str(number)}, "recursion_limit": steps + 2}
        started = time.perf_counter()
        await compiled.ainvoke({"left": steps}, options, durability="sync")
        return (time.perf_counter() - started) / steps


def main() -> None:
    """Answer with the seconds of a superstep, its checkpoint written before the next one."""
    importlib.import_module("langgraph.graph")
    importlib.import_module("langgraph.checkpoint.sqlite.aio")
    print("ready", flush=True)
    for number, line in enumerate(sys.stdin):
        _, steps = json.loads(line)
        print(asyncio.run(_supersteps(steps, number)), flush=True)


if __name__ == "__main__":
    main()
