"""The inverse of `postgres.update`: the rows as they were, if nobody has changed them since."""

from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from saga_connectors.postgres import _effect
from saga_connectors.postgres._effect import Image
from saga_connectors.postgres._row import AmbiguousKey, image_columns, read_rows, write_rows
from saga_connectors.postgres._table import Table, read_table
from saga_connectors.postgres._transaction import Transaction, condition
from saga_connectors.postgres.errors import PostgresError, RolledBack, TooMuchToUndo, UpdateUnsupported
from saga_core import AlreadyUndone, Conflict, Landed, NotLanded, Unknown, inverse

_LOCK_NOT_AVAILABLE = "55P03"


@inverse("postgres.restore", keyed=True)
async def restore(
    *,
    table: Mapping[str, Any],
    types: Mapping[str, str],
    key: Sequence[str],
    written: Sequence[str],
    before: Sequence[Mapping[str, str | None]],
    after: Sequence[Mapping[str, str | None]],
    effect: str,
    effects_schema: str,
    credential_ref: str,
) -> AlreadyUndone | Conflict | None:
    """Give the written columns of all rows their earlier values back, or change nothing.

    Everything happens in one transaction that has locked the rows and the effect's own row, so of any number of
    processes that restore the same effect one does it and the others find it done.

    Args:
        table: Its oid and name, and the search path under which its values were spelled.
        types: Of the columns concerned, to be found unchanged.
        key: The columns that address a row.
        written: The columns to restore.
        before: The rows' key and written columns before the update, as text.
        after: The same after it.
        effect: The key of the row in the effects table.
        effects_schema: Where that table is.
        credential_ref: As the update used it.

    Raises:
        PostgresError: A lock, a timeout or a lost connection: nothing was changed, try again.
    """
    async with Transaction(credential_ref, search_path=table["search_path"]) as transaction:
        recorded = await _effect.find(transaction, effect, schema=effects_schema, lock="FOR UPDATE")
        if recorded is None:
            return Conflict(wrote=after, found="the row of this update was deleted from the effects table")
        if recorded.is_undone:
            return AlreadyUndone()
        answer = await _put_back(transaction, table, types, key, written, before, after)
        if not isinstance(answer, Conflict):
            await _effect.mark_undone(transaction, effect, schema=effects_schema)
            await transaction.commit()
        return answer


async def _put_back(
    transaction: Transaction,
    table: Mapping[str, Any],
    types: Mapping[str, str],
    key: Sequence[str],
    written: Sequence[str],
    before: Image,
    after: Image,
) -> AlreadyUndone | Conflict | None:
    """Restore the rows inside the transaction; on a conflict it must not be committed."""
    shape = await _same_shape(transaction, table, types, key)
    if isinstance(shape, str):
        return Conflict(wrote=after, found=shape)
    columns = image_columns(shape, written)
    try:
        found = await read_rows(transaction, shape, columns, after)
        if found != after:
            # A row whose key was changed as well is looked for under its earlier key.
            if await read_rows(transaction, shape, columns, before) == before:
                return AlreadyUndone()
            return _changed(after, found)
        restored = [column for column in columns if column.name in written]
        await write_rows(transaction, shape, restored, after, before)
        await transaction.execute("SET CONSTRAINTS ALL IMMEDIATE")
        found = await read_rows(transaction, shape, columns, before)
    except asyncpg.IntegrityConstraintViolationError as error:
        return Conflict(wrote=after, found=f"putting the rows back is refused now: {condition(error)}")
    except TooMuchToUndo:
        return Conflict(wrote=after, found="rows that were changed since, and are far larger")
    except AmbiguousKey as error:
        return Conflict(wrote=after, found=str(error.args[0]))
    if found != before:
        return Conflict(wrote=after, found="a trigger that does not let the earlier values back in")
    return None


async def _same_shape(
    transaction: Transaction, table: Mapping[str, Any], types: Mapping[str, str], key: Sequence[str]
) -> Table | str:
    """Return the table if its rows can be read as they were recorded, else what became of it."""
    try:
        shape = await read_table(transaction, table["oid"])
    except UpdateUnsupported as gone:
        return f"{table['schema']}.{table['name']}: {gone.args[0]}"
    for name, type_ in types.items():
        column = shape.columns.get(name)
        if column is None:
            return f"column {name} of {shape.relation} was dropped or renamed"
        if column.type != type_:
            return f"column {name} of {shape.relation} was {type_} and is {column.type} now"
    return shape._replace(key=tuple(key))


def _changed(after: Image, found: Sequence[Mapping[str, str | None] | None]) -> Conflict:
    """Return the rows that somebody else has changed or deleted."""
    differing = [(ours, theirs) for ours, theirs in zip(after, found, strict=True) if ours != theirs]
    return Conflict(wrote=[ours for ours, _ in differing], found=[theirs for _, theirs in differing])


@restore.probe
async def _probe(
    *, effect: str, effects_schema: str, credential_ref: str, **_: Any
) -> Landed[None] | NotLanded | Unknown:
    try:
        async with Transaction(credential_ref) as transaction:
            # Whoever is restoring holds the row until the end, so a row that can be had tells the final truth.
            recorded = await _effect.find(transaction, effect, schema=effects_schema, lock="FOR SHARE NOWAIT")
    except RolledBack as error:
        if error.sqlstate == _LOCK_NOT_AVAILABLE:
            return Unknown("a transaction that restores it is still in progress on the server")
        return Unknown(f"the database could not be asked ({error.args[0]})")
    except PostgresError as error:
        return Unknown(f"the database could not be asked ({error.args[0]})")
    if recorded is None:
        return Unknown("the row of this update was deleted from the effects table")
    return Landed(None) if recorded.is_undone else NotLanded()
