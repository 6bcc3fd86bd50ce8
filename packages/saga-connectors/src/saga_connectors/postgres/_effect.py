"""The effects table: one row per update, written in the update's own transaction, so that both land or neither does."""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from saga_connectors.postgres._transaction import Transaction
from saga_connectors.postgres.errors import EffectsTableMissing

Image = Sequence[Mapping[str, str | None]]
"""Rows as their values' text, column by column."""


def install_sql(*, schema: str = "saga") -> str:
    """Return the DDL of the effects table. You run it once per database; PostgreSQL 13 or later.

    An action without this table fails before its effect, and prints this. A credential whose table stands in another
    schema says so: `{"dsn": "...", "effects_schema": "audit"}`.

    The role that the credential logs in as needs `USAGE` on the schema and `SELECT`, `INSERT` and `UPDATE` on the
    table. The table holds the rows' values from before and after each update, and wants the same protection as they do.
    A row may be deleted once its saga is settled, not earlier: it tells whether an update landed.
    """
    name = quoted(schema)
    return f"""\
CREATE SCHEMA IF NOT EXISTS {name};
CREATE TABLE IF NOT EXISTS {name}.effects (
    key       text        PRIMARY KEY,
    xid       xid8        NOT NULL DEFAULT pg_current_xact_id(),
    relation  text        NOT NULL,
    before    json        NOT NULL,
    after     json        NOT NULL,
    at        timestamptz NOT NULL DEFAULT now(),
    undone_at timestamptz
);
"""


def quoted(identifier: str) -> str:
    """Return an identifier as SQL takes it literally."""
    return '"' + identifier.replace('"', '""') + '"'


class Effect(NamedTuple):
    """A row of the effects table."""

    relation: str
    before: Image
    after: Image
    is_undone: bool


async def require_table(transaction: Transaction) -> None:
    """Check that the effects table is there and that the role can use it.

    Raises:
        EffectsTableMissing: It is not, or cannot.
    """
    schema = transaction.effects_schema
    rows = await transaction.fetch(_USABLE, schema)
    if rows and rows[0][0]:
        return
    raise EffectsTableMissing(
        f"the table {quoted(schema)}.effects is missing"
        if not rows
        else f"the role may not read and write the table {quoted(schema)}.effects",
        world="nothing was changed",
        next=f"run this in the database as a role that may:\n{install_sql(schema=schema)}{_grants(schema)}",
    )


def _grants(schema: str) -> str:
    name = quoted(schema)
    return (
        f"GRANT USAGE ON SCHEMA {name} TO <the role of the credential>;\n"
        f"GRANT SELECT, INSERT, UPDATE ON {name}.effects TO <the role of the credential>;"
    )


_USABLE = """
SELECT pg_catalog.has_schema_privilege(n.oid, 'USAGE')
   AND pg_catalog.has_table_privilege(c.oid, 'SELECT')
   AND pg_catalog.has_table_privilege(c.oid, 'INSERT')
   AND pg_catalog.has_any_column_privilege(c.oid, 'UPDATE')
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
WHERE n.nspname OPERATOR(pg_catalog.=) $1::pg_catalog.text AND c.relname OPERATOR(pg_catalog.=) 'effects'
  AND c.relkind OPERATOR(pg_catalog.=) ANY ('{r,p}'::pg_catalog."char"[])
"""


async def record(transaction: Transaction, key: str, relation: str, before: Image, after: Image) -> str | None:
    """Write the effect row and return the transaction's id, or None if this key has a row already."""
    rows = await transaction.fetch(
        f"""
        INSERT INTO {quoted(transaction.effects_schema)}.effects (key, xid, relation, before, after)
        VALUES ($1::pg_catalog.text, pg_catalog.pg_current_xact_id(), $2::pg_catalog.text,
                $3::pg_catalog.text::pg_catalog.json, $4::pg_catalog.text::pg_catalog.json)
        ON CONFLICT (key) DO NOTHING
        RETURNING xid::pg_catalog.text
        """,  # noqa: S608 - the one interpolated name is quoted
        key,
        relation,
        _dump(before),
        _dump(after),
    )
    return rows[0][0] if rows else None


async def find(transaction: Transaction, key: str, *, schema: str, lock: str = "") -> Effect | None:
    """Return the effect row of a step, locked as `lock` says until the transaction ends."""
    rows = await transaction.fetch(
        f"""
        SELECT relation, before::pg_catalog.text, after::pg_catalog.text, undone_at IS NOT NULL
        FROM {quoted(schema)}.effects WHERE key OPERATOR(pg_catalog.=) $1::pg_catalog.text {lock}
        """,  # noqa: S608 - the one interpolated name is quoted
        key,
    )
    if not rows:
        return None
    relation, before, after, is_undone = rows[0]
    return Effect(relation, json.loads(before), json.loads(after), is_undone)


async def mark_undone(transaction: Transaction, key: str, *, schema: str) -> None:
    """Say in the effect row, which the transaction has locked, that its update is undone."""
    await transaction.execute(
        f"""
        UPDATE {quoted(schema)}.effects SET undone_at = pg_catalog.now()
        WHERE key OPERATOR(pg_catalog.=) $1::pg_catalog.text AND undone_at IS NULL
        """,  # noqa: S608 - the one interpolated name is quoted
        key,
    )


def _dump(image: Image) -> str:
    return json.dumps(image, ensure_ascii=False, separators=(",", ":"))
