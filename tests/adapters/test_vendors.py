"""In each framework an agent changes a Stripe account, a Salesforce org and a database; the vendors tell the rest."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from script import FRAMEWORKS, Calls, Player, Turn, player_of
from tools import WIRE
from world import AMOUNT, STANDING, UNDONE, UNTOUCHED, World

from saga_core import open_store
from saga_core.recovery import recover

LEAD: Calls = [("patch_lead", {"status": "Won"})]
ORDERS: Calls = [("pay_orders", {"customer": "ada"})]
CHARGE: Calls = [("charge_customer", {"amount": AMOUNT})]
DEAL: list[Turn] = [LEAD, ORDERS, CHARGE]
FORMS: dict[str, Callable[[Player, list[Turn], str], list[str]]] = {
    "sync": lambda player, turns, store: player.play(turns, store),
    "async": lambda player, turns, store: asyncio.run(player.play_async(turns, store)),
    "threads": lambda player, turns, store: asyncio.run(player.play_threads(turns, store)),
}


class Hallucinated(Exception):
    """The model has lost its way."""


@pytest.fixture(params=FRAMEWORKS)
def framework(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def player(framework: str) -> Player:
    return player_of(framework)


@pytest.fixture(params=list(FORMS))
def play(request: pytest.FixtureRequest, player: Player, store: str) -> Callable[[list[Turn]], list[str]]:
    return lambda turns: FORMS[request.param](player, turns, store)


def test_a_deal_that_ends_well_stands(world: World, play: Callable[[list[Turn]], list[str]]) -> None:
    seen = play([*DEAL, "the deal is closed"])
    assert world.read_back() == STANDING
    assert seen[0] == "the Lead is Won"


def test_after_a_failure_each_vendor_is_back_where_it_was(
    world: World, play: Callable[[list[Turn]], list[str]]
) -> None:
    failure = Hallucinated("a field that is not there")
    with pytest.raises(Hallucinated) as caught:
        play([*DEAL, failure])
    assert caught.value is failure
    assert world.read_back() == UNDONE


def test_calls_made_at_once_are_all_undone(world: World, play: Callable[[list[Turn]], list[str]]) -> None:
    with pytest.raises(Hallucinated):
        play([[*LEAD, *ORDERS, *CHARGE], Hallucinated()])
    assert world.read_back() == UNDONE


def test_a_wire_is_refused_and_the_model_reads_why(world: World, play: Callable[[list[Turn]], list[str]]) -> None:
    seen = play([LEAD, [("send_wire", WIRE)], ORDERS, CHARGE, "closed without a wire"])
    assert world.read_back() == STANDING
    assert "refused" in seen[1]
    assert "irreversible" in seen[1]


def test_a_declined_card_is_the_models_business_and_undoes_nothing(
    world: World, play: Callable[[list[Turn]], list[str]]
) -> None:
    world.vendors.stripe.arm("answer", on="POST /v1/payment_intents", status=402)
    seen = play([LEAD, ORDERS, CHARGE, CHARGE, "charged at the second trial"])
    assert world.read_back() == STANDING
    assert len(seen) == 4


def test_a_charge_that_lands_after_the_run_was_cancelled_is_refunded(world: World, player: Player, store: str) -> None:
    """Its tool sits in a thread that nothing can stop, and waits for Stripe."""
    world.vendors.stripe.arm("hang", on="POST /v1/payment_intents/*/confirm", when="before")

    async def main() -> None:
        run = asyncio.ensure_future(player.play_threads([LEAD, CHARGE, "never said"], store))
        assert await asyncio.to_thread(world.is_confirming)
        run.cancel()
        await asyncio.sleep(0)
        threading.Timer(0.3, world.vendors.stripe.release).start()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(main())
    assert world.read_back() == UNDONE


def test_a_charge_that_is_cancelled_on_its_way_is_asked_about_and_refunded(
    world: World, player: Player, store: str
) -> None:
    world.vendors.stripe.arm("hang", on="POST /v1/payment_intents/*/confirm", when="after")

    async def main() -> None:
        run = asyncio.ensure_future(player.play_async([LEAD, CHARGE, "never said"], store))
        assert await asyncio.to_thread(world.has_charged)
        run.cancel()
        threading.Timer(0.3, world.vendors.stripe.release).start()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(main())
    assert world.read_back() == UNDONE


def test_a_stream_that_is_broken_off_leaves_nothing(world: World, player: Player, store: str) -> None:
    asyncio.run(player.break_off([LEAD, ORDERS, CHARGE, "never said"], store))
    assert world.read_back() == UNTOUCHED


def test_another_process_undoes_what_a_killed_one_did(world: World, framework: str, store: str) -> None:
    """Killed after the charge has landed and before its answer came back."""
    world.vendors.stripe.arm("hang", on="POST /v1/payment_intents/*/confirm", when="after")
    command = [
        sys.executable,
        str(Path(__file__).with_name("process.py")),
        framework,
        store,
        json.dumps([*DEAL, "done"]),
    ]
    agent = subprocess.Popen(command, env=os.environ)
    try:
        assert world.has_charged()
    finally:
        agent.send_signal(signal.SIGKILL)
        agent.wait()
    world.vendors.stripe.release()
    for _ in range(2):
        recover(open_store(store), wait=timedelta(seconds=60))
        assert world.read_back() == UNDONE
