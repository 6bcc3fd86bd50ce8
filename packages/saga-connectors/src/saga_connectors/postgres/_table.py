"""A table as the catalog knows it: its columns, how their values compare, and the key that addresses its rows."""

from typing import Literal, NamedTuple

from saga_connectors.postgres._effect import quoted
from saga_connectors.postgres._transaction import Transaction
from saga_connectors.postgres.errors import UpdateUnsupported

_NOTHING = "nothing was sent"


class Column(NamedTuple):
    """A column.

    Attributes:
        name: As the catalog spells it.
        type: Schema-qualified and quoted, without length or precision: a user's type may be called `line`.
        takes: `json` if a JSON value of any shape is a value of it, `array` if a list is.
        equality: The operator that the type itself calls equal, None if it has none (json, point, polygon, ...).
        fixed: Why it cannot be set, None if it can.
        is_required: It is declared NOT NULL.
    """

    name: str
    type: str
    takes: Literal["json", "array", "scalar"]
    equality: str | None
    fixed: str | None
    is_required: bool

    @property
    def sql(self) -> str:
        """The column in a statement that calls the table `t`."""
        return f"t.{quoted(self.name)}"

    @property
    def text(self) -> str:
        """Its value as text."""
        return f"{self.sql}::pg_catalog.text"

    def equals(self, value: str) -> str:
        """Return the condition that the column equals `value`, an expression of its type."""
        if self.equality is None:
            return f"{self.text} OPERATOR(pg_catalog.=) ({value})::pg_catalog.text"
        return f"{self.sql} {self.equality} {value}"


class Table(NamedTuple):
    """A table whose rows can be addressed one by one.

    Attributes:
        oid: Survives a rename, not a replacement.
        columns: By name, in the table's order.
        key: The columns that identify a row.
        search_path: Under which values such as a regclass are spelled.
    """

    oid: int
    schema: str
    name: str
    columns: dict[str, Column]
    key: tuple[str, ...]
    search_path: str

    @property
    def relation(self) -> str:
        """Its schema-qualified and quoted name."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    def column(self, name: str) -> Column:
        """Return a column by its exact name.

        Raises:
            UpdateUnsupported: There is none of this name.
        """
        try:
            return self.columns[name]
        except KeyError:
            raise unsupported(
                f"the table {self.relation} has no column {quoted(name)}",
                "use a name of the catalog's spelling; these are there: " + ", ".join(self.columns),
            ) from None


def unsupported(message: str, next_: str) -> UpdateUnsupported:
    """Return the refusal of an update that has not been sent."""
    return UpdateUnsupported(message, world=_NOTHING, next=next_)


async def find_oid(transaction: Transaction, name: str) -> int:
    """Return the oid of the relation that a name, read as in SQL, means to this role.

    Raises:
        UpdateUnsupported: There is none.
    """
    rows = await transaction.fetch("SELECT pg_catalog.to_regclass($1::pg_catalog.text)::pg_catalog.oid", name)
    if rows[0][0] is None:
        raise unsupported(
            "the table is not there, or the role may not see it",
            'write "schema.table"; a name with capitals or dots needs double quotes inside, as in SQL',
        )
    return rows[0][0]


async def read_table(transaction: Transaction, oid: int) -> Table:
    """Return the table, whose shape then stays as it is until the transaction ends.

    Raises:
        UpdateUnsupported: It is no ordinary table, or nothing identifies its rows.
    """
    name = await _name(transaction, oid)
    if name.kind not in {"r", "p"}:
        raise unsupported(
            f"{name.sql} is no ordinary table: the rows of a view or a foreign table cannot be restored",
            "update the table behind it",
        )
    if name.has_children:
        raise unsupported(f"{name.sql} has child tables, across which no key is unique", "update one of the children")
    # Whoever wants to change the columns waits from here on. Unlike LOCK TABLE, this needs no right on the whole table.
    await transaction.fetch(f"SELECT 1 FROM {name.sql} LIMIT 0")  # noqa: S608 - quoted
    if await _name(transaction, oid) != name:
        raise unsupported("the table was renamed just now", "call again")
    columns = {column.name: column for column in await _columns(transaction, oid)}
    rows = await transaction.fetch(_KEYS, oid)
    key = next((tuple(key) for (key,) in rows if all(columns[part].is_required for part in key)), None)
    if key is None:
        raise unsupported(
            f"the table {name.sql} has no primary key and no other unique key without NULLs",
            "give it one: without it a changed row cannot be found again",
        )
    return Table(oid, name.schema, name.name, columns, key, name.search_path)


class _Name(NamedTuple):
    schema: str
    name: str
    kind: str
    has_children: bool
    search_path: str

    @property
    def sql(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.name)}"


async def _name(transaction: Transaction, oid: int) -> _Name:
    rows = await transaction.fetch(_NAME, oid)
    if not rows:
        raise unsupported("the table was dropped", "name a table that is there")
    return _Name(*rows[0])


async def _columns(transaction: Transaction, oid: int) -> list[Column]:
    found: list[Column] = []
    for name, type_, category, equality, is_generated, is_identity, is_required in await transaction.fetch(
        _COLUMNS, oid
    ):
        fixed = "it is generated" if is_generated else "it is an identity that is always generated"
        takes = "json" if category == "json" else "array" if category == "array" else "scalar"
        found.append(Column(name, type_, takes, equality, fixed if is_generated or is_identity else None, is_required))
    return found


_NAME = """
SELECT n.nspname::pg_catalog.text, c.relname::pg_catalog.text, c.relkind::pg_catalog.text,
       c.relkind OPERATOR(pg_catalog.=) 'r'
       AND EXISTS (SELECT 1 FROM pg_catalog.pg_inherits AS i WHERE i.inhparent OPERATOR(pg_catalog.=) c.oid),
       pg_catalog.current_setting('search_path')
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
WHERE c.oid OPERATOR(pg_catalog.=) $1::pg_catalog.oid
"""

# A primary key first. A deferrable key is unique between transactions, which is when rows are addressed.
_KEYS = """
SELECT (
    SELECT pg_catalog.array_agg(a.attname::pg_catalog.text ORDER BY part.place)
    FROM pg_catalog.unnest(i.indkey::pg_catalog.int2[]) WITH ORDINALITY AS part(number, place)
    JOIN pg_catalog.pg_attribute AS a
      ON a.attrelid OPERATOR(pg_catalog.=) i.indrelid AND a.attnum OPERATOR(pg_catalog.=) part.number
    WHERE part.place OPERATOR(pg_catalog.<=) i.indnkeyatts
)
FROM pg_catalog.pg_index AS i
WHERE i.indrelid OPERATOR(pg_catalog.=) $1::pg_catalog.oid
  AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
