"""Record ids: 15 case-sensitive characters, or the same with a checksum of three that survives a lost case."""

import string

_BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase
# "ID Field Type" (SOAP API Developer Guide): each suffix character says which of five characters are capitals.
_CHECKSUM = string.ascii_uppercase + "012345"
SHORT, LONG = 15, 18


def numbered(prefix: str, number: int) -> str:
    """Return the 18-character id of the `number`th record of the object with this key prefix."""
    tail = ""
    for _ in range(SHORT - len(prefix) - 4):
        number, digit = divmod(number, 62)
        tail = _BASE62[digit] + tail
    # Two capitals and two small letters as the pod part: an id whose case is lost is another id.
    return lengthened(f"{prefix}5gQ0{tail}")


def lengthened(short: str) -> str:
    """Return the 18-character form of a 15-character id."""
    suffix = ""
    for start in range(0, SHORT, 5):
        bits = sum(1 << place for place, char in enumerate(short[start : start + 5]) if char.isupper())
        suffix += _CHECKSUM[bits]
    return short + suffix


def normalised(given: str) -> str | None:
    """Return the 18-character id that `given` stands for, None if it is no id.

    An 18-character id is case-insensitive: its checksum gives each letter its case back.
    """
    if not given.isascii() or not given.isalnum() or len(given) not in (SHORT, LONG):
        return None
    if len(given) == SHORT:
        return lengthened(given)
    short = ""
    for block, mark in enumerate(given[SHORT:].upper()):
        if mark not in _CHECKSUM:
            return None
        bits = _CHECKSUM.index(mark)
        for place, char in enumerate(given[block * 5 : block * 5 + 5]):
            short += char.upper() if bits >> place & 1 else char.lower()
    return lengthened(short) if lengthened(short)[SHORT:] == given[SHORT:].upper() else None
