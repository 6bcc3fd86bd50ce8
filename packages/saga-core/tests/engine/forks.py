"""A program that forks inside its scopes; run by test_fork.py in a process of its own.

Its arguments: the port of the ledger, the directory of the store, the scenario.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import ledger

from saga_core import (
    Call,
    Compensation,
    Landed,
    NotLanded,
    Saga,
    SagaError,
    compensable,
    current_saga,
    current_step,
    inverse,
    open_store,
    saga_scope,
)

if TYPE_CHECKING:
    from collections.abc import Callable

sagas: list[Saga] = []
PORT, STORE, SCENARIO = int(sys.argv[1]), f"file:{sys.argv[2]}", sys.argv[3]


@inverse("fork.refund")
async def refund(charge_id: str) -> None:
    await asyncio.to_thread(ledger.refund, PORT, current_step().key, charge_id)


@compensable("fork.charge", lands_within=timedelta(0))
def charge(item: str) -> str:
    return ledger.charge(PORT, f"{item} {current_step().key}", 100)["id"]


@charge.undo
def undo(call: Call[str]) -> Compensation:
    return refund.bind(call.result)


@compensable("fork.charge_async", undo=undo)
async def charge_async(item: str) -> str:
    return await asyncio.to_thread(charge_directly, item, current_step().key)


def charge_directly(item: str, key: str) -> str:
    return ledger.charge(PORT, f"{item} {key}", 100)["id"]


@charge.probe
def probe(attempt: Any) -> Any:
    found = ledger.find(PORT, f"{attempt.args['item']} {attempt.key}")
    return NotLanded() if found is None else Landed(found["id"])


def in_child(work: Callable[[], object]) -> str:
    """Fork, do something in the child, and return what came of it there."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        try:
            said = f"returned {work()}"
        except SagaError as error:
            said = f"{type(error).__name__}"
        except BaseException as error:  # noqa: BLE001
            said = f"unexpected {type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


def calls_in_the_child(*, fails: bool) -> list[str]:
    said: list[str] = []
    try:
        with saga_scope(store=STORE) as saga:
            sagas.append(saga)
            charge("before")
            said += [in_child(lambda: charge("child")), in_child(lambda: charge(saga, "child"))]
            charge("behind")
            if fails:
                raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    return [*said, sagas[0].report.state]


def the_child_leaves_the_scope(*, fails: bool) -> list[str]:
    """The child runs on out of the block, as after os.fork() in the middle of a program."""
    reading, writing = os.pipe()
    child = -1
    said = ""
    try:
        with saga_scope(store=STORE) as saga, saga_scope("inner"):
            sagas.append(saga)
            charge("before")
            child = os.fork()
            if fails:
                raise ZeroDivisionError
    except ZeroDivisionError:
        said = "its error"
    except BaseException as error:  # noqa: BLE001
        said = f"{type(error).__name__}: {error}"
    if not child:
        os.write(writing, f"{said} {current_saga()}".encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as pipe:
        return [pipe.read(), sagas[0].report.state]


def the_child_opens_its_own(*, fails: bool) -> list[str]:
    def own() -> str:
        with saga_scope(store=STORE, new=True) as mine:
            charge("child")
        return mine.report.state

    def own_without_new() -> str:
        with saga_scope(store=STORE) as mine:
            charge("child")
        return mine.report.state

    said: list[str] = []
    try:
        with saga_scope(store=STORE) as saga:
            sagas.append(saga)
            charge("before")
            said += [in_child(own), in_child(own_without_new)]
            if fails:
                raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    return [*said, sagas[0].report.state]


def the_child_is_async(*, fails: bool) -> list[str]:
    """A child forked from inside a loop, as multiprocessing's fork does."""
    said: list[str] = []

    def child() -> object:
        asyncio.events._set_running_loop(None)  # noqa: SLF001  # pyright: ignore[reportAttributeAccessIssue]
        return asyncio.run(charge_async("child"))

    async def main() -> str:
        try:
            async with saga_scope(store=STORE) as saga:
                sagas.append(saga)
                await charge_async("before")
                said.append(in_child(child))
                await charge_async("behind")
                if fails:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            pass
        return sagas[0].report.state

    state = asyncio.run(main())
    return [*said, state]


def the_child_collects_the_scope(*, fails: bool) -> list[str]:
    """The last reference to an entered scope goes in the child: the saga stays the parent's."""
    scope = saga_scope(store=STORE)
    sagas.append(scope.__enter__())
    charge(sagas[0], "before")

    def collect() -> str:
        nonlocal scope
        del scope
        gc.collect()
        open_store(STORE).close()
        return "collected"

    said = in_child(collect)
    scope.__exit__(ZeroDivisionError if fails else None, ZeroDivisionError() if fails else None, None)
    return [said, sagas[0].report.state]


def main() -> None:
    """Print what the scenario's processes said."""
    name, _, ends = SCENARIO.partition(":")
    print(json.dumps(globals()[name](fails=ends == "fails")))  # noqa: T201


main()
