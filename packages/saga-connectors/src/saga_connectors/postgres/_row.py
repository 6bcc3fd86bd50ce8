"""Rows as text: read and changed under a lock, and found again by their key."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from saga_connectors.postgres._effect import Image, quoted
from saga_connectors.postgres._table import Column, Table, unsupported
from saga_connectors.postgres._transaction import Transaction
from saga_connectors.postgres._value import text_of
from saga_connectors.postgres.errors import RolledBack, TooMuchToUndo

MAX_ROWS = 1000
MAX_BYTES = 64 * 1024


class AmbiguousKey(RolledBack):
    """A key stands for several rows, because it lost its index since."""


class Change(NamedTuple):
    """An update as asked for, with its values as parameters of a statement.

    Attributes:
        assignments: `column = $n`, for the SET clause.
        condition: For the WHERE clause, over a table called `t`.
        parameters: Texts.
        written: The columns that are set.
    """

    assignments: str
    condition: str
    parameters: tuple[str | None, ...]
    written: tuple[str, ...]


def change_of(table: Table, set_: Mapping[str, Any], where: Mapping[str, Any]) -> Change:
    """Return the statement parts of an update.

    Raises:
        UpdateUnsupported: A column is not there or cannot be set, or a value does not fit its column.
    """
    parameters: list[str | None] = []

    def placed(value: object, column: Column) -> str:
        parameters.append(text_of(value, column))
        return f"${len(parameters)}::pg_catalog.text::{column.type}"

    assignments: list[str] = []
    for name, value in set_.items():
        column = table.column(name)
        if column.fixed is not None:
            raise unsupported(f"column {name} of {table.relation} cannot be set: {column.fixed}", "leave it out")
        assignments.append(f"{quoted(name)} = {placed(value, column)}")
    conditions: list[str] = []
    for name, value in where.items():
        column = table.column(name)
        alternatives = cast("list[object]", value) if isinstance(value, list) else [value]
        if not 0 < len(alternatives) <= MAX_ROWS:
            raise unsupported(
                f"the list for column {name} has {len(alternatives)} values; at least 1 and at most {MAX_ROWS} can be",
                "name the rows by fewer values, in several updates",
            )
        tests = (f"{column.sql} IS NULL" if one is None else column.equals(placed(one, column)) for one in alternatives)
        conditions.append(f"({' OR '.join(tests)})")
    return Change(", ".join(assignments), " AND ".join(conditions), tuple(parameters), tuple(set_))


async def change_rows(transaction: Transaction, table: Table, change: Change) -> tuple[Image, Image]:
    """Lock the rows, change them, and return what they were and the keys they now have, in one order.

    The image from before is read by the statement that takes the locks, so it is what the change really replaced,
    whoever else wrote just before; a SELECT in front of the UPDATE would miss that.

    Raises:
        TooMuchToUndo: There are more rows, or larger ones, than can be recorded.
        RolledBack: A row was matched and not changed.
    """
    columns = image_columns(table, change.written)
    keys = [table.columns[name] for name in table.key]
    matched_keys = ", ".join(f"{column.sql} AS k{place}" for place, column in enumerate(keys))
    same_row = " AND ".join(column.equals(f"m.k{place}") for place, column in enumerate(keys))
    order = ", ".join(f"k{place}" for place in range(len(keys)))
    # Qualified, because the user's own columns may be called k0 too.
    returned = ", ".join(f"m.k{place} AS k{place}" for place in range(len(keys)))
    (found, changed, size, rows), *_ = await transaction.fetch(
        f"""
        WITH matched AS MATERIALIZED (
            SELECT {matched_keys}, {_array(columns)} AS before
            FROM {table.relation} AS t WHERE {change.condition}
            ORDER BY {order} LIMIT {MAX_ROWS + 1} FOR UPDATE OF t
        ), changed AS (
            UPDATE {table.relation} AS t SET {change.assignments} FROM matched AS m WHERE {same_row}
            RETURNING {returned}, pg_catalog.to_json(m.before) AS before, pg_catalog.to_json({_array(keys)}) AS key
        )
        SELECT (SELECT pg_catalog.count(*) FROM matched), (SELECT pg_catalog.count(*) FROM changed), sized.bytes,
               CASE WHEN sized.bytes OPERATOR(pg_catalog.<=) {MAX_BYTES}
                    THEN (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(before, key) ORDER BY {order})
                          FROM changed)
               END::pg_catalog.text
        FROM (
            SELECT COALESCE(pg_catalog.sum(pg_catalog.octet_length(before::pg_catalog.text)), 0)::pg_catalog.int8
            FROM changed
        ) AS sized(bytes)
        """,  # noqa: S608 - identifiers are quoted, types and operators are the catalog's, values are parameters
        *change.parameters,
    )
    if found > MAX_ROWS:
        raise TooMuchToUndo(
            f"the update matches more than {MAX_ROWS} rows",
            world="nothing was changed",
            next="narrow `where`, and do it in several updates",
        )
    _refuse_large(size)
    if found != changed:
        raise RolledBack(
            f"{found} rows matched and {changed} were changed",
            world="nothing was changed",
            next="see whether a trigger or row-level security held the others back, or their key was changed just now",
        )
    pairs: list[tuple[list[str | None], list[str | None]]] = json.loads(rows or "[]")
    before = [dict(zip((column.name for column in columns), values, strict=True)) for values, _ in pairs]
    after_keys = [dict(zip(table.key, values, strict=True)) for _, values in pairs]
    return before, after_keys


async def read_rows(
    transaction: Transaction, table: Table, columns: Sequence[Column], keys: Image
) -> list[dict[str, str | None] | None]:
    """Lock the rows of these keys and return them in the order of the keys, None where there is no such row.

    Raises:
        TooMuchToUndo: They have become larger than can be recorded.
        AmbiguousKey: A key is not unique any more.
    """
    ordered, same_row, parameters = _addressed(table, keys)
    (size, rows), *_ = await transaction.fetch(
        f"""
        WITH found AS MATERIALIZED (
            SELECT v.n, pg_catalog.to_json({_array(columns)}) AS image
            FROM {ordered} JOIN {table.relation} AS t ON {same_row} ORDER BY v.n FOR UPDATE OF t
        ), sized AS (
            SELECT COALESCE(pg_catalog.sum(pg_catalog.octet_length(image::pg_catalog.text)), 0) AS bytes FROM found
        )
        SELECT sized.bytes::pg_catalog.int8,
               CASE WHEN sized.bytes OPERATOR(pg_catalog.<=) {MAX_BYTES}
                    THEN (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(n, image)) FROM found)
               END::pg_catalog.text
        FROM sized
        """,  # noqa: S608 - as above
        *parameters,
    )
    _refuse_large(size)
    found: list[dict[str, str | None] | None] = [None] * len(keys)
    pairs: list[tuple[int, list[str | None]]] = json.loads(rows or "[]")
    for place, values in pairs:
        if found[place - 1] is not None:
            raise AmbiguousKey(
                "a key stands for several rows now", world="nothing was changed", next="see what became of its index"
            )
        found[place - 1] = dict(zip((column.name for column in columns), values, strict=True))
    return found


async def write_rows(
    transaction: Transaction, table: Table, columns: Sequence[Column], keys: Image, values: Image
) -> None:
    """Set the columns of the rows of these keys, which the transaction has locked."""
    ordered, same_row, parameters = _addressed(table, keys, columns, values)
    assignments = ", ".join(
        f"{quoted(column.name)} = v.c{place}::{column.type}" for place, column in enumerate(columns)
    )
    await transaction.execute(
        f"UPDATE {table.relation} AS t SET {assignments} FROM {ordered} WHERE {same_row}",  # noqa: S608 - as above
        *parameters,
    )


def image_columns(table: Table, written: Sequence[str]) -> list[Column]:
    """Return the columns of an image: those of the key, then those that are written."""
    return [table.column(name) for name in dict.fromkeys((*table.key, *written))]


def _addressed(
    table: Table, keys: Image, columns: Sequence[Column] = (), values: Image = ()
) -> tuple[str, str, list[list[str | None]]]:
    """Return a FROM item `v` of keys and values as texts, the condition that ties it to `t`, and its parameters."""
    parameters = [[key[name] for key in keys] for name in table.key]
    parameters += [[row[column.name] for row in values] for column in columns]
    names = [f"k{place}" for place in range(len(table.key))] + [f"c{place}" for place in range(len(columns))]
    lists = ", ".join(f"pg_catalog.unnest(${place}::pg_catalog.text[])" for place in range(1, len(parameters) + 1))
    ordered = f"ROWS FROM ({lists}) WITH ORDINALITY AS v({', '.join(names)}, n)"
    tied = (
        table.columns[name].equals(f"v.k{place}::{table.columns[name].type}") for place, name in enumerate(table.key)
    )
    return ordered, " AND ".join(tied), parameters


def _array(columns: Sequence[Column]) -> str:
    return f"ARRAY[{', '.join(column.text for column in columns)}]::pg_catalog.text[]"


def _refuse_large(size: int) -> None:
    if size > MAX_BYTES:
        raise TooMuchToUndo(
            f"the rows' values take {size} bytes as text; {MAX_BYTES} is the most that can be recorded for an undo",
            world="nothing was changed",
            next="narrow `where`, and do it in several updates; a single value this large cannot be updated reversibly",
        )
