"""The table of records in the documentation of the log's format, made from the records themselves.

`uv run python tests/records_table.py` writes it; a test checks that it is current.
"""

from __future__ import annotations

import typing
from pathlib import Path
from typing import Any

import msgspec

from saga_core import records

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "log-format.md"
BEGIN, END = "<!-- records -->\n", "<!-- /records -->\n"
_NAMES: dict[str, str] = {
    "str": "text",
    "int": "int",
    "bool": "bool",
    "bytes": "bytes",
    "Raw": "value",
    "NoneType": "nil",
}


def table() -> str:
    """Return the table."""
    lines = ["| kind | record | fields | what it says |", "|---|---|---|---|"]
    for number, kind in sorted(records.KINDS.items()):
        fields = ", ".join(_field(field) for field in msgspec.structs.fields(kind))
        says = " ".join((kind.__doc__ or "").split())
        lines.append(f"| {number} | {kind.__name__} | {fields} | {says} |")
    return "\n".join(lines) + "\n"


def _field(field: msgspec.structs.FieldInfo) -> str:
    default = "" if field.required else f" = {_shown(field.default)}"
    return f"`{field.name}`: {_type(field.type)}{default}"


def _shown(value: object) -> str:
    return (
        "nil"
        if value is None or value is records.EMPTY
        else repr(value).replace("'", '"').replace("()", "[]").replace("False", "false")
    )


def _type(annotation: Any) -> str:
    arguments = typing.get_args(annotation)
    origin = typing.get_origin(annotation)
    if origin is dict:
        return f"map of text to {_type(arguments[1])}"
    if origin is tuple and arguments[1:] == (...,):
        return f"array of {_type(arguments[0])}"
    if origin is tuple:
        return f"array ({', '.join(map(_type, arguments))})"
    if arguments:
        return " or ".join(map(_type, arguments))
    name: str = annotation.__name__
    return "any" if annotation is Any else _NAMES.get(name, name.lower())


def page() -> str:
    """Return the page with the table as it should be."""
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.index(BEGIN) + len(BEGIN), text.index(END)
    return text[:before] + table() + text[after:]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
