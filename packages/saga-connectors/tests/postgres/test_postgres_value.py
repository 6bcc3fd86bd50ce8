"""Values of every kind go through an update and its undo, and are afterwards what they were, to the last digit."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import pytest

from saga_connectors import postgres
from saga_connectors.postgres._transaction import PINS, Connection
from saga_core import Saga

pytestmark = pytest.mark.anyio
Unwound = Callable[[], AbstractAsyncContextManager[Saga]]


class Kind(NamedTuple):
    """A type with two values of it, as text."""

    type: str
    first: str | None
    second: str | None


SCHEMA = """
CREATE SCHEMA ext;
CREATE EXTENSION hstore SCHEMA ext; CREATE EXTENSION ltree SCHEMA ext; CREATE EXTENSION citext SCHEMA ext;
CREATE EXTENSION cube SCHEMA ext;
CREATE TYPE mood AS ENUM ('sad', 'so-so', 'it''s "fine"');
CREATE DOMAIN cents AS numeric(12, 4) CHECK (VALUE > -100);
CREATE DOMAIN words AS text[];
CREATE TYPE pair AS (a int, b text);
CREATE TYPE "Odd Type" AS ENUM ('x', 'y');
-- Each of these names also means a built-in type.
CREATE TABLE line (a int); CREATE TABLE point (a int); CREATE TABLE "timestamp" (a int); CREATE TABLE "char" (a int);
CREATE TYPE interval AS (a int);
"""

KINDS = (
    Kind("int2", "-32768", "32767"),
    Kind("int4", "-2147483648", "0"),
    Kind("int8", "-9223372036854775808", "9223372036854775807"),
    Kind("numeric", "123456789012345678901234567890.1234567890", "1.50"),
    Kind("numeric", "NaN", "1.500"),
    Kind("numeric", "Infinity", "-Infinity"),
    Kind("numeric(10, 2)", "1.50", "99999999.99"),
    Kind("float4", "1.1", "3.4028235e+38"),
    Kind("float8", "-0", "0"),
    Kind("float8", "NaN", "-Infinity"),
    Kind("float8", "0.30000000000000004", "5e-324"),
    Kind("money", "-1234.56", "0.01"),
    Kind("bool", "t", "f"),
    Kind("text", "", "żółć 🦆 \t\n\r\\ ' \" $1 %s {} NULL"),
    Kind("text", None, "\\N"),
    Kind("varchar(5)", "ab  ", "abcde"),
    Kind("char(10)", "ab", "  x"),
    Kind('pg_catalog."char"', "x", ""),
    Kind("name", "a name", "orders"),
    Kind("bytea", r"\x000102ff5c27", r"\x"),
    Kind("date", "0044-03-15 BC", "infinity"),
    Kind("date", "5874897-12-31", "2024-02-29"),
    Kind("time", "24:00:00", "00:00:00.000001"),
    Kind("timetz", "12:34:56.789+05:30", "24:00:00-15:59"),
    Kind("pg_catalog.timestamp", "294276-12-31 23:59:59.999999", "-infinity"),
    Kind("pg_catalog.timestamp", "4713-01-01 00:00:00 BC", "2024-02-29 12:00:00.000001"),
    Kind("pg_catalog.timestamp(3)", "2024-02-29 12:00:00.123", "infinity"),
    Kind("timestamptz", "infinity", "0001-01-01 00:00:00+00 BC"),
    Kind("timestamptz", "2024-03-31 02:30:00+01", "2024-10-27 02:30:00.5+02"),
    Kind("pg_catalog.interval", "1 mon", "30 days"),
    Kind("pg_catalog.interval", "-1 mons +2 days -03:04:05.6", "1 year 2 mons -3 days +04:05:06.789"),
    Kind("pg_catalog.interval", "-1 day +02:00", "00:00:00"),
    Kind("bit(4)", "1010", "0000"),
    Kind("varbit", "", "10101"),
    Kind("uuid", "00000000-0000-0000-0000-000000000000", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    Kind("json", '{"a" : 1, "a":2,  "b": "\\u00fc"}', "null"),
    Kind("jsonb", "null", '{"a": [1, 1.50, null, "\\"x\\""]}'),
    Kind("jsonpath", '$."a b"[*] ? (@ > 1)', "strict $"),
    Kind("inet", "192.168.1.5/24", "::1"),
    Kind("inet", "10.0.0.1", "10.0.0.1/8"),
    Kind("cidr", "10.0.0.0/8", "2001:db8::/32"),
    Kind("macaddr", "08:00:2b:01:02:03", "00:00:00:00:00:00"),
    Kind("macaddr8", "08:00:2b:01:02:03:04:05", "ff:ff:ff:ff:ff:ff:ff:ff"),
    Kind("pg_catalog.point", "(1.1,-0)", "(Infinity,NaN)"),
    Kind("pg_catalog.line", "{1,-1,0.1}", "{0,1,2}"),
    Kind("lseg", "[(0,0),(1,1.1)]", "[(1,1),(0,0)]"),
    Kind("box", "(2,2),(0,0)", "(4,1),(0,0)"),
    Kind("path", "[(0,0),(1,1)]", "((0,0),(1,1))"),
    Kind("polygon", "((0,0),(1,1),(1,0))", "((0,0))"),
    Kind("circle", "<(0,0),2.5>", "<(1,1),0>"),
    Kind("tsvector", "'a':1A,3 'it''s':2", ""),
    Kind("tsquery", "'a' & !'b' <-> 'c':*A", "'x'"),
    Kind("int4range", "[1,5)", "empty"),
    Kind("numrange", "(,1.50]", "[1.5,)"),
    Kind("tstzrange", '["2024-01-01 00:00:00+00",infinity)', "(,)"),
    Kind("daterange", "[2024-01-01,2024-02-01)", "empty"),
    Kind("int4multirange", "{[1,3),[7,9)}", "{}"),
    Kind("int[]", "[0:2]={1,2,NULL}", "{}"),
    Kind("int[]", "{{1,2},{3,4}}", "[-1:0][2:3]={{1,2},{3,4}}"),
    Kind("text[]", '{"a,b","q\\"\\\\",NULL,"NULL",""," "}', "{x}"),
    Kind("numeric[]", "{1.50,NaN}", "{1.5}"),
    Kind("timestamptz[]", '{"2024-01-01 00:00:00+00",infinity}', "{}"),
    Kind("pg_catalog.interval[]", '{"1 mon","-1 days +02:00:00"}', "{}"),
    Kind("bytea[]", r'{"\\x00ff","\\x"}', "{}"),
    Kind("jsonb[]", '{"{\\"a\\": \\"b\\"}",NULL,"null"}', "{}"),
    Kind("box[]", "{(2,2),(0,0);(1,1),(0,0)}", "{}"),
    Kind("public.mood", "so-so", 'it\'s "fine"'),
    Kind("public.mood[]", '{sad,"it\'s \\"fine\\""}', "{}"),
    Kind('public."Odd Type"', "x", "y"),
    Kind("public.cents", "1.5000", "-99.9999"),
    Kind("public.words", '{a,"b c"}', "{}"),
    Kind("public.pair", '(1,"a,""b""")', "(,)"),
    Kind("public.pair[]", '{"(1,\\"x y\\")","(2,)"}', "{}"),
    Kind("public.interval", "(1)", "(2)"),
    Kind("ext.hstore", '"a"=>NULL, "b c"=>"NULL", "d"=>""', ""),
    Kind("ext.ltree", "top.a_b.c1", ""),
    Kind("ext.citext", "MiXed", "mixed"),
    Kind("ext.cube", "(1, 2),(3, 4.5)", "(0)"),
    Kind("oid", "4294967295", "0"),
    Kind("regclass", "orders", "saga.effects"),
    Kind("regtype", "public.mood", "integer"),
    Kind("xid", "4294967295", "3"),
    Kind("xid8", "18446744073709551615", "0"),
    Kind("pg_lsn", "FFFFFFFF/FFFFFFFF", "0/0"),
    Kind("tid", "(4294967295,65535)", "(0,1)"),
    Kind("pg_snapshot", "10:20:10,14,15", "1:1:"),
    Kind("int2vector", "1 2 3", ""),
    Kind("oidvector", "1 2", "4294967295"),
    Kind("refcursor", "a cursor", "b"),
)
MAX_KEY = 32
COMMIT = b"COMMIT\0"
SENSITIVE = ("date", "time", "interval", "bytea", "money", "float", "xml", "reg", "tstz")
NEWER = (Kind("ext.vector", "[1,2.5,-3]", "[0,0,0]"),)
XML = (Kind("xml", "<a b='1'/>text<!-- c -->", '<?xml version="1.0"?><r>ü</r>'),)


