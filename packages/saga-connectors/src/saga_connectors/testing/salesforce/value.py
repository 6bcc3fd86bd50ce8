"""What the vendor makes of a value that it is sent."""

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

from saga_connectors.testing.salesforce.identifier import normalised
from saga_connectors.testing.salesforce.refusal import Refusal, bad
from saga_connectors.testing.salesforce.schema import Field

_TEXT = ("string", "textarea", "phone", "email", "url", "encryptedstring")
_NUMBER = ("double", "currency", "percent")


def stored(field: Field, given: Any) -> Any:
    """Return what is stored when `given` is written into `field`.

    Raises:
        Refusal: The value does not fit; the codes are those of "StatusCode" (SOAP API Developer Guide).
    """
    if given is None or given == "":
        if field.type == "boolean":
            raise _unreadable("boolean", given)
        if field.required:
            raise bad("REQUIRED_FIELD_MISSING", f"Required fields are missing: [{field.name}]", field.name)
        # An empty string and null are the same to the platform, which answers null.
        return None
    return _reader(field)(field, given)


def _reader(field: Field) -> Callable[[Field, Any], Any]:
    if field.type in _TEXT:
        return _text
    if field.type in _NUMBER:
        return _number
    return {
        "picklist": _choice,
        "multipicklist": _choices,
        "boolean": _boolean,
        "int": _integer,
        "date": _date,
        "datetime": _datetime,
        "reference": _reference,
    }[field.type]


def timestamp(moment: datetime) -> str:
    """Return a moment as the REST API writes it.

    "Primitive Data Types" (SOAP API Developer Guide): a dateTime has a precision of one second, whatever is written.
    """
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.000+0000")


def _text(field: Field, given: Any) -> str:
    if not isinstance(given, str):
        raise _unreadable("string", given)
    if len(given) > field.length:
        message = f"{field.name}: data value too large (max length={field.length})"
        raise bad("STRING_TOO_LONG", message, field.name)
    if field.type == "email" and not re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", given):
        raise bad("INVALID_EMAIL_ADDRESS", f"{field.name}: invalid email address", field.name)
    return given


def _choice(field: Field, given: Any) -> str:
    text = _text(field, given)
    # "Picklist" in "Field Types" (Object Reference): only a restricted picklist insists on its own values.
    if field.restricted and text not in field.choices:
        message = f"{field.name}: bad value for restricted picklist field"
        raise bad("INVALID_OR_NULL_FOR_RESTRICTED_PICKLIST", message, field.name)
    return text


def _choices(field: Field, given: Any) -> str:
    if not isinstance(given, str):
        raise _unreadable("string", given)
    asked = [choice for choice in given.split(";") if choice]
    for choice in asked:
        _choice(field, choice)
    # Values come back in the order of the value set, whatever the order they were sent in.
    return ";".join(choice for choice in field.choices if choice in asked)


def _boolean(_: Field, given: Any) -> bool:
    if not isinstance(given, bool):
        raise _unreadable("boolean", given)
    return given


def _integer(_: Field, given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int | float) or given != int(given):
        raise _unreadable("int", given)
    return int(given)


def _number(field: Field, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        raise _unreadable("double", given)
    return round(float(given), field.scale)


def _date(_: Field, given: Any) -> str:
    if not isinstance(given, str):
        raise _unreadable("date", given)
    try:
        return date.fromisoformat(given[:10]).isoformat()
    except ValueError:
        raise _unreadable("date", given) from None


def _datetime(_: Field, given: Any) -> str:
    if not isinstance(given, str):
        raise _unreadable("datetime", given)
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        raise _unreadable("datetime", given) from None
    return timestamp(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _reference(field: Field, given: Any) -> str:
    found = normalised(given) if isinstance(given, str) else None
    if found is None:
        raise bad("MALFORMED_ID", f"{field.name}: id value of incorrect type", field.name)
    return found


def _unreadable(kind: str, given: Any) -> Refusal:
    message = f"Cannot deserialize instance of {kind} from a JSON value of another type ({type(given).__name__})"
    return bad("JSON_PARSER_ERROR", message)
