"""When two values of a field are the same value, and who wrote the current one."""

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

_NUMBERS = ("int", "double", "currency", "percent")
_SHORT_ID = 15


class Standing(msgspec.Struct, frozen=True):
    """Whose value each field holds now.

    Attributes:
        ours: Fields that hold what the saga wrote.
        restored: Fields that hold what they held before.
        theirs: Fields that hold neither: somebody else wrote them since.
    """

    ours: tuple[str, ...]
    restored: tuple[str, ...]
    theirs: tuple[str, ...]


def standing(
    wrote: Mapping[str, Any], before: Mapping[str, Any], found: Mapping[str, Any], types: Mapping[str, str]
) -> Standing:
    """Return whose values `found` holds, for the fields that the saga changed.

    A field that was written with the value it had is left out: there is nothing to restore in it, and whoever changed
    it since is in nobody's way.
    """
    changed = [name for name in wrote if not same(types[name], wrote[name], before[name])]
    ours = tuple(name for name in changed if same(types[name], found[name], wrote[name]))
    restored = tuple(name for name in changed if same(types[name], found[name], before[name]))
    theirs = tuple(name for name in changed if name not in ours and name not in restored)
    return Standing(ours, restored, theirs)


def same(kind: str, one: Any, other: Any) -> bool:
    """Tell whether two values of a field of type `kind` are the same to Salesforce, however they are written."""
    left, right = _plain(kind, one), _plain(kind, other)
    return type(left) is type(right) and left == right


def _plain(kind: str, value: Any) -> Any:
    if value is None or value == "":
        # Salesforce stores an empty text as null.
        return None
    if isinstance(value, bool):
        return value
    if kind in _NUMBERS:
        return _number(value)
    if not isinstance(value, str):
        return value
    if kind == "datetime":
        return _moment(value)
    if kind == "date":
        return value[:10]
    if kind == "multipicklist":
        # The order of the chosen values is the value set's, not the writer's.
        return frozenset(choice for choice in value.split(";") if choice)
    if kind in ("reference", "id"):
        return value[:_SHORT_ID]
    return value


def _number(value: Any) -> Any:
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return value


def _moment(value: str) -> Any:
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return value
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    # "Primitive Data Types" (SOAP API Developer Guide): a dateTime has a precision of one second.
    return moment.astimezone(UTC).replace(microsecond=0)