async def _has(world: Connection, query: str) -> bool:
    return bool((await world.fetch(f"SELECT EXISTS ({query})"))[0][0])


@pytest.fixture
async def kinds(world: Connection) -> list[Kind]:
    """Make a table with a column of each kind: row 1 has the first values, row 2 the second ones."""
    await world.execute(SCHEMA)
    kinds = list(KINDS)
    if await _has(world, "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"):
        await world.execute("CREATE EXTENSION vector SCHEMA ext")
        kinds += NEWER
    if await _has(world, "SELECT 1 FROM pg_config WHERE name = 'CONFIGURE' AND setting LIKE '%with-libxml%'"):
        kinds += XML
    columns = ", ".join(f"k{place} {kind.type}" for place, kind in enumerate(kinds))
    await world.execute(f"CREATE TABLE kinds (id int PRIMARY KEY, {columns})")
    for id_ in (1, 2):
        values = ", ".join(f"${place}::text::{kind.type}" for place, kind in enumerate(kinds, 1))
        await world.execute(f"INSERT INTO kinds SELECT {id_}, {values}", *(kind[id_] for kind in kinds))
    return kinds


async def _values(world: Connection, kinds: list[Kind], id_: int) -> list[str | None]:
    columns = ", ".join(f"k{place}::text" for place in range(len(kinds)))
    return list((await world.fetch(f"SELECT {columns} FROM kinds WHERE id = {id_}"))[0])


