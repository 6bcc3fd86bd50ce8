"""The action `postgres.update`."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from saga_connectors.postgres import _effect
from saga_connectors.postgres._effect import Image
from saga_connectors.postgres._restore import restore
from saga_connectors.postgres._row import Change, change_of, change_rows, image_columns, read_rows
from saga_connectors.postgres._table import Table, find_oid, read_table, unsupported
from saga_connectors.postgres._transaction import LANDS_WITHIN, Transaction, is_proof
from saga_connectors.postgres.errors import CommitInDoubt, PostgresError, RolledBack, RowCountMismatch
from saga_core import Attempt, Call, Compensation, Landed, NotLanded, Unknown, current_step, reversible


def _resource(attempt: Attempt) -> str:
    # The table, not the rows: whether two conditions meet cannot be told from their text.
    return f"postgres {attempt.captured['relation']}"


@reversible("postgres.update", not_landed=is_proof, lands_within=LANDS_WITHIN, resource=_resource)
async def update(
    *,
    table: str,
    set: Mapping[str, Any],  # noqa: A002 - the word of SQL
    where: Mapping[str, Any],
    credential_ref: str,
    expect_rows: int | None = None,
) -> Sequence[Mapping[str, str | None]]:
    """Update rows, and return them as they are afterwards: key and written columns, each value as its text.

    One transaction changes the rows and records them in the effects table (`install_sql`), so both land or neither
    does. The undo restores the written columns, or leaves all rows alone if one of them was changed again since. It
    runs the table's triggers like any update: what they write elsewhere stays.

    Values are JSON. A string may stand for any type, in the form that the type reads; null is NULL. A list is an array
    in `set`, and in `where` it means one of its values. At most 1000 rows and 64 KiB of their values as text change in
    one call, within 15 seconds, of which at most 5 wait for somebody else's lock. Inside the transaction, for triggers
    too, the time zone is UTC and dates are read as ISO.

    Args:
        table: `orders`, `public.orders`, or quoted as in SQL: `"My Schema"."orders"`.
        set: New values by column; at least one.
        where: Values that the row has, by column, joined by AND; at least one. There is no way to mean all rows.
        credential_ref: Leads to `{"dsn": "postgresql://..."}`; `effects_schema` beside it names another than `saga`.
        expect_rows: How many rows this must change; with another number it is rolled back.

    Raises:
        EffectsTableMissing: The effects table is not there. The text holds the DDL; nothing was changed.
        UpdateUnsupported: The table has no key, is a view, or an argument does not fit it. Nothing was changed.
        RolledBack: The server refused, or more rows were concerned than allowed. Nothing was changed.
        DatabaseUnreachable: Nothing was sent.
        CommitInDoubt: The answer to the commit was lost, and the server could not yet say what became of it.
    """
    step = current_step()
    async with Transaction(credential_ref) as transaction:
        written = await write(transaction, table=table, set_=set, where=where, expect_rows=expect_rows)
        xid = await _effect.record(
            transaction, step.key, written.table.relation, before=written.before, after=written.after
        )
        if xid is None:
            raise CommitInDoubt(
                "this step has landed before, under the same key",
                world="the rows were changed once, by the earlier attempt",
                next="nothing: the step is settled by the row that the earlier attempt left",
            )
        await step.note(xid=xid, **written.facts())
        await transaction.commit()
    return written.after


class Written(NamedTuple):
    """What an update did, in a transaction that is still open.

    Attributes:
        columns: Those that were set, and those of the key that changed with them.
        before: The rows' key and written columns before, as text.
        after: The same afterwards, after all triggers.
    """

    table: Table
    columns: tuple[str, ...]
    before: Image
    after: Image

    def facts(self) -> dict[str, Any]:
        """Return all that its undo needs to know, as JSON."""
        table = self.table
        types = {column.name: column.type for column in image_columns(table, self.columns)}
        return {
            "table": {"oid": table.oid, "schema": table.schema, "name": table.name, "search_path": table.search_path},
            "types": types,
            "key": list(table.key),
            "written": list(self.columns),
            "before": self.before,
            "after": self.after,
        }


async def write(
    transaction: Transaction,
    *,
    table: str,
    set_: Mapping[str, Any],
    where: Mapping[str, Any],
    expect_rows: int | None = None,
) -> Written:
    """Change the rows in a transaction, without committing it."""
    shape, change = await _planned(transaction, table, set_, where)
    before, keys = await change_rows(transaction, shape, change)
    if expect_rows is not None and len(before) != expect_rows:
        raise RowCountMismatch(
            f"{len(before)} rows matched, {expect_rows} were expected",
            world="nothing was changed",
            next="look at what `where` matches; leave expect_rows out if any number is right",
        )
    # Deferred triggers and constraints would otherwise act behind the image that is taken now.
    await transaction.execute("SET CONSTRAINTS ALL IMMEDIATE")
    after: list[dict[str, str | None]] = []
    for row in await read_rows(transaction, shape, image_columns(shape, change.written), keys):
        if row is None:
            raise RolledBack(
                "a trigger deleted a changed row, or gave it another key after the change",
                world="nothing was changed",
                next="change this table by a statement of its own: such an update cannot be undone row by row",
            )
        after.append(row)
    moved = tuple(
        name
        for name in shape.key
        if name not in change.written
        and shape.columns[name].fixed is None
        and any(old[name] != new[name] for old, new in zip(before, after, strict=True))
    )
    return Written(shape, (*change.written, *moved), before, after)


async def _planned(
    transaction: Transaction, table: str, set_: Mapping[str, Any], where: Mapping[str, Any]
) -> tuple[Table, Change]:
    if not set_:
        raise unsupported("`set` is empty: there is nothing to change", "name a column and its new value")
    if not where:
        raise unsupported(
            "`where` is empty: that would change the whole table",
            "name a column and its value; to change every row on purpose, list the values of a column",
        )
    shape = await read_table(transaction, await find_oid(transaction, table))
    if (shape.schema, shape.name) == (transaction.effects_schema, "effects"):
        raise unsupported(
            f"{shape.relation} is the record of what updates did, and no update's own target",
            "leave it alone: undoing relies on it",
        )
    return shape, change_of(shape, set_, where)


@update.capture
async def _capture(attempt: Attempt) -> Mapping[str, Any]:
    args = attempt.args
    async with Transaction(args["credential_ref"]) as transaction:
        await _effect.require_table(transaction)
        shape, change = await _planned(transaction, args["table"], args["set"], args["where"])
        return {
            "relation": shape.relation,
            "oid": shape.oid,
            "key": list(shape.key),
            "types": {column.name: column.type for column in image_columns(shape, change.written)},
            "effects_schema": transaction.effects_schema,
        }


@update.probe
async def _probe(attempt: Attempt) -> Landed[Sequence[Mapping[str, str | None]]] | NotLanded | Unknown:
    schema: str = attempt.captured["effects_schema"]
    try:
        async with Transaction(attempt.args["credential_ref"]) as transaction:
            return await landed(transaction, attempt.key, attempt.notes.get("xid"), schema=schema)
    except PostgresError as error:
        return Unknown(f"the database could not be asked ({error.args[0]})")


async def landed(
    transaction: Transaction, key: str, xid: str | None, *, schema: str
) -> Landed[Sequence[Mapping[str, str | None]]] | NotLanded | Unknown:
    """Ask the server what became of the transaction that carried this key."""
    (is_standby,), *_ = await transaction.fetch("SELECT pg_catalog.pg_is_in_recovery()")
    if is_standby:
        return Unknown("this server is a standby, and may not have heard of the transaction yet")
    # The fate first: a row that is missing after an answered fate will not come any more.
    fate: str | None = None
    if xid is not None:
        (fate,), *_ = await transaction.fetch(
            "SELECT pg_catalog.pg_xact_status($1::pg_catalog.text::pg_catalog.xid8)", xid
        )
    effect = await _effect.find(transaction, key, schema=schema)
    if effect is not None:
        return Landed(effect.after)
    if xid is None or fate == "aborted":
        # The id is logged before the commit is sent. Without one, no commit was.
        return NotLanded()
    if fate == "in progress":
        return Unknown("its transaction is still in progress on the server")
    if fate is None:
        return Unknown("the server has forgotten its transaction, and the effects table has no row of it")
    return Unknown("its transaction committed, and somebody deleted its row from the effects table")


@update.undo
def _undo(call: Call[Sequence[Mapping[str, str | None]]]) -> Compensation:
    notes = call.notes
    return restore.bind(
        table=notes["table"],
        types=notes["types"],
        key=notes["key"],
        written=notes["written"],
        before=notes["before"],
        after=notes["after"],
        effect=call.key,
        effects_schema=call.captured["effects_schema"],
        credential_ref=call.args["credential_ref"],
    )
