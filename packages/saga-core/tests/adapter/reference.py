"""A tiny agent framework, and an adapter for it over the door: what every adapter does, and nothing else."""

from __future__ import annotations

import asyncio
import itertools
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from saga_core import Action
from saga_core.adapter import Session
from saga_core.conformance.adapter import Form, Played, Script, ToolCall, Turn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from saga_core import Store
    from saga_core.conformance.adapter.script import Tool

    Around: TypeAlias = Callable[[str], AbstractContextManager[Any]]


class Asked(NamedTuple):
    """A call of the model with the name that the framework gave it."""

    name: str
    call: ToolCall


class Agent:
    """The framework: it asks the model, calls the tools of a turn at once, and shows the model what they returned.

    Attributes:
        seen: The texts of the tools' results.
    """

    def __init__(self, script: Script, tools: Sequence[Tool], around: Around) -> None:
        """Take what the model answers, the tools, and the hook that an adapter needs: what goes around a tool."""
        self._turns = script.turns
        self._tools: Mapping[str, Tool] = {tool.__name__: tool for tool in tools}
        self._names = (f"call_{number}" for number in itertools.count(1))
        self._around = around
        self.seen: list[str] = []

    def run(self) -> str:
        """Run to the final answer."""
        with ThreadPoolExecutor() as pool:
            for turn in self._turns:
                asked = self._ask(turn)
                if isinstance(asked, str):
                    return asked
                running = [pool.submit(copy_context().run, self._call, one) for one in asked]
                self.seen += [one.result() for one in running]
        raise AssertionError("the script has no end")

    async def stream(self) -> AsyncIterator[str]:
        """Run to the final answer, and yield each tool's result and the answer."""
        for turn in self._turns:
            asked = self._ask(turn)
            if isinstance(asked, str):
                yield asked
                return
            results = await asyncio.gather(*map(self._call_on_loop, asked))
            self.seen += results
            for text in results:
                yield text

    def _ask(self, turn: Turn) -> str | list[Asked]:
        if isinstance(turn, BaseException):
            raise turn
        return turn if isinstance(turn, str) else [Asked(next(self._names), call) for call in turn]

    def _call(self, asked: Asked) -> str:
        tool = self._tools[asked.call.tool]
        action = tool if isinstance(tool, Action) else tool.blocking()
        try:
            with self._around(asked.name):
                return str(action(**asked.call.args))
        except Exception as error:  # noqa: BLE001 -- the model reads it
            return f"failed: {error}"

    async def _call_on_loop(self, asked: Asked) -> str:
        tool = self._tools[asked.call.tool]
        if isinstance(tool, Action):
            return await asyncio.to_thread(self._call, asked)
        try:
            with self._around(asked.name):
                return str(await tool(**asked.call.args))
        except Exception as error:  # noqa: BLE001 -- the model reads it
            return f"failed: {error}"


class Reference:
    """The adapter, as a harness: a session for each run, a body around each tool, an end that is told the error."""

    name = "reference"
    forms: frozenset[Form] = frozenset({"sync", "async", "stream"})

    def play(self, script: Script, actions: Sequence[Tool], store: Store | str | None, key: str | None) -> Played:
        session = Session.open_sync("agent", **self.terms(store, key))
        agent = Agent(script, actions, self.around(session))
        session.run_began()
        try:
            answer = agent.run()
        except BaseException as error:
            self.fail_sync(session, error)
            raise
        session.run_ended()
        session.end_sync()
        return Played(answer, agent.seen)

    async def play_async(
        self, script: Script, actions: Sequence[Tool], store: Store | str | None, key: str | None
    ) -> Played:
        *seen, answer = [text async for text in self.streamed(script, actions, store, key)]
        return Played(answer, seen)

    async def break_off(
        self, script: Script, actions: Sequence[Tool], store: Store | str | None, key: str | None
    ) -> None:
        async for _ in self.streamed(script, actions, store, key):
            break

    async def streamed(
        self, script: Script, actions: Sequence[Tool], store: Store | str | None, key: str | None
    ) -> AsyncIterator[str]:
        session = await Session.open("agent", **self.terms(store, key))
        agent = Agent(script, actions, self.around(session))
        session.run_began()
        try:
            async for text in agent.stream():
                yield text
        except BaseException as error:
            await self.fail(session, error)
            raise
        session.run_ended()
        await session.end()

    def terms(self, store: Store | str | None, key: str | None) -> dict[str, Any]:
        return {"store": store, "key": key}

    def around(self, session: Session) -> Around:
        return session.body

    async def fail(self, session: Session, error: BaseException) -> None:
        await session.end(error)

    def fail_sync(self, session: Session, error: BaseException) -> None:
        session.end_sync(error)