async def test_values_of_every_kind_are_written_exactly_and_restored_exactly(
    world: Connection, kinds: list[Kind], unwound: Unwound
) -> None:
    whole = "SELECT t::text FROM kinds AS t ORDER BY id"
    before, first, second = await world.fetch(whole), await _values(world, kinds, 1), await _values(world, kinds, 2)
    assert [(kind.type, was) for kind, was, other in zip(kinds, first, second, strict=True) if was == other] == [], (
        "a kind whose two values look the same proves nothing"
    )
    async with unwound() as saga:
        returned = await postgres.update(
            table="kinds",
            set={f"k{place}": kind.second for place, kind in enumerate(kinds)},
            where={"id": 1},
            credential_ref="pg",
        )
        assert await _values(world, kinds, 1) == second
    assert len(returned) == 1
    assert [step.state for step in saga.report.steps] == ["undone"]
    assert await _values(world, kinds, 1) == first
    assert await world.fetch(whole) == before


async def test_one_value_after_another_is_restored_under_the_settings_of_a_strange_role(
    world: Connection, kinds: list[Kind], unwound: Unwound
) -> None:
    """What a text means depends on settings that a role may have of its own, and that may change in between."""
    whole = "SELECT t::text FROM kinds AS t WHERE id = 1"
    before = await world.fetch(whole)
    strange = {
        "datestyle": "SQL, DMY",
        "intervalstyle": "sql_standard",
        "timezone": "Asia/Kolkata",
        "extra_float_digits": "-5",
        "bytea_output": "escape",
        "xmloption": "document",
        "quote_all_identifiers": "on",
        "default_transaction_read_only": "on",
        "default_transaction_isolation": "serializable",
    }
    await world.execute("; ".join(f"ALTER ROLE postgres SET {name} = '{value}'" for name, value in strange.items()))
    try:
        async with unwound() as saga:
            for place, kind in enumerate(kinds):
                if any(part in kind.type for part in SENSITIVE):
                    await postgres.update(
                        table="kinds", set={f"k{place}": kind.second}, where={"id": 1}, credential_ref="pg"
                    )
            await world.execute(
                "ALTER ROLE postgres SET datestyle = 'German, DMY'; ALTER ROLE postgres SET timezone = 'UTC'"
            )
        assert {step.state for step in saga.report.steps} == {"undone"}
        assert await world.fetch(whole) == before
    finally:
        await world.execute("ALTER ROLE postgres RESET ALL")


