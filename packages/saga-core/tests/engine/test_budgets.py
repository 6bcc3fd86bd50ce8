"""Budgets and rates: what a ledger holds is never exceeded, by whomever, and never given back by a crash."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from saga_core import Gate, GateRefused, Saga, Store, open_store, saga_scope
from saga_core.permissions import Charge, Denial, Dispatch, Permit
from saga_core.rules import budget, rate
from saga_core.stores.permits import Permits
from saga_core.stores.store import Backend

from .world import World, declare, in_plain_scope, in_scope

DAY = timedelta(days=1)
HOUR = 3600 * 10**9


def test_a_budget_is_spent_and_then_no_more(store: Store, world: World) -> None:
    tools, gate = declare(world, money=("amount", "usd")), Gate(budget({"usd": 250}, per=DAY))

    async def body(saga: Saga) -> None:
        await tools.charge("a", 100)
        await tools.charge("b", 100)
        with pytest.raises(GateRefused, match=r"the budget of 250 usd per 1 day, 0:00:00 is used up") as caught:
            await tools.charge("c", 100)
        assert caught.value.rule == "budget"
        await tools.charge("d", 50)

    assert in_scope(store, body, gate=gate).error is None
    assert world.standing == ["a", "b", "d"]


def test_what_was_undone_stays_spent_and_what_was_refused_never_was(store: Store, world: World) -> None:
    tools, gate = declare(world, money=("amount", "usd")), Gate(budget({"usd": 100}, per=DAY))

    def body(saga: Saga) -> None:
        with pytest.raises(GateRefused):
            tools.charge_now("a", 101)
        tools.charge_now("b", 60)
        raise ValueError

    in_plain_scope(store, body, gate=gate)
    assert world.standing == []
    ended = in_plain_scope(store, lambda _: tools.charge_now("c", 41), gate=gate)
    assert isinstance(ended.error, GateRefused)
    assert in_plain_scope(store, lambda _: tools.charge_now("d", 40), gate=gate).error is None
    assert world.standing == ["d"]


def test_of_several_limits_all_are_taken_or_none(store: Store, world: World) -> None:
    tools = declare(world, money=("amount", "usd"))
    wide, narrow = budget({"usd": 100}, per=DAY), budget({"usd": 10}, per=timedelta(hours=1), by="item")
    gate = Gate(wide, narrow)

    def body(saga: Saga) -> None:
        tools.charge_now("a", 10)
        for _ in range(20):
            with pytest.raises(GateRefused, match="for this item"):
                tools.charge_now("a", 5)
        for item in "bcdefghij":
            tools.charge_now(item, 10)
        with pytest.raises(GateRefused, match="100 usd"):
            tools.charge_now("k", 1)

    assert in_plain_scope(store, body, gate=gate).error is None
    assert world.standing == list("abcdefghij")


def test_a_rule_twice_in_a_gate_takes_twice(store: Store, world: World) -> None:
    """Both ask the same ledger; counting once would let the sum pass the limit."""
    tools, rule = declare(world, money=("amount", "usd")), budget({"usd": 100}, per=DAY)
    ended = in_plain_scope(store, lambda _: tools.charge_now("a", 60), gate=Gate(rule, rule))
    assert isinstance(ended.error, GateRefused)
    assert world.sent == []


def test_a_rate_counts_calls(store: Store, world: World) -> None:
    tools, gate = declare(world), Gate(rate(2, per=DAY, by="item"))

    def body(saga: Saga) -> None:
        tools.charge_now("a")
        tools.charge_now("a")
        tools.charge_now("b")
        with pytest.raises(GateRefused, match="2 calls per 1 day"):
            tools.charge_now("a")

    assert in_plain_scope(store, body, gate=gate).error is None
    assert world.standing == ["a", "a", "b"]


def test_a_resumed_call_takes_nothing_again(store: Store, world: World) -> None:
    tools, gate = declare(world, money=("amount", "usd")), Gate(budget({"usd": 100}, per=DAY))

    def body(saga: Saga) -> None:
        tools.charge_now("a", 60)
        saga.suspend("later")

    for _ in range(3):
        assert in_plain_scope(store, body, gate=gate, key="order").error is None
    assert world.standing == ["a"]
    assert in_plain_scope(store, lambda _: tools.charge_now("b", 40), gate=gate).error is None


def test_a_metered_step_is_on_the_disk_whatever_its_tier(file_store: Store, world: World) -> None:
    tools, gate = declare(world, money=("amount", "usd"), tier="process"), Gate(budget({"usd": 100}, per=DAY))
    durable: list[bool] = []
    world.before["a"].append(lambda: durable.append(is_durable()))

    def is_durable() -> bool:
        session = handle[0]._node.session  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        return session.log.durable >= session.written

    handle: list[Saga] = []

    def body(saga: Saga) -> None:
        handle.append(saga)
        tools.charge_now("a", 60)

    assert in_plain_scope(file_store, body, gate=gate).error is None
    assert durable == [True]


def test_a_store_that_is_full_lets_no_metered_call_run(
    file_store: Store, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from saga_core.errors import StoreError  # noqa: PLC0415

    tools, gate = declare(world, money=("amount", "usd")), Gate(budget({"usd": 100}, per=DAY))
    assert isinstance(file_store, Backend)

    def full(*_: object) -> Any:
        raise StoreError("no space left")

    def body(saga: Saga) -> None:
        with monkeypatch.context() as planted:
            planted.setattr(Permits, "dispatch", full)
            with pytest.raises(StoreError):
                tools.charge_now("a", 60)
        tools.charge_now("b", 100)

    assert in_plain_scope(file_store, body, gate=gate).error is None
    assert world.standing == ["b"]


PROGRAM = """
import asyncio, json, sys
from datetime import timedelta
from saga_core import Gate, GateRefused, compensable, inverse, open_store, saga_scope
from saga_core.rules import budget, rate

