"""JSON values as the text that PostgreSQL reads."""

import json
import math
from collections.abc import Sequence
from typing import Any, cast

from saga_connectors.postgres._table import Column, unsupported


def text_of(value: object, column: Column) -> str | None:
    """Return the text that the column's type reads as `value`; None is NULL.

    A string is taken as it is, in whatever form the type reads: '2026-11-30 10:00+01', '[1,5)', '{"a": 1}'. A list is
    an array where the column is one, and a list or a mapping is a document where it is json or jsonb.

    Raises:
        UpdateUnsupported: It is no JSON value, or none that the column can hold.
    """
    if value is None:
        return None
    if column.takes == "json" and not isinstance(value, str):
        return _document(value, column)
    if column.takes == "array" and isinstance(value, list):
        return _array(cast("list[object]", value), column)
    return _scalar(value, column)


def _scalar(value: object, column: Column) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        if "\0" in value:
            raise _unfit(column, "a text with a NUL character, which PostgreSQL cannot hold")
        return value
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return repr(value)
    raise _unfit(column, f"a value of type {type(value).__name__}")


def _document(value: object, column: Column) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        raise _unfit(column, "a document that is not JSON") from None


def _array(values: Sequence[Any], column: Column) -> str:
    """Return the array's literal; every element is quoted, so that none is read as NULL or as a delimiter."""
    parts: list[str] = []
    for value in values:
        if value is None:
            parts.append("NULL")
        elif isinstance(value, list):
            parts.append(_array(cast("list[object]", value), column))
        else:
            text = _document(cast("object", value), column) if isinstance(value, dict) else _scalar(value, column)
            parts.append('"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"')
    return "{" + ",".join(parts) + "}"


def _unfit(column: Column, what: str) -> Exception:
    return unsupported(
        f"{what} was given for column {column.name} of type {column.type}",
        "pass what JSON has: null, true, false, a number, or a text in the form that the type reads",
    )