async def test_another_process_restores_values_of_every_kind_from_the_log(
    world: Connection, kinds: list[Kind], crash: Any
) -> None:
    whole = "SELECT t::text FROM kinds AS t ORDER BY id"
    before, second = await world.fetch(whole), await _values(world, kinds, 2)
    values = {f"k{place}": kind.second for place, kind in enumerate(kinds)}
    call = {"table": "kinds", "set": values, "where": {"id": 1}, "credential_ref": "pg", "expect_rows": 1}
    crash.run_agent([call], killed_at=COMMIT, cut="after")
    assert await _values(world, kinds, 1) == second
    crash.recover(1)
    assert await world.fetch(whole) == before


@pytest.mark.parametrize("is_pinned", [True, False])
async def test_the_pinned_settings_are_what_keeps_a_date_right(
    world: Connection, unwound: Unwound, monkeypatch: pytest.MonkeyPatch, *, is_pinned: bool
) -> None:
    """Without them, a role whose date style changed in between gets the third of April back for the fourth of March."""
    if not is_pinned:
        monkeypatch.delitem(PINS, "DateStyle")
    await world.execute("CREATE TABLE days (id int PRIMARY KEY, d date); INSERT INTO days VALUES (1, '2024-03-04')")
    try:
        await world.execute("ALTER ROLE postgres SET datestyle = 'SQL, DMY'")
        async with unwound() as saga:
            await postgres.update(table="days", set={"d": "2024-03-03"}, where={"id": 1}, credential_ref="pg")
            await world.execute("ALTER ROLE postgres SET datestyle = 'SQL, MDY'")
        assert saga.report.state == "rolled_back"
        ((restored,),) = await world.fetch("SELECT to_char(d, 'YYYY-MM-DD') FROM days")
        assert restored == ("2024-03-04" if is_pinned else "2024-04-03")
    finally:
        await world.execute("ALTER ROLE postgres RESET ALL")


async def test_values_of_every_kind_that_has_an_order_address_a_row(
    world: Connection, kinds: list[Kind], unwound: Unwound
) -> None:
    keys: dict[str, str] = {}
    for place, kind in enumerate(kinds):
        try:
            await world.execute(f"CREATE INDEX ON kinds (k{place})")
        except (asyncpg.UndefinedObjectError, asyncpg.UndefinedFunctionError):
            continue
        if kind.first is not None:
            keys[f"k{place}"] = kind.first
    assert len(keys) > 60
    names = list(keys)
    for first in range(0, len(names), MAX_KEY):
        key = names[first : first + MAX_KEY]
        await world.execute(f"CREATE TABLE keyed AS SELECT {', '.join(key)}, 'old' AS v FROM kinds")
        await world.execute(f"ALTER TABLE keyed ADD PRIMARY KEY ({', '.join(key)})")
        before = await world.fetch("SELECT t::text FROM keyed AS t ORDER BY t")
        async with unwound() as saga:
            found = await postgres.update(
                table="keyed", set={"v": "new"}, where={name: keys[name] for name in key}, credential_ref="pg"
            )
            assert len(found) == 1
        assert saga.report.state == "rolled_back"
        assert await world.fetch("SELECT t::text FROM keyed AS t ORDER BY t") == before
        await world.execute("DROP TABLE keyed")
