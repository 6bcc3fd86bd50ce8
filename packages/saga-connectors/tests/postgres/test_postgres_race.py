"""Somebody else writes, locks or restores at the same time."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from saga_connectors import postgres
from saga_connectors.credentials import set_resolver
from saga_connectors.postgres import errors
from saga_connectors.postgres._effect import record
from saga_connectors.postgres._restore import restore
from saga_connectors.postgres._transaction import PINS, Connection, Transaction
from saga_connectors.postgres._update import write
from saga_core import AlreadyUndone, Conflict, Saga, saga_scope

pytestmark = pytest.mark.anyio
Rows = Callable[[str], Awaitable[list[str]]]
Unwound = Callable[[], AbstractAsyncContextManager[Saga]]
Connect = Callable[[], Awaitable[Connection]]

ORDERS = ["(1,new,10.00,a)", "(2,new,20.50,b)", "(3,,30.00,c)"]
AMOUNT_1 = "SELECT amount::text FROM orders WHERE id = 1"


async def _blocked(world: Connection, count: int = 1) -> None:
    """Wait until so many transactions of ours wait for a lock."""
    waiting = """
        SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'saga' AND wait_event_type = 'Lock'
    """
    async with asyncio.timeout(30):
        while (await world.fetch(waiting))[0][0] < count:
            await world.fetch("SELECT pg_sleep(0.01)")


async def _gone(world: Connection) -> None:
    """Wait until no transaction of ours is left on the server."""
    ours = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'saga'"
    async with asyncio.timeout(30):
        while await world.fetch(ours):
            await world.fetch("SELECT pg_sleep(0.01)")


async def _restorable(**arguments: Any) -> dict[str, Any]:
    """Land an update and return what its inverse is called with."""
    async with Transaction("pg") as transaction:
        written = await write(transaction, **arguments)
        await record(transaction, "some-key", written.table.relation, written.before, written.after)
        await transaction.commit()
    return {**written.facts(), "effect": "some-key", "effects_schema": "saga", "credential_ref": "pg"}


async def test_the_image_from_before_is_what_the_update_replaced_not_what_was_seen_first(
    world: Connection, connect: Connect, unwound: Unwound, rows: Rows
) -> None:
    writer = await connect()
    await writer.execute("BEGIN; UPDATE orders SET amount = 150 WHERE id = 1")
    async with unwound() as saga:
        updating = asyncio.create_task(
            postgres.update(table="orders", set={"amount": 151}, where={"id": 1}, credential_ref="pg")
        )
        await _blocked(world)
        await writer.execute("COMMIT")
        assert await updating == [{"id": "1", "amount": "151.00"}]
    assert [step.state for step in saga.report.steps] == ["undone"]
    assert await rows("orders") == ["(1,new,150.00,a)", *ORDERS[1:]]


async def test_a_row_that_a_racing_writer_moved_out_of_the_condition_is_not_touched(
    world: Connection, connect: Connect, rows: Rows
) -> None:
    writer = await connect()
    await writer.execute("BEGIN; UPDATE orders SET status = 'taken' WHERE id = 1")
    async with saga_scope(store="memory:"):
        updating = asyncio.create_task(
            postgres.update(table="orders", set={"note": "mine"}, where={"status": "new"}, credential_ref="pg")
        )
        await _blocked(world)
        await writer.execute("COMMIT")
        assert [row["id"] for row in await updating] == ["2"]
    assert await rows("orders") == ["(1,taken,10.00,a)", "(2,new,20.50,mine)", ORDERS[2]]


async def test_a_row_whose_key_a_racing_writer_changed_rolls_the_update_back(
    world: Connection, connect: Connect, rows: Rows
) -> None:
    writer = await connect()
    await writer.execute("BEGIN; UPDATE orders SET id = 9 WHERE id = 1")
    async with saga_scope(store="memory:") as saga:
        updating = asyncio.create_task(
            postgres.update(table="orders", set={"note": "mine"}, where={"status": "new"}, credential_ref="pg")
        )
        await _blocked(world)
        await writer.execute("COMMIT")
        with pytest.raises(errors.RolledBack, match="2 rows matched and 1 were changed"):
            await updating
    assert [step.state for step in saga.report.steps] == ["not_landed"]
    assert await rows("orders") == [*ORDERS[1:], "(9,new,10.00,a)"]


@pytest.mark.parametrize(("setting", "sqlstate"), [("lock_timeout", "55P03"), ("statement_timeout", "57014")])
async def test_a_timeout_on_a_lock_that_is_released_at_once_has_not_landed(
    world: Connection,
    connect: Connect,
    rows: Rows,
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
    sqlstate: str,
) -> None:
    monkeypatch.setitem(PINS, setting, "150ms")
    holder = await connect()
    for _ in range(5):
        await holder.execute("BEGIN; SELECT 1 FROM orders WHERE id = 1 FOR UPDATE")
        async with saga_scope(store="memory:") as saga:
            with pytest.raises(errors.RolledBack) as timeout:
                await postgres.update(table="orders", set={"amount": 1}, where={"id": 1}, credential_ref="pg")
            await holder.execute("COMMIT")
        assert timeout.value.sqlstate == sqlstate
        assert [step.state for step in saga.report.steps] == ["not_landed"]
        assert saga.report.is_clean
    await _gone(world)
    assert await rows("orders") == ORDERS
    assert await rows("saga.effects") == []


async def test_a_cancelled_update_has_provably_not_landed_even_if_the_lock_is_released_at_once(
    world: Connection, connect: Connect, rows: Rows
) -> None:
    holder = await connect()
    for _ in range(5):
        await holder.execute("BEGIN; SELECT 1 FROM orders WHERE id = 1 FOR UPDATE")
        async with saga_scope(store="memory:") as saga:
            updating = asyncio.create_task(
                postgres.update(table="orders", set={"amount": 1}, where={"id": 1}, credential_ref="pg")
            )
            await _blocked(world)
            updating.cancel()
            with pytest.raises(asyncio.CancelledError):
                await updating
            await holder.execute("COMMIT")
        assert [step.state for step in saga.report.steps] == ["not_landed"]
        await _gone(world)
    assert await rows("orders") == ORDERS
    assert await rows("saga.effects") == []


async def test_an_update_that_is_cancelled_while_it_connects_has_provably_not_landed(
    world: Connection, wire: Any, rows: Rows
) -> None:
    set_resolver(lambda _: wire.dsn)
    loop, reached = asyncio.get_running_loop(), asyncio.Event()
    cancelled = threading.Event()

    def stop() -> None:
        loop.call_soon_threadsafe(reached.set)
        assert cancelled.wait(30)

    # The first connection is that of the capture, the second one that of the effect.
    wire.on(b"application_name", nth=2, cut="before", do=stop)
    async with saga_scope(store="memory:") as saga:
        updating = asyncio.create_task(
            postgres.update(table="orders", set={"amount": 1}, where={"id": 1}, credential_ref="pg")
        )
        await reached.wait()
        updating.cancel()
        with pytest.raises(asyncio.CancelledError):
            await updating
        cancelled.set()
    assert [step.state for step in saga.report.steps] == ["not_landed"]
    assert await rows("orders") == ORDERS


async def test_a_backend_that_is_terminated_in_mid_update_has_not_landed(
    world: Connection, connect: Connect, rows: Rows
) -> None:
    holder = await connect()
    await holder.execute("BEGIN; SELECT 1 FROM orders WHERE id = 1 FOR UPDATE")
    async with saga_scope(store="memory:") as saga:
        updating = asyncio.create_task(
            postgres.update(table="orders", set={"amount": 1}, where={"id": 1}, credential_ref="pg")
        )
        await _blocked(world)
        await world.fetch("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'saga'")
        with pytest.raises(errors.RolledBack):
            await updating
        await holder.execute("COMMIT")
    assert [step.state for step in saga.report.steps] == ["not_landed"]
    assert await rows("orders") == ORDERS


async def test_three_restorers_at_once_change_the_value_once(world: Connection, connect: Connect, rows: Rows) -> None:
    await world.execute(
        """
        CREATE TABLE history (status text);
        CREATE FUNCTION remember() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN INSERT INTO history VALUES (NEW.status); RETURN NULL; END';
        CREATE TRIGGER remember AFTER UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION remember();
        """
    )
    arguments = await _restorable(table="orders", set_={"status": "paid"}, where={"id": 1})
    holder = await connect()
    await holder.execute("BEGIN; SELECT 1 FROM orders WHERE id = 1 FOR UPDATE")
    restoring = [asyncio.create_task(restore.fn(**arguments)) for _ in range(3)]
    await _blocked(world, count=3)
    await holder.execute("COMMIT")
    answers = await asyncio.gather(*restoring)
    assert sorted(type(answer).__name__ for answer in answers) == ["AlreadyUndone", "AlreadyUndone", "NoneType"]
    assert await rows("orders") == ORDERS
    assert await rows("history") == ["(paid)", "(new)"] or await rows("history") == ["(new)", "(paid)"]
    assert isinstance(await restore.fn(**arguments), AlreadyUndone)
    await world.execute("UPDATE orders SET status = 'paid' WHERE id = 1")
    assert isinstance(await restore.fn(**arguments), AlreadyUndone)
    assert (await rows("orders"))[0] == "(1,paid,10.00,a)"


async def test_an_edit_that_commits_while_the_undo_waits_for_its_row_is_not_overwritten(
    world: Connection, connect: Connect, rows: Rows
) -> None:
    arguments = await _restorable(table="orders", set_={"status": "paid"}, where={"id": [1, 2]})
    editor = await connect()
    await editor.execute("BEGIN; UPDATE orders SET status = 'disputed' WHERE id = 2")
    restoring = asyncio.create_task(restore.fn(**arguments))
    await _blocked(world)
    await editor.execute("COMMIT")
    answer = await restoring
    assert isinstance(answer, Conflict)
    assert answer.wrote == [{"id": "2", "status": "paid"}]
    assert answer.found == [{"id": "2", "status": "disputed"}]
    assert await rows("orders") == ["(1,paid,10.00,a)", "(2,disputed,20.50,b)", ORDERS[2]]


async def test_updates_of_the_same_rows_in_other_orders_do_not_deadlock(world: Connection, rows: Rows) -> None:
    async def agent(ids: list[int]) -> None:
        async with saga_scope(store="memory:"):
            for _ in range(5):
                await postgres.update(table="orders", set={"note": str(ids)}, where={"id": ids}, credential_ref="pg")

    await asyncio.gather(agent([1, 2, 3]), agent([3, 2, 1]))
    assert len({row.rpartition('"')[0].rpartition('"')[2] for row in await rows("orders")}) == 1
