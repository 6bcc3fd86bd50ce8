"""A shop whose ledger is a file, its actions, and crews of one clerk who works in it."""

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crewai import Agent, Crew, Task

from saga_core import (
    Action,
    AsyncAction,
    Call,
    Compensation,
    compensable,
    current_saga,
    inverse,
    irreversible,
    read_only,
)
from saga_crewai import saga_tools
from saga_crewai.testing import ScriptedLLM, Turn


class World:
    """What has happened: one line for each charge and each refund, in order."""

    def __init__(self, ledger: Path) -> None:
        self._ledger = ledger

    @property
    def lines(self) -> list[str]:
        """All that happened."""
        return self._ledger.read_text().splitlines() if self._ledger.exists() else []

    @property
    def stands(self) -> list[str]:
        """What was charged and not refunded."""
        left = [line.removeprefix("charge ") for line in self.lines if line.startswith("charge ")]
        for line in self.lines:
            if line.startswith("refund "):
                left.remove(line.removeprefix("refund "))
        return left


def write(line: str) -> None:
    """Append a line to the ledger, at once and as a whole."""
    ledger = os.open(os.environ["CREW_WORLD"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(ledger, f"{line}\n".encode())
    finally:
        os.close(ledger)


class Declined(Exception):
    """The bank refused before anything happened."""


begun = threading.Event()
"""A slow effect runs."""

may_land = threading.Event()
"""It may go on."""


@inverse("shop.refund")
def refund(customer: str) -> None:
    """Give a charge back."""
    write(f"refund {customer}")


@compensable("shop.charge", not_landed=Declined)
def charge(customer: str, amount: int = 5) -> str:
    """Charge a customer's card.

    The amount is in cents.
    """
    if amount == 7:
        raise Declined("the card was declined")
    write(f"charge {customer}")
    if amount == 13:
        raise ConnectionError("the answer was lost")
    return f"charged {customer}"


@charge.undo
def charge_undo(call: Call[str]) -> Compensation:
    return refund.bind(customer=call.args["customer"])


@compensable("shop.charge_later", not_landed=Declined)
async def charge_later(customer: str) -> str:
    """Charge a customer's card asynchronously."""
    write(f"charge {customer}")
    return f"charged {customer}"


@charge_later.undo
def charge_later_undo(call: Call[str]) -> Compensation:
    return refund.bind(customer=call.args["customer"])


@compensable("shop.charge_slowly")
def charge_slowly(customer: str) -> str:
    """Charge a customer's card once it may land."""
    begun.set()
    assert may_land.wait(60)
    write(f"charge {customer}")
    return f"charged {customer}"


@charge_slowly.undo
def charge_slowly_undo(call: Call[str]) -> Compensation:
    return refund.bind(customer=call.args["customer"])


@irreversible("shop.send_wire")
def send_wire(iban: str) -> str:
    """Send money to a bank account."""
    write(f"wire {iban}")
    return "sent"


@read_only("shop.look_up")
async def look_up(customer: str) -> str:
    """Look a customer up."""
    if customer == "nobody":
        raise LookupError("there is no such customer")
    return f"{customer} is a good customer"


@read_only("shop.give_up")
def give_up(why: str) -> str:
    """Decide that all of it is undone."""
    saga = current_saga()
    assert saga is not None
    saga.rollback(why)
    return "given up"


Tools = Sequence[Action[..., Any] | AsyncAction[..., Any]]


def clerk(model: ScriptedLLM, tools: Tools = (charge,), **options: Any) -> Any:
    """Return an agent who asks a model and does not try again."""
    given: dict[str, Any] = {"max_retry_limit": 0, "tools": saga_tools(*tools), **options}
    return Agent(role="clerk", goal="settle", backstory="a clerk", llm=model, **given)


def task(agent: Any, **options: Any) -> Any:
    """Return a task of an agent."""
    given: dict[str, Any] = {"description": "settle the order", "expected_output": "done", "agent": agent, **options}
    return Task(**given)


def crew(
    turns: Sequence[Turn], *, native: bool = True, tools: Tools = (charge,), **options: Any
) -> tuple[Any, ScriptedLLM]:
    """Return a crew of one clerk with one task, and its model."""
    model = ScriptedLLM(turns, native=native)
    agent = clerk(model, tools)
    return Crew(agents=[agent], tasks=[task(agent)], **options), model


def calls(*customers: str, amount: int = 5) -> list[Turn]:
    """Return one turn for each charge."""
    return [[("charge", {"customer": customer, "amount": amount})] for customer in customers]
