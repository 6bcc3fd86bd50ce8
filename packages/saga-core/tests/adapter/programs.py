"""Programs that are killed or that fork around a session; run by test_processes.py in processes of their own.

Their arguments: the file of the ledger, the URL of the store, the name of the program.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from datetime import timedelta

from saga_core import Call, Compensation, SagaError, compensable, current_step, inverse
from saga_core.adapter import Session
from saga_core.conformance.adapter.ledger import Ledger

DEATH = "SAGA_TEST_DEATH"


def ledger() -> Ledger:
    return Ledger(os.environ["SAGA_TEST_LEDGER"])


@inverse("programs.put_back", keyed=True)
async def put_back(effect: str, item: str) -> None:
    if os.environ.get(DEATH) == f"before {item}":
        os.kill(os.getpid(), signal.SIGKILL)
    ledger().take_back(effect, current_step().key)
    if os.environ.get(DEATH) == f"after {item}":
        os.kill(os.getpid(), signal.SIGKILL)


@compensable("programs.take", lands_within=timedelta(0))
async def take(item: str) -> str:
    return ledger().land(item, current_step().key)


@take.undo
def undo(call: Call[str]) -> Compensation:
    return put_back.bind(call.result, call.args["item"])


async def play(session: Session, place: str, item: str) -> str:
    with session.body(place):
        return await take(item)


async def rewind(store: str) -> None:
    """Rewind two of three steps, and die in the middle."""
    session = await Session.open(store=store, key="order")
    for item in "abc":
        await play(session, f"call-{item}", item)
    await session.unwind("another branch", since="call-b")


async def in_a_savepoint(store: str) -> None:
    """Do the same in a savepoint, beside a step of the session's own that came between."""
    session = await Session.open(store=store, key="order")
    part = session.savepoint("part", place="node")
    await play(part, "call-b", "b")
    await play(session, "call-a", "a")
    await play(part, "call-c", "c")
    await part.unwind("another branch", since="call-b")


async def fork(store: str) -> None:
    """Fork with an open session; the child uses every verb that could change something."""
    session = await Session.open(store=store, key="order")
    session.run_began()
    await play(session, "call-a", "a")
    child = os.fork()
    if child == 0:
        refused: list[str] = []
        for number, verb in enumerate(
            (
                lambda: take.blocking()(session.saga, "child"),
                lambda: session.savepoint("part"),
                lambda: session.unwind_sync("back", since="call-a"),
                session.drain_sync,
                lambda: session.end_sync(ValueError()),
                lambda: session.unwind_sync("back"),
                session.commit_sync,
            )
        ):
            try:
                verb()
            except SagaError as error:
                refused.append(f"{number} {type(error).__name__}")
        sys.stdout.write(json.dumps(refused))
        sys.stdout.flush()
        os._exit(0)
    await asyncio.to_thread(os.waitpid, child, 0)
    await play(session, "call-b", "b")
    session.run_ended()
    await session.end()


PROGRAMS = {"rewind": rewind, "in_a_savepoint": in_a_savepoint, "fork": fork}

if __name__ == "__main__":
    os.environ["SAGA_TEST_LEDGER"] = sys.argv[1]
    asyncio.run(PROGRAMS[sys.argv[3]](sys.argv[2]))
