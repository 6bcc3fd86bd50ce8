"""A ledger in a file, tools over it, and a model that answers by a script: what the tests of this package look at."""

from __future__ import annotations

import itertools
import json
import os
import signal
import threading
from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypedDict

import langchain.agents
import langgraph.graph  # pyright: ignore[reportMissingTypeStubs] -- partly untyped, as what is taken from it below
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field, PrivateAttr

from saga_core import (
    Attempt,
    Call,
    Compensation,
    Landed,
    NotLanded,
    compensable,
    current_step,
    inverse,
    irreversible,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

Turn: TypeAlias = "list[tuple[str, dict[str, Any]]] | str | BaseException"

create_agent: Any = vars(langchain.agents)["create_agent"]
add_messages: Any = vars(langgraph.graph)["add_messages"]
StateGraph: Any = vars(langgraph.graph)["StateGraph"]


class Asked(TypedDict):
    """A conversation, as the state of a graph."""

    messages: Annotated[list[AnyMessage], add_messages]


ASKED: dict[str, Any] = {"messages": [{"role": "user", "content": "go"}]}
PATIENCE = 60.0


class Lost(ConnectionError):
    """The answer did not come."""


class Ledger:
    """What really happened, in a file that other processes read too.

    Attributes:
        gates: What a slow effect waits for, by item.
        begun: Set when the effect of an item has begun.
        die_in: The item in whose effect the process is killed.
        dies_after: Killed when the effect has landed, instead of before.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.gates: defaultdict[str, threading.Event] = defaultdict(threading.Event)
        self.begun: defaultdict[str, threading.Event] = defaultdict(threading.Event)
        self.die_in: str | None = None
        self.dies_after = False

    def write(self, what: str, item: str, key: str) -> None:
        if item == self.die_in and not self.dies_after:
            os.kill(os.getpid(), signal.SIGKILL)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([what, item, key]) + "\n")
        if item == self.die_in:
            os.kill(os.getpid(), signal.SIGKILL)

    def lines(self) -> list[list[str]]:
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]

    @property
    def landed(self) -> list[str]:
        return [item for what, item, _ in self.lines() if what == "land"]

    @property
    def undone(self) -> list[str]:
        return [item for what, item, _ in self.lines() if what == "undo"]

    @property
    def standing(self) -> list[str]:
        left = self.landed
        for item in self.undone:
            left.remove(item)
        return left


_here: list[Ledger] = []


def use(ledger: Ledger) -> None:
    """Make a ledger the one that the actions change."""
    _here[:] = [ledger]


@inverse("langgraph_tests.give_back")
async def give_back(item: str) -> None:
    _here[0].write("undo", item, current_step().key)


def _landed(attempt: Attempt) -> Landed[str] | NotLanded:
    sent = [key for what, _, key in _here[0].lines() if what == "land"]
    return Landed(attempt.args["item"]) if attempt.key in sent else NotLanded()


def _undo(call: Call[str]) -> Compensation:
    return give_back.bind(call.args["item"])


@compensable("langgraph_tests.charge", undo=_undo, lands_within=timedelta(0))
async def charge(item: str) -> str:
    """Charge the customer for an item."""
    _here[0].write("land", item, current_step().key)
    return item


@compensable("langgraph_tests.reserve", undo=_undo, lands_within=timedelta(0))
def reserve(item: str) -> str:
    """Reserve an item."""
    _here[0].write("land", item, current_step().key)
    return item


@compensable("langgraph_tests.slow", undo=_undo, lands_within=timedelta(0))
def slow(item: str) -> str:
    """Order an item from a slow supplier; nothing can interrupt it."""
    ledger = _here[0]
    ledger.begun[item].set()
    assert ledger.gates[item].wait(PATIENCE)
    ledger.write("land", item, current_step().key)
    return item


@compensable("langgraph_tests.lossy", undo=_undo, lands_within=timedelta(0))
def lossy(item: str) -> str:
    """Buy an item over a bad line: it lands, and the answer is lost."""
    _here[0].write("land", item, current_step().key)
    raise Lost("the connection broke")


@irreversible("langgraph_tests.wire")
def wire(item: str) -> str:
    """Wire the money for an item."""
    _here[0].write("land", item, current_step().key)
    return item


for _action in (charge, reserve, slow, lossy):
    _action.probe(_landed)


class ScriptedModel(BaseChatModel):
    """Takes the next turn each time it is asked; the messages that it was shown are kept."""

    _turns: Iterator[Turn] = PrivateAttr()
    _numbers: Iterator[int] = PrivateAttr(default_factory=lambda: itertools.count(1))
    shown: list[BaseMessage] = Field(default_factory=list[BaseMessage])

    def __init__(self, *turns: Turn) -> None:
        super().__init__()
        self._turns = iter(turns)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.shown = messages
        turn = next(self._turns)
        if isinstance(turn, BaseException):
            raise turn
        calls: Sequence[tuple[str, dict[str, Any]]] = [] if isinstance(turn, str) else turn
        message = AIMessage(
            turn if isinstance(turn, str) else "",
            tool_calls=[{"name": name, "args": args, "id": f"call_{next(self._numbers)}"} for name, args in calls],
        )
        return ChatResult(generations=[ChatGeneration(message=message)])


def calling(*items: tuple[str, str]) -> list[tuple[str, dict[str, Any]]]:
    """Return the turn that calls tools by name, each for an item."""
    return [(name, {"item": item}) for name, item in items]
