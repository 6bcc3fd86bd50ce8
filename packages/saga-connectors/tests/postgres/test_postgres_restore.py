"""What the undo puts back, and what it leaves alone."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from saga_connectors import postgres
from saga_connectors.postgres._transaction import PINS, Connection
from saga_core import Saga

pytestmark = pytest.mark.anyio
Rows = Callable[[str], Awaitable[list[str]]]
Unwound = Callable[[], AbstractAsyncContextManager[Saga]]

ORDERS = ["(1,new,10.00,a)", "(2,new,20.50,b)", "(3,,30.00,c)"]


async def _update(set_: Mapping[str, Any], where: Mapping[str, Any], table: str = "orders") -> None:
    await postgres.update(table=table, set=set_, where=where, credential_ref="pg")


def _states(saga: Saga) -> list[str]:
    return [step.state for step in saga.report.steps]


def _reason(saga: Saga) -> str:
    """Return the words of the one case."""
    (case,) = saga.report.cases
    return case


async def test_two_steps_on_one_row_are_undone_newest_first(world: Connection, rows: Rows, unwound: Unwound) -> None:
    async with unwound() as saga:
        await _update({"status": "paid", "note": "x"}, {"id": 1})
        await _update({"status": "sent"}, {"status": "paid"})
        await _update({"amount": "99.9"}, {"id": [1, 2]})
        assert await rows("orders") == ["(1,sent,99.90,x)", "(2,new,99.90,b)", "(3,,30.00,c)"]
    assert _states(saga) == ["undone"] * 3
    assert await rows("orders") == ORDERS


async def test_a_later_change_of_a_written_column_is_left_alone(
    world: Connection, rows: Rows, unwound: Unwound
) -> None:
    async with unwound() as saga:
        await _update({"status": "paid"}, {"id": [1, 2]})
        await world.execute("UPDATE orders SET status = 'disputed' WHERE id = 2")
    assert _states(saga) == ["conflict"]
    assert saga.report.state == "needs_human"
    assert "'disputed'" in _reason(saga)
    # All or nothing: the row that nobody touched stays as well, so that a person sees one state and not a mixture.
    assert await rows("orders") == ["(1,paid,10.00,a)", "(2,disputed,20.50,b)", "(3,,30.00,c)"]
    assert [row[0] for row in await world.fetch("SELECT undone_at FROM saga.effects")] == [None]


async def test_a_later_change_of_another_column_stays_and_ours_is_undone(
    world: Connection, rows: Rows, unwound: Unwound
) -> None:
    async with unwound() as saga:
        await _update({"status": "paid"}, {"id": 1})
        await world.execute("UPDATE orders SET note = 'by hand', amount = 11 WHERE id = 1")
    assert _states(saga) == ["undone"]
    assert await rows("orders") == ['(1,new,11.00,"by hand")', *ORDERS[1:]]


async def test_rows_that_somebody_put_back_already_count_as_undone(
    world: Connection, rows: Rows, unwound: Unwound
) -> None:
    async with unwound() as saga:
        await _update({"status": "paid"}, {"id": [1, 3]})
        await world.execute(
            "UPDATE orders SET status = 'new' WHERE id = 1; UPDATE orders SET status = NULL WHERE id = 3"
        )
    assert _states(saga) == ["undone"]
    assert saga.report.state == "rolled_back"
    assert await rows("orders") == ORDERS


async def test_a_row_put_back_while_another_still_holds_what_was_written_is_a_conflict(
    world: Connection, rows: Rows, unwound: Unwound
) -> None:
    async with unwound() as saga:
        await _update({"status": "paid"}, {"id": [1, 2]})
        await world.execute("UPDATE orders SET status = 'new' WHERE id = 1")
    assert _states(saga) == ["conflict"]
    assert await rows("orders") == ["(1,new,10.00,a)", "(2,paid,20.50,b)", "(3,,30.00,c)"]


async def test_a_deleted_row_is_not_brought_back(world: Connection, rows: Rows, unwound: Unwound) -> None:
    async with unwound() as saga:
        await _update({"status": "paid"}, {"id": [1, 2]})
        await world.execute("DELETE FROM orders WHERE id = 1")
    assert _states(saga) == ["conflict"]
    assert await rows("orders") == ["(2,paid,20.50,b)", "(3,,30.00,c)"]


async def test_a_changed_key_is_followed_and_restored(world: Connection, rows: Rows, unwound: Unwound) -> None:
    async with unwound() as saga:
        await _update({"id": 77, "status": "paid"}, {"id": 1})
        assert await rows("orders") == [*ORDERS[1:], "(77,paid,10.00,a)"]
    assert _states(saga) == ["undone"]
    assert await rows("orders") == ORDERS


async def test_a_key_that_was_put_back_by_hand_counts_as_undone(
    world: Connection, rows: Rows, unwound: Unwound
) -> None:
    async with unwound() as saga:
        await _update({"id": 77}, {"id": 1})
        await world.execute("UPDATE orders SET id = 1 WHERE id = 77")
    assert saga.report.state == "rolled_back"
    assert await rows("orders") == ORDERS


async def test_a_key_that_somebody_else_took_is_a_conflict(world: Connection, rows: Rows, unwound: Unwound) -> None:
    async with unwound() as saga:
        await _update({"id": 77}, {"id": 1})
        await world.execute("INSERT INTO orders VALUES (1, 'other', 1, 'd')")
    assert _states(saga) == ["conflict"]
    assert "orders_pkey" in _reason(saga)
    assert await rows("orders") == ["(1,other,1.00,d)", *ORDERS[1:], "(77,new,10.00,a)"]


async def test_a_key_that_a_trigger_changed_is_restored_too(world: Connection, rows: Rows, unwound: Unwound) -> None:
    await world.execute(
        """
        CREATE FUNCTION rekey() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN NEW.id := CASE NEW.status WHEN ''paid'' THEN OLD.id + 100 ELSE NEW.id END; RETURN NEW; END';
        CREATE TRIGGER rekey BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION rekey();
        """
    )
    async with unwound() as saga:
        await _update({"status": "paid"}, {"id": 1})
        assert (await rows("orders"))[0] == "(101,paid,10.00,a)"
    assert saga.report.state == "rolled_back"
    assert await rows("orders") == ORDERS


async def test_what_a_trigger_made_of_a_written_value_is_what_the_undo_expects(
    world: Connection, rows: Rows, unwound: Unwound
) -> None:
    await world.execute(
        """
        CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN IF NEW.status <> ''new'' THEN NEW.status := upper(NEW.status); END IF; RETURN NEW; END';
        CREATE TRIGGER shout BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION shout();
        """
    )
    async with unwound() as saga:
        await _update({"status": "paid"}, {"id": 1})
        assert await rows("orders") == ["(1,PAID,10.00,a)", *ORDERS[1:]]
    assert saga.report.state == "rolled_back"
    assert await rows("orders") == ORDERS


@pytest.mark.parametrize("timing", ["", "DEFERRABLE INITIALLY DEFERRED"])
async def test_what_a_trigger_writes_after_the_change_is_seen_too(
    world: Connection, rows: Rows, unwound: Unwound, timing: str
) -> None:
    await world.execute(
        f"""
        CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN UPDATE orders SET status = ''stamped'' WHERE id = NEW.id AND status = ''paid''; RETURN NULL; END';
        CREATE {"CONSTRAINT" if timing else ""} TRIGGER stamp AFTER UPDATE ON orders {timing}
            FOR EACH ROW EXECUTE FUNCTION stamp();
        """
    )
    async with unwound() as saga:
        await _update({"status": "paid"}, {"id": 1})
        assert await rows("orders") == ["(1,stamped,10.00,a)", *ORDERS[1:]]
    assert saga.report.state == "rolled_back"
    assert await rows("orders") == ORDERS


async def test_a_trigger_that_does_not_let_the_earlier_value_back_in_is_a_conflict(
    world: Connection, rows: Rows, unwound: Unwound
) -> None:
    """A version column that only counts up cannot be restored, so nothing is, and nobody says that it was."""
    await world.execute(
        """
        CREATE FUNCTION count_up() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN NEW.amount := OLD.amount + 1; RETURN NEW; END';
        CREATE TRIGGER count_up BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION count_up();
        """
    )
    async with unwound() as saga:
        await _update({"status": "paid", "amount": 0}, {"id": 1})
    assert _states(saga) == ["conflict"]
    assert "trigger" in _reason(saga)
    assert await rows("orders") == ["(1,paid,11.00,a)", *ORDERS[1:]]


async def test_generated_columns_follow_by_themselves(world: Connection, rows: Rows, unwound: Unwound) -> None:
    await world.execute(
        """
        CREATE TABLE made (n int, twice int GENERATED ALWAYS AS (n * 2) STORED PRIMARY KEY);
        INSERT INTO made VALUES (1), (2);
        """
    )
    async with unwound() as saga:
        await _update({"n": 5}, {"n": 1}, table="made")
        assert await rows("made") == ["(2,4)", "(5,10)"]
    assert saga.report.state == "rolled_back"
    assert await rows("made") == ["(1,2)", "(2,4)"]


async def test_a_column_added_since_is_no_obstacle(world: Connection, rows: Rows, unwound: Unwound) -> None:
    async with unwound() as saga:
        await _update({"status": "paid"}, {"id": 1})
        await world.execute("ALTER TABLE orders ADD extra int DEFAULT 7")
    assert saga.report.state == "rolled_back"
    assert await rows("orders") == [row[:-1] + ",7)" for row in ORDERS]


@pytest.mark.parametrize(
    ("ddl", "words"),
    [
        ("ALTER TABLE orders DROP COLUMN status", "column status of"),
        ("ALTER TABLE orders RENAME COLUMN status TO state", "dropped or renamed"),
        ("ALTER TABLE orders ALTER amount TYPE text", 'was pg_catalog."numeric" and is pg_catalog.text now'),
        ("ALTER TABLE orders ALTER id TYPE bigint", "was pg_catalog.int4 and is pg_catalog.int8 now"),
        ("ALTER TABLE orders RENAME TO old; CREATE TABLE orders (LIKE old INCLUDING ALL); DROP TABLE old", "dropped"),
        ("ALTER TABLE orders DROP CONSTRAINT orders_pkey", "no primary key"),
    ],
)
async def test_a_changed_shape_is_a_conflict_that_says_so(
    world: Connection, rows: Rows, unwound: Unwound, ddl: str, words: str
) -> None:
    async with unwound() as saga:
        await _update({"status": "paid", "amount": 5}, {"id": 1})
        await world.execute(ddl)
        left = await rows("orders")
    assert _states(saga) == ["conflict"]
    assert words in _reason(saga)
    assert await rows("orders") == left


async def test_a_renamed_table_is_followed(world: Connection, rows: Rows, unwound: Unwound) -> None:
    async with unwound() as saga:
        await _update({"status": "paid"}, {"id": 1})
        await world.execute(
            "ALTER TABLE orders RENAME TO purchases; CREATE TABLE orders (LIKE purchases INCLUDING ALL)"
        )
        await world.execute("INSERT INTO orders VALUES (1, 'paid', 10, 'another table of that name')")
    assert saga.report.state == "rolled_back"
    assert await rows("purchases") == ORDERS
    assert await rows("orders") == ['(1,paid,10.00,"another table of that name")']


async def test_a_key_that_lost_its_index_and_is_ambiguous_now_is_a_conflict(
    world: Connection, rows: Rows, unwound: Unwound
) -> None:
    async with unwound() as saga:
        await _update({"status": "paid"}, {"id": 1})
        await world.execute(
            """
            ALTER TABLE orders DROP CONSTRAINT orders_pkey, ADD serial int GENERATED ALWAYS AS IDENTITY PRIMARY KEY;
            INSERT INTO orders VALUES (1, 'paid', 10, 'a');
            """
        )
        left = await rows("orders")
    assert _states(saga) == ["conflict"]
    assert await rows("orders") == left


async def test_a_deleted_effect_row_is_a_conflict(world: Connection, rows: Rows, unwound: Unwound) -> None:
    async with unwound() as saga:
        await _update({"status": "paid"}, {"id": 1})
        await world.execute("DELETE FROM saga.effects")
    assert _states(saga) == ["conflict"]
    assert (await rows("orders"))[0] == "(1,paid,10.00,a)"


async def test_a_foreign_key_that_the_restored_value_would_break_is_a_conflict(
    world: Connection, rows: Rows, unwound: Unwound
) -> None:
    await world.execute(
        """
        CREATE TABLE owners (id int PRIMARY KEY); INSERT INTO owners VALUES (1), (2);
        CREATE TABLE carts (id int PRIMARY KEY, owner int REFERENCES owners DEFERRABLE INITIALLY DEFERRED);
        INSERT INTO carts VALUES (5, 1);
        """
    )
    async with unwound() as saga:
        await _update({"owner": 2}, {"id": 5}, table="carts")
        await world.execute("DELETE FROM owners WHERE id = 1")
    assert _states(saga) == ["conflict"]
    assert "carts_owner_fkey" in _reason(saga)
    assert await rows("carts") == ["(5,2)"]


class _Bell(logging.Handler):
    """Rings when the engine logs that an inverse raised."""

    def __init__(self) -> None:
        super().__init__()
        self.rung = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "the inverse raised RolledBack" in record.getMessage():
            self.rung.set()


async def test_an_undo_that_meets_a_lock_changes_nothing_and_is_tried_again(
    world: Connection, rows: Rows, unwound: Unwound, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PINS, "lock_timeout", "100ms")
    bell = _Bell()
    logging.getLogger("saga_core").addHandler(bell)

    async def let_go() -> list[str]:
        assert await asyncio.to_thread(bell.rung.wait, 30)
        seen = await rows("orders")
        await world.execute("COMMIT")
        return seen

    async with unwound() as saga:
        await _update({"status": "paid"}, {"id": 1})
        await world.execute("BEGIN; SELECT 1 FROM orders WHERE id = 1 FOR UPDATE")
        letting_go = asyncio.create_task(let_go())
    logging.getLogger("saga_core").removeHandler(bell)
    assert (await letting_go)[0] == "(1,paid,10.00,a)"
    assert _states(saga) == ["undone"]
    assert await rows("orders") == ORDERS