ORDER BY i.indisprimary DESC, i.indnkeyatts, i.indexrelid
"""

# Equality is the operator of the type's own default operator class, because not every `=` is one: that of box compares
# areas. A domain uses its base type's, an enum that of all enums, varchar that of text, to which it is coercible.
# Arrays, ranges and row types are compared as text: whether they have an equality depends on what they hold.
_COLUMNS = """
WITH RECURSIVE base(type, oid, kind, next) AS (
    SELECT t.oid, t.oid, t.typtype, t.typbasetype
    FROM pg_catalog.pg_type AS t
    WHERE t.oid OPERATOR(pg_catalog.=) ANY (
        SELECT a.atttypid FROM pg_catalog.pg_attribute AS a WHERE a.attrelid OPERATOR(pg_catalog.=) $1::pg_catalog.oid
    )
    UNION ALL
    SELECT b.type, t.oid, t.typtype, t.typbasetype
    FROM base AS b JOIN pg_catalog.pg_type AS t ON t.oid OPERATOR(pg_catalog.=) b.next
    WHERE b.kind OPERATOR(pg_catalog.=) 'd'
), equality(type, operator) AS MATERIALIZED (
    SELECT DISTINCT ON (oc.opcintype) oc.opcintype, pg_catalog.format('OPERATOR(%I.%s)', n.nspname, o.oprname)
    FROM pg_catalog.pg_opclass AS oc
    JOIN pg_catalog.pg_am AS am ON am.oid OPERATOR(pg_catalog.=) oc.opcmethod
    JOIN pg_catalog.pg_amop AS ao
      ON ao.amopfamily OPERATOR(pg_catalog.=) oc.opcfamily
     AND ao.amoplefttype OPERATOR(pg_catalog.=) oc.opcintype
     AND ao.amoprighttype OPERATOR(pg_catalog.=) oc.opcintype
     AND ao.amopstrategy OPERATOR(pg_catalog.=) CASE am.amname WHEN 'btree' THEN 3 ELSE 1 END
    JOIN pg_catalog.pg_operator AS o ON o.oid OPERATOR(pg_catalog.=) ao.amopopr
    JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) o.oprnamespace
    WHERE oc.opcdefault AND am.amname OPERATOR(pg_catalog.=) ANY ('{btree,hash}'::pg_catalog.name[])
    ORDER BY oc.opcintype, am.amname
), coercible(type, target, distance) AS MATERIALIZED (
    SELECT b.oid, b.oid, 0 FROM base AS b
    UNION ALL
    SELECT b.oid, 'pg_catalog.anyenum'::pg_catalog.regtype::pg_catalog.oid, 1
    FROM base AS b WHERE b.kind OPERATOR(pg_catalog.=) 'e'
    UNION ALL
    SELECT c.castsource, c.casttarget, 1 FROM pg_catalog.pg_cast AS c
    WHERE c.castmethod OPERATOR(pg_catalog.=) 'b' AND c.castcontext OPERATOR(pg_catalog.=) 'i'
), compared(type, operator) AS MATERIALIZED (
    SELECT DISTINCT ON (c.type) c.type, e.operator
    FROM coercible AS c JOIN equality AS e ON e.type OPERATOR(pg_catalog.=) c.target
    ORDER BY c.type, c.distance
)
SELECT a.attname::pg_catalog.text,
       pg_catalog.format('%I.%I', n.nspname, t.typname),
       CASE WHEN b.oid OPERATOR(pg_catalog.=) ANY (ARRAY['pg_catalog.json', 'pg_catalog.jsonb']::pg_catalog.regtype[])
            THEN 'json' WHEN bt.typcategory OPERATOR(pg_catalog.=) 'A' THEN 'array' ELSE 'scalar' END,
       compared.operator,
       a.attgenerated OPERATOR(pg_catalog.<>) '',
       a.attidentity OPERATOR(pg_catalog.=) 'a',
       a.attnotnull
FROM pg_catalog.pg_attribute AS a
JOIN pg_catalog.pg_type AS t ON t.oid OPERATOR(pg_catalog.=) a.atttypid
JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) t.typnamespace
JOIN base AS b ON b.type OPERATOR(pg_catalog.=) a.atttypid AND b.kind OPERATOR(pg_catalog.<>) 'd'
JOIN pg_catalog.pg_type AS bt ON bt.oid OPERATOR(pg_catalog.=) b.oid
LEFT JOIN compared ON compared.type OPERATOR(pg_catalog.=) b.oid
WHERE a.attrelid OPERATOR(pg_catalog.=) $1::pg_catalog.oid
  AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""