@inverse("back")
def back() -> None: ...

@compensable("pay", money=("amount", "usd"), undo=lambda call: back.bind())
async def pay(amount: int) -> int:
    with open(sys.argv[2], "a") as ledger:
        ledger.write(f"{amount}\\n")
    return amount

async def one(store, gate, amount):
    try:
        async with saga_scope(store=store, gate=gate):
            await pay(amount)
        return 1
    except GateRefused:
        return 0

async def main():
    store = open_store(sys.argv[1])
    gate = Gate(budget({"usd": 1000}, per=timedelta(days=1)), rate(400, per=timedelta(days=1)))
    amounts = [1 + (int(sys.argv[3]) * 7 + number) % 9 for number in range(64)]
    print(json.dumps(sum(await asyncio.gather(*(one(store, gate, amount) for amount in amounts)))))

asyncio.run(main())
"""


def test_eight_processes_of_64_tasks_do_not_spend_one_unit_too_much(tmp_path: Path) -> None:
    ledger, url = tmp_path / "ledger", f"file:{tmp_path / 'store'}"
    open_store(url).close()
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, url, str(ledger), str(number)], stdout=subprocess.PIPE, text=True
        )
        for number in range(8)
    ]
    passed = sum(json.loads(process.communicate(timeout=120)[0]) for process in running)
    amounts = [int(line) for line in ledger.read_text().split()]
    assert len(amounts) == passed
    assert 1000 - 9 < sum(amounts) <= 1000, "filled up, and not one unit over"


def charge(amount: int, limit: int = 100, window: int = HOUR, ledger: str = "l") -> Charge:
    return Charge(ledger, str(amount), str(limit), window, "budget", "here", "used up")


class Hands:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.at = 1_700_000_000 * 10**9
        self.boot_at = 10**12

    def wall(self) -> int:
        return self.at

    def up(self) -> int:
        return self.boot_at

    def jitter(self) -> float:
        return 1.0

    def pass_by(self, span: int) -> None:
        self.at += span
        self.boot_at += span


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def permits(store: Store, hands: Hands) -> Permits:
    assert isinstance(store, Backend)
    permits = store.permits
    permits._clock = hands  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] -- a test's own clock
    return permits


def spend(permits: Permits, step: int, *charges: Charge, **more: Any) -> bool:
    return isinstance(permits.dispatch(Dispatch(str(step), "saga", "digest", charges, **more)), Permit)


def test_a_window_slides(permits: Permits, hands: Hands) -> None:
    assert spend(permits, 1, charge(60))
    hands.pass_by(HOUR // 2)
    assert spend(permits, 2, charge(40))
    assert not spend(permits, 3, charge(1))
    hands.pass_by(HOUR // 2)
    assert not spend(permits, 4, charge(1)), "the first is exactly one window old"
    hands.pass_by(HOUR // 32)
    assert spend(permits, 5, charge(60))
    assert not spend(permits, 6, charge(1))


def test_setting_the_wall_clock_frees_nothing_and_locks_nothing(permits: Permits, hands: Hands) -> None:
    assert spend(permits, 1, charge(100))
    for jump in (10 * HOUR, -20 * HOUR, 40 * HOUR):
        hands.at += jump
        assert not spend(permits, 2, charge(1)), jump
    hands.boot_at += HOUR + HOUR // 32
    assert spend(permits, 3, charge(100))


def test_across_boots_time_never_goes_back(permits: Permits, hands: Hands, monkeypatch: pytest.MonkeyPatch) -> None:
    from saga_core.stores import permits as module  # noqa: PLC0415

    assert spend(permits, 1, charge(100))
    monkeypatch.setattr(module, "boot_id", lambda: "another boot")
    hands.boot_at = 5
    hands.at -= 40 * HOUR
    assert not spend(permits, 2, charge(1))
    hands.boot_at += HOUR + HOUR // 32
    assert spend(permits, 3, charge(100))


def test_the_same_attempt_goes_on_with_what_it_took_and_nobody_else_does(permits: Permits) -> None:
    assert spend(permits, 1, charge(100))
    assert spend(permits, 1, charge(100))
    assert not spend(permits, 2, charge(100))
    other = permits.dispatch(Dispatch("1", "saga", "another digest", (charge(1),)))
    assert isinstance(other, Denial)


def test_a_log_that_is_ahead_of_the_control_database_closes_the_gate(permits: Permits) -> None:
    assert spend(permits, 1, charge(1), seen=0)
    assert not spend(permits, 2, charge(1), seen=7)


def test_many_threads_share_a_ledger(permits: Permits) -> None:
    passed: list[bool] = []

    def work(number: int) -> None:
        passed.extend(spend(permits, 100 * number + at, charge(1)) for at in range(20))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert passed.count(True) == 100


def test_many_tasks_are_served_by_few_transactions(file_store: Store, world: World) -> None:
    """Else each would wait for the syncs of all before it."""
    tools, gate = declare(world), Gate(rate(1000, per=DAY))
    assert isinstance(file_store, Backend)
    begun: list[int] = []
    permits = file_store.permits
    change = permits._change  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    permits._change = lambda: (begun.append(1), change())[1]  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

    async def one(number: int, opened: asyncio.Barrier) -> None:
        async with saga_scope(store=file_store, gate=gate, new=True):
            await opened.wait()
            await tools.charge(str(number))

    async def all_of_them() -> None:
        opened = asyncio.Barrier(64)
        await asyncio.gather(*(one(number, opened) for number in range(64)))

    asyncio.run(all_of_them())
    assert len(world.standing) == 64
    assert len(begun) < 32
