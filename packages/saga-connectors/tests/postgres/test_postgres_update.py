"""What `postgres.update` does to rows, and what it refuses."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from saga_connectors import postgres
from saga_connectors.credentials import set_resolver
from saga_connectors.errors import CredentialMalformed
from saga_connectors.postgres import errors
from saga_connectors.postgres._transaction import Connection
from saga_connectors.sync import postgres as blocking
from saga_core import Saga, SagaError, saga_scope

pytestmark = pytest.mark.anyio
Rows = Callable[[str], Awaitable[list[str]]]
Unwound = Callable[[], AbstractAsyncContextManager[Saga]]

ORDERS = ["(1,new,10.00,a)", "(2,new,20.50,b)", "(3,,30.00,c)"]


async def _refused(kind: type[SagaError], **arguments: Any) -> tuple[SagaError, Saga]:
    """Make one call that must fail, and return its error and the saga, which has to be clean."""
    arguments = {"table": "orders", "set": {"status": "paid"}, "where": {"id": 1}, "credential_ref": "pg", **arguments}
    async with saga_scope(store="memory:") as saga:
        with pytest.raises(kind) as refused:
            await postgres.update(**arguments)
    assert type(refused.value) is kind
    assert saga.report.is_clean
    assert saga.report.state == "committed"
    return refused.value, saga


@pytest.fixture
async def extras(world: Connection) -> None:
    await world.execute(
        """
        CREATE VIEW paid AS SELECT * FROM orders WHERE status = 'paid';
        CREATE MATERIALIZED VIEW seen AS SELECT * FROM orders;
        CREATE TABLE keyless (id int, name text UNIQUE, CHECK (id > 0));
        CREATE UNIQUE INDEX ON keyless (id) WHERE id > 10;
        CREATE UNIQUE INDEX ON keyless (lower(name));
        CREATE TABLE parent (id int PRIMARY KEY);
        CREATE TABLE child () INHERITS (parent);
        CREATE TABLE made (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int,
                           twice int GENERATED ALWAYS AS (n * 2) STORED);
        INSERT INTO made (n) VALUES (1);
        """
    )


async def test_the_rows_are_changed_and_returned_as_text_in_the_order_of_their_key(
    world: Connection, rows: Rows
) -> None:
    async with saga_scope(store="memory:"):
        returned = await postgres.update(
            table="public.orders",
            set={"status": "paid", "amount": 1},
            where={"id": [2, 1]},
            credential_ref="pg",
            expect_rows=2,
        )
    assert returned == [
        {"id": "1", "status": "paid", "amount": "1.00"},
        {"id": "2", "status": "paid", "amount": "1.00"},
    ]
    assert await rows("orders") == ["(1,paid,1.00,a)", "(2,paid,1.00,b)", "(3,,30.00,c)"]


async def test_the_effect_row_lands_with_the_rows(world: Connection) -> None:
    async with saga_scope(store="memory:"):
        await postgres.update(table="orders", set={"status": "paid"}, where={"id": 3}, credential_ref="pg")
    (effect,) = await world.fetch("SELECT relation, before, after, undone_at, pg_xact_status(xid) FROM saga.effects")
    relation, before, after, undone_at, fate = effect
    assert (relation, undone_at, fate) == ('"public"."orders"', None, "committed")
    assert json.loads(before) == [{"id": "3", "status": None}]
    assert json.loads(after) == [{"id": "3", "status": "paid"}]


async def test_an_update_that_matches_nothing_lands_and_is_undone(
    world: Connection, rows: Rows, unwound: Unwound
) -> None:
    async with unwound() as saga:
        assert await postgres.update(table="orders", set={"status": "x"}, where={"id": 9}, credential_ref="pg") == []
    assert saga.report.state == "rolled_back"
    assert await rows("orders") == ORDERS


async def test_where_means_equality_null_included(world: Connection) -> None:
    expected: list[tuple[dict[str, Any], list[str]]] = [
        ({"status": None}, ["3"]),
        ({"status": ["new", None]}, ["1", "2", "3"]),
        ({"amount": 20.5}, ["2"]),
        ({"amount": "20.500"}, ["2"]),
        ({"status": "new", "note": "b"}, ["2"]),
        ({"status": "new' OR 'x' = 'x"}, []),
        ({"id": [1, 1, 3]}, ["1", "3"]),
    ]
    async with saga_scope(store="memory:"):
        for where, ids in expected:
            found = await postgres.update(table="orders", set={"amount": 20.5}, where=where, credential_ref="pg")
            assert [row["id"] for row in found] == ids, where
            await world.execute("UPDATE orders SET amount = id * 10 WHERE id <> 2")


async def test_where_compares_types_without_an_equality_by_their_text(world: Connection) -> None:
    """The `=` of box and circle compares areas, and json, point, polygon and jsonpath have none."""
    await world.execute(
        """
        CREATE TABLE shapes (id int PRIMARY KEY, j json, p point, b box, g polygon, path jsonpath, tags text[]);
        INSERT INTO shapes VALUES (1, '{"a": 1}', '(1,2)', '(2,2),(0,0)', '((0,0),(1,1))', '$.a', '{a,b}'),
                                  (2, '{"a":1}', '(1,3)', '(4,1),(0,0)', '((0,0),(1,2))', '$.b', '{a}');
        """
    )
    for column, value in {
        "j": '{"a": 1}',
        "p": "( 1, 2 )",
        "b": "(2,2),(0,0)",
        "g": "((0,0),(1,1))",
        "path": "$.a",
        "tags": "{a,b}",
    }.items():
        async with saga_scope(store="memory:"):
            found = await postgres.update(table="shapes", set={"id": 1}, where={column: value}, credential_ref="pg")
        assert [row["id"] for row in found] == ["1"], column


async def test_where_uses_the_equality_that_a_types_extension_declares(world: Connection) -> None:
    await world.execute(
        """
        CREATE SCHEMA ext; CREATE EXTENSION citext SCHEMA ext;
        CREATE TABLE people (mail ext.citext PRIMARY KEY, age int); INSERT INTO people VALUES ('Ann@Example.com', 1);
        """
    )
    async with saga_scope(store="memory:"):
        found = await postgres.update(
            table="people", set={"age": 2}, where={"mail": "ann@example.COM"}, credential_ref="pg"
        )
    assert found == [{"mail": "Ann@Example.com", "age": "2"}]


async def test_names_are_read_as_in_sql_and_columns_are_taken_literally(
    world: Connection, rows: Rows, unwound: Unwound
) -> None:
    await world.execute(
        """
        CREATE SCHEMA "My ""Own"" Schema";
        CREATE TABLE "My ""Own"" Schema"."or.ders" ("Id" int PRIMARY KEY, "st""at;us" text, "select" text);
        INSERT INTO "My ""Own"" Schema"."or.ders" VALUES (1, 'a', 'b');
        """
    )
    table = '"My ""Own"" Schema"."or.ders"'
    async with unwound():
        returned = await postgres.update(
            table=table, set={'st"at;us': "x", "select": "y"}, where={"Id": 1}, credential_ref="pg"
        )
        assert returned == [{"Id": "1", 'st"at;us': "x", "select": "y"}]
    assert await rows(table) == ["(1,a,b)"]


async def test_every_text_is_written_and_restored_as_it_is(world: Connection, rows: Rows, unwound: Unwound) -> None:
    texts = ["", "O'Hara", 'say "hi"', "back\\slash", "{}", "NULL", "\n\t", "żółć 🦆", "$1; --", None]
    await world.execute("CREATE TABLE texts (id int PRIMARY KEY, old text, new text)")
    for id_, old in enumerate(texts):
        await world.execute(f"INSERT INTO texts VALUES ({id_}, $1, $1)", old)
    before = await rows("texts")
    async with unwound() as saga:
        for id_, new in enumerate(reversed(texts)):
            await postgres.update(table="texts", set={"new": new}, where={"id": id_}, credential_ref="pg")
        assert [row[0] for row in await world.fetch("SELECT new FROM texts ORDER BY id")] == texts[::-1]
    assert saga.report.state == "rolled_back"
    assert await rows("texts") == before


async def test_json_values_become_documents_arrays_and_scalars(world: Connection) -> None:
    await world.execute(
        """
        CREATE DOMAIN labels AS text[];
        CREATE TABLE bag (id int PRIMARY KEY, j json, b jsonb, tags text[], grid int[],
                          l labels, yes bool, docs jsonb[]);
        INSERT INTO bag VALUES (1);
        """
    )
    async with saga_scope(store="memory:"):
        await postgres.update(
            table="bag",
            set={
                "j": {"a": [1, None, "ü"]},
                "b": [True, 1.5],
                "tags": ["a,b", 'q"\\', "NULL", None, ""],
                "grid": [[1, 2], [3, 4]],
                "l": ["x"],
                "yes": True,
                "docs": [{"k": "v"}],
            },
            where={"id": 1},
            credential_ref="pg",
        )
    (row,) = await world.fetch("SELECT j::text, b::text, tags, grid, l::text[], yes, docs::text[] FROM bag")
    assert json.loads(row[0]) == {"a": [1, None, "ü"]}
    assert json.loads(row[1]) == [True, 1.5]
    assert row[2] == ["a,b", 'q"\\', "NULL", None, ""]
    assert row[3] == [[1, 2], [3, 4]]
    assert (row[4], row[5], row[6]) == (["x"], True, ['{"k": "v"}'])


async def test_a_missing_effects_table_stops_the_update_before_it_and_prints_the_ddl(connect: Any) -> None:
    connection: Connection = await connect()
    await connection.execute(
        "CREATE TABLE orders (id int PRIMARY KEY, status text); INSERT INTO orders VALUES (1, 'new')"
    )
    error, _ = await _refused(errors.EffectsTableMissing)
    assert postgres.install_sql() in error.next
    assert [row[0] for row in await connection.fetch("SELECT status FROM orders")] == ["new"]
    await connection.execute(postgres.install_sql())
    await connection.execute(postgres.install_sql())
    async with saga_scope(store="memory:"):
        await postgres.update(table="orders", set={"status": "paid"}, where={"id": 1}, credential_ref="pg")


async def test_the_effects_table_can_stand_in_another_schema(connect: Any, dsn: str, unwound: Unwound) -> None:
    connection: Connection = await connect()
    await connection.execute(postgres.install_sql(schema='Au"dit'))
    await connection.execute(
        "CREATE TABLE orders (id int PRIMARY KEY, status text); INSERT INTO orders VALUES (1, 'new')"
    )
    set_resolver(lambda _: {"dsn": dsn, "effects_schema": 'Au"dit'})
    async with unwound():
        await postgres.update(table="orders", set={"status": "paid"}, where={"id": 1}, credential_ref="pg")
    (row,) = await connection.fetch('SELECT status, undone_at IS NOT NULL FROM orders, "Au""dit".effects')
    assert tuple(row) == ("new", True)


async def test_a_role_that_may_not_write_the_effects_table_is_refused_before_the_effect(
    world: Connection, dsn: str, rows: Rows
) -> None:
    await world.execute(
        "DROP ROLE IF EXISTS clerk; CREATE ROLE clerk LOGIN PASSWORD 'clerk'; GRANT ALL ON orders TO clerk"
    )
    try:
        set_resolver(lambda _: "postgresql://clerk:clerk@" + dsn.partition("@")[2])
        error, _ = await _refused(errors.EffectsTableMissing)
        assert "GRANT SELECT, INSERT, UPDATE" in error.next
        assert await rows("orders") == ORDERS
    finally:
        await world.execute("DROP OWNED BY clerk; DROP ROLE clerk")


async def test_rights_on_the_columns_concerned_are_enough(
    world: Connection, dsn: str, rows: Rows, unwound: Unwound
) -> None:
    await world.execute(
        """
        DROP ROLE IF EXISTS clerk; CREATE ROLE clerk LOGIN PASSWORD 'clerk';
        GRANT SELECT (id, status), UPDATE (status) ON orders TO clerk;
        GRANT USAGE ON SCHEMA saga TO clerk; GRANT SELECT, INSERT, UPDATE ON saga.effects TO clerk;
        """
    )
    try:
        set_resolver(lambda _: "postgresql://clerk:clerk@" + dsn.partition("@")[2])
        async with unwound() as saga:
            await postgres.update(table="orders", set={"status": "paid"}, where={"id": 1}, credential_ref="pg")
        assert saga.report.state == "rolled_back"
        error, _ = await _refused(errors.RolledBack, set={"amount": 5})
        assert isinstance(error, errors.RolledBack)
        assert error.sqlstate == "42501"
        assert await rows("orders") == ORDERS
    finally:
        await world.execute("DROP OWNED BY clerk; DROP ROLE clerk")


REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"set": {}}, "`set` is empty"),
    ({"where": {}}, "`where` is empty"),
    ({"table": "nowhere"}, "not there"),
    ({"table": "public.nowhere"}, "not there"),
    ({"table": "paid"}, "no ordinary table"),
    ({"table": "seen"}, "no ordinary table"),
    ({"table": "keyless", "set": {"name": "x"}}, "no primary key"),
    ({"table": "parent", "set": {"id": 2}}, "child tables"),
    ({"table": "saga.effects", "set": {"undone_at": None}, "where": {"key": "k"}}, "no update's own target"),
    ({"set": {"colour": "red"}}, "no column"),
    ({"where": {"colour": "red"}}, "no column"),
    ({"where": {"ID": 1}}, "no column"),
    ({"where": {"id": []}}, "has 0 values"),
    ({"where": {"id": list(range(1001))}}, "has 1001 values"),
    ({"table": "made", "set": {"twice": 4}}, "it is generated"),
    ({"table": "made", "set": {"id": 4}}, "always generated"),
    ({"set": {"note": {"a": 1}}}, "of type dict"),
    ({"set": {"note": ["a"]}}, "of type list"),
    ({"set": {"note": "nul\0"}}, "NUL"),
]


async def test_what_could_not_be_undone_is_refused_before_anything_is_sent(extras: None, rows: Rows) -> None:
    for arguments, words in REFUSALS:
        error, saga = await _refused(errors.UpdateUnsupported, **arguments)
        assert words in str(error), arguments
        assert error.world == "nothing was sent"
        assert error.next
        assert saga.report.steps == ()
    assert await rows("orders") == ORDERS


@pytest.mark.parametrize("value", [Decimal("1.5"), datetime(2026, 11, 30, tzinfo=UTC)])
async def test_values_that_are_not_json_are_refused(world: Connection, value: object, rows: Rows) -> None:
    await _refused(errors.UpdateUnsupported, set={"amount": value})
    assert await rows("orders") == ORDERS


async def test_a_where_value_may_name_a_generated_column(extras: None, world: Connection) -> None:
    async with saga_scope(store="memory:"):
        found = await postgres.update(table="made", set={"n": 5}, where={"twice": 2}, credential_ref="pg")
    assert found == [{"id": "1", "n": "5"}]


async def test_another_number_of_rows_than_expected_is_rolled_back(world: Connection, rows: Rows) -> None:
    error, saga = await _refused(errors.RowCountMismatch, where={"status": "new"}, expect_rows=1)
    assert "2 rows matched, 1 were expected" in str(error)
    assert [step.state for step in saga.report.steps] == ["not_landed"]
    assert await rows("orders") == ORDERS
    assert await rows("saga.effects") == []


async def test_a_thousand_rows_are_changed_and_restored_and_one_more_is_refused(
    world: Connection, unwound: Unwound
) -> None:
    await world.execute("CREATE TABLE many AS SELECT n AS id, n % 2 AS odd FROM generate_series(1, 2001) AS n")
    await world.execute("ALTER TABLE many ADD PRIMARY KEY (id)")
    error, _ = await _refused(errors.TooMuchToUndo, table="many", set={"odd": 5}, where={"odd": 1})
    assert "more than 1000 rows" in str(error)
    async with unwound() as saga:
        assert len(await postgres.update(table="many", set={"odd": 5}, where={"odd": 0}, credential_ref="pg")) == 1000
    assert saga.report.state == "rolled_back"
    assert [tuple(row) for row in await world.fetch("SELECT odd, count(*) FROM many GROUP BY 1 ORDER BY 1")] == [
        (0, 1000),
        (1, 1001),
    ]


@pytest.mark.parametrize("is_large", ["before", "after"])
async def test_images_above_64_kib_are_refused(world: Connection, is_large: str) -> None:
    old, new = ("x" * 70_000, "y") if is_large == "before" else ("x", "y" * 70_000)
    await world.execute("UPDATE orders SET note = $1 WHERE id = 1", old)
    error, _ = await _refused(errors.TooMuchToUndo, set={"note": new})
    assert "65536" in str(error)
    assert [row[0] for row in await world.fetch("SELECT note FROM orders WHERE id = 1")] == [old]


async def test_large_columns_that_are_not_written_do_not_count(world: Connection) -> None:
    await world.execute("UPDATE orders SET note = repeat('x', 1000000) WHERE id = 1")
    async with saga_scope(store="memory:"):
        await postgres.update(table="orders", set={"status": "paid"}, where={"id": 1}, credential_ref="pg")


async def test_what_the_server_refuses_is_rolled_back_and_told_without_its_values(
    world: Connection, rows: Rows
) -> None:
    await world.execute("ALTER TABLE orders ADD CONSTRAINT amount_is_positive CHECK (amount > 0)")
    error, saga = await _refused(errors.RolledBack, set={"amount": -77})
    assert isinstance(error, errors.RolledBack)
    assert error.sqlstate == "23514"
    assert "amount_is_positive" in str(error)
    assert "77" not in str(error)
    assert error.__suppress_context__
    assert [step.state for step in saga.report.steps] == ["not_landed"]
    assert await rows("orders") == ORDERS


async def test_a_deferred_constraint_is_checked_before_the_commit(world: Connection, rows: Rows) -> None:
    await world.execute(
        """
        CREATE TABLE owners (id int PRIMARY KEY);
        ALTER TABLE orders ADD owner int REFERENCES owners DEFERRABLE INITIALLY DEFERRED;
        """
    )
    before = await rows("orders")
    error, saga = await _refused(errors.RolledBack, set={"owner": 7})
    assert isinstance(error, errors.RolledBack)
    assert error.sqlstate == "23503"
    assert [step.state for step in saga.report.steps] == ["not_landed"]
    assert await rows("orders") == before


async def test_a_trigger_that_holds_a_row_back_rolls_the_whole_update_back(world: Connection, rows: Rows) -> None:
    await world.execute(
        """
        CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN IF OLD.id = 2 THEN RETURN NULL; END IF; RETURN NEW; END';
        CREATE TRIGGER skip BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION skip();
        """
    )
    error, _ = await _refused(errors.RolledBack, where={"status": "new"})
    assert "2 rows matched and 1 were changed" in str(error)
    assert await rows("orders") == ORDERS


async def test_triggers_find_unqualified_names_as_they_always_did(
    world: Connection, rows: Rows, unwound: Unwound
) -> None:
    await world.execute(
        """
        CREATE TABLE audit (what text);
        CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN INSERT INTO audit VALUES (OLD.status || NEW.status); RETURN NEW; END';
        CREATE TRIGGER audit AFTER UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION audit();
        """
    )
    async with unwound() as saga:
        await postgres.update(table="orders", set={"status": "paid"}, where={"id": 1}, credential_ref="pg")
    assert saga.report.state == "rolled_back"
    assert await rows("orders") == ORDERS
    assert await rows("audit") == ["(newpaid)", "(paidnew)"]


async def test_a_unique_key_without_nulls_serves_where_no_primary_key_is(
    world: Connection, rows: Rows, unwound: Unwound
) -> None:
    await world.execute(
        """
        CREATE TABLE codes (a text NOT NULL, b int NOT NULL, n int, UNIQUE (a, b));
        INSERT INTO codes VALUES ('x', 1, 1), ('x', 2, 2);
        """
    )
    async with unwound():
        found = await postgres.update(table="codes", set={"n": 9}, where={"a": "x"}, credential_ref="pg")
        assert found == [{"a": "x", "b": "1", "n": "9"}, {"a": "x", "b": "2", "n": "9"}]
    assert await rows("codes") == ["(x,1,1)", "(x,2,2)"]


async def test_rows_of_a_partitioned_table_move_and_come_back(world: Connection, unwound: Unwound) -> None:
    await world.execute(
        """
        CREATE TABLE parts (region text, id int, n int, PRIMARY KEY (region, id)) PARTITION BY LIST (region);
        CREATE TABLE parts_eu PARTITION OF parts FOR VALUES IN ('eu');
        CREATE TABLE parts_us PARTITION OF parts FOR VALUES IN ('us');
        INSERT INTO parts VALUES ('eu', 1, 1), ('eu', 2, 2);
        """
    )
    async with unwound() as saga:
        await postgres.update(table="parts", set={"region": "us"}, where={"id": 1}, credential_ref="pg")
        assert [tuple(row) for row in await world.fetch("SELECT * FROM parts_us")] == [("us", 1, 1)]
    assert saga.report.state == "rolled_back"
    assert [tuple(row) for row in await world.fetch("SELECT * FROM parts_eu ORDER BY id")] == [
        ("eu", 1, 1),
        ("eu", 2, 2),
    ]


async def test_a_server_that_is_not_there_is_told_without_its_address(server: Any) -> None:
    for dsn in (
        "postgresql://clerk:hunter2@127.0.0.1:1/shop",
        "postgresql://clerk:hunter2@localhost:99x9/shop",
        f"postgresql://clerk:hunter2@127.0.0.1:{server.port}/shop",
    ):
        set_resolver(lambda _, dsn=dsn: dsn)
        error, saga = await _refused(errors.DatabaseUnreachable)
        assert "'pg'" in str(error)
        assert not [part for part in ("hunter2", "clerk", "shop", "127.0.0.1", "99x9") if part in str(error)]
        assert error.__suppress_context__
        assert saga.report.steps == ()


async def test_a_credential_without_a_dsn_is_refused(server: Any) -> None:
    set_resolver(lambda _: {"api_key": "k"})
    await _refused(CredentialMalformed)


async def test_synchronous_callers_have_the_same_action(world: Connection, rows: Rows) -> None:
    assert (blocking.update.name, blocking.update.version) == (postgres.update.name, postgres.update.version)

    def agent() -> None:
        with saga_scope(store="memory:") as saga:
            found = blocking.update(table="orders", set={"status": "paid"}, where={"id": 1}, credential_ref="pg")
            assert found == [{"id": "1", "status": "paid"}]
            saga.rollback("the agent gave up")

    await asyncio.to_thread(agent)
    assert await rows("orders") == ORDERS
    assert [row[0] for row in await world.fetch("SELECT undone_at IS NOT NULL FROM saga.effects")] == [True]
