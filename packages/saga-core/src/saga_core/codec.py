"""Values and records to bytes and back.

A value that enters the log is frozen: encoded once, at the door, and decoded from those bytes for everybody who reads
it, the process that wrote it included.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Raw

from saga_core.answers import Compensation
from saga_core.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_VALUE = 64 * 1024 * 1024
"""Bytes that one frozen value may take."""

LARGE = 64 * 1024
"""Bytes from which on a value is written where it holds up no event loop."""

_LARGEST = 2**63 - 1

MAX_WORDS = 2000
"""Letters of what users' code says that a record keeps."""

MAX_DEPTH = 100
"""How deep a value may be nested."""

SCALARS = frozenset({str, int, bool, type(None)})
"""Types whose values need no look at what their bytes decode to."""

_SHORT = 4096


def _foreign(value: Any) -> Any:
    model = cast("type[Any]", type(value))
    kind = model.__qualname__
    dump = getattr(model, "model_dump", None)
    if dump is None:
        raise TypeError(f"a {kind} cannot be recorded as JSON")
    try:
        return dump(value, mode="json")
    except Exception as error:  # noqa: BLE001 -- whatever a model raises, it cannot be recorded
        raise TypeError(f"a {kind} could not turn itself into JSON: {type(error).__qualname__}") from None


_encoder = msgspec.msgpack.Encoder(enc_hook=_foreign, decimal_format="string", uuid_format="canonical")
_decoder = msgspec.msgpack.Decoder()
_record_encoder = msgspec.msgpack.Encoder(enc_hook=_foreign, decimal_format="string")
_record_decoder: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)


def freeze(value: Any) -> Raw:
    """Return the value's bytes.

    Raises:
        TypeError: The value, or one inside it, cannot be recorded; the text says which type, never the value.
        ValueError: A number is not finite, or the value takes more than 64 MB.
    """
    try:
        data = _encoder.encode(value)
    except OverflowError:
        raise ValueError("an integer does not fit into 64 bits; record it as text") from None
    except RecursionError:
        raise ValueError("it is nested too deeply, or contains itself") from None
    if len(data) > MAX_VALUE:
        raise ValueError(f"it takes {len(data)} bytes; {MAX_VALUE} is the most that a record holds")
    return Raw(data)


def thaw(frozen: Raw | bytes) -> Any:
    """Return a fresh copy of a frozen value, in JSON's own types."""
    return _decoder.decode(frozen)


def read_back(value: Any, frozen: Raw) -> Any:
    """Return what a frozen value's bytes decode to, in JSON's own types.

    Raises:
        ValueError: It holds what JSON cannot.
    """
    kind: type[object] = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind in SCALARS:
        return value
    if kind is dict:
        for name, item in value.items():
            if type(name) is not str or type(item) not in SCALARS:
                break
        else:  # flat: a copy is what its bytes decode to
            return value.copy()
    plain = thaw(frozen)
    refuse_unfit(plain)
    return plain


def is_scalar(fields: dict[str, Any]) -> bool:
    """Tell whether nothing in there can be changed by anybody who holds it too."""
    return SCALARS.issuperset(map(type, fields.values()))


def is_plain(fields: dict[str, Any]) -> bool:
    """Tell whether each value is short text, a 64-bit integer, a truth value or None: fit without a look inside."""
    for name, value in fields.items():
        kind: type[object] = type(value)  # pyright: ignore[reportUnknownVariableType]
        if type(name) is not str or not name.isascii():
            return False
        if kind is str:
            if len(value) > _SHORT or not value.isascii():
                return False
        elif kind is int:
            if not -_LARGEST <= value <= _LARGEST:
                return False
        elif value is not None and kind is not bool:
            return False
    return True


def refuse_unfit(value: object, depth: int = MAX_DEPTH) -> None:
    """Check a thawed value for what JSON cannot hold: numbers that are not finite, keys that are not text.

    Values nested deeper than `depth` are refused too, so that every process can decode what one has written.

    Raises:
        ValueError: It holds such a thing.
    """
    if depth < 0:
        raise ValueError("it is nested too deeply, or contains itself")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("a number is not finite")
    elif isinstance(value, dict):
        for key, item in cast("dict[object, object]", value).items():
            if not isinstance(key, str):
                raise ValueError(f"a mapping has a key of type {type(key).__qualname__}; JSON has text keys only")  # noqa: TRY004 -- one error for all that is unfit
            if type(item) not in SCALARS:
                refuse_unfit(item, depth - 1)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            if type(item) not in SCALARS:
                refuse_unfit(item, depth - 1)


encode: Callable[[Record], bytes] = _record_encoder.encode
"""Returns a record's payload."""


def cleaned(record: Record) -> Record:
    """Return a record that `encode` refused with its words and numbers made fit: what users' code says may be anything.

    Text that is no Unicode is escaped, numbers are held to 64 bits, and what is neither becomes text.
    """
    fields = {name: _cleaned(getattr(record, name)) for name in record.__struct_fields__}
    return msgspec.structs.replace(record, **fields)


def _cleaned(value: Any) -> Any:
    if value is None or isinstance(value, (bool, float, bytes, Raw)):
        return value
    if isinstance(value, int):
        return max(min(value, _LARGEST), -_LARGEST)
    if isinstance(value, tuple):
        return tuple(_cleaned(item) for item in cast("tuple[Any, ...]", value))
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(item) for key, item in cast("dict[Any, Any]", value).items()}
    if isinstance(value, Compensation):
        return value
    return words(value)


def words(value: object) -> str:
    """Return what users' code says as text that any record and log line can hold."""
    try:
        text = value if isinstance(value, str) else str(value)
    except Exception:  # noqa: BLE001 -- an object that cannot say what it is still must not keep a fact out of the log
        text = f"a {type(value).__qualname__}"
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= MAX_WORDS else f"{text[:MAX_WORDS]}..."


def bound(undo: object) -> Compensation:
    """Return a compensation as it will be read back.

    Raises:
        TypeError: It is none, or its arguments cannot be recorded.
        ValueError: A number among them is not finite, or they are too large.
    """
    if not isinstance(undo, Compensation):
        raise TypeError(f"it is a {type(undo).__qualname__}, not what an inverse's bind returns")
    inverse, version = undo.inverse, undo.version
    args: dict[str, Any] = undo.args  # pyright: ignore[reportAssignmentType] -- looked at below
    is_named = type(inverse) is str and inverse.isascii() and type(version) is int
    if is_named and type(args) is dict and is_plain(args):
        return Compensation(inverse, version, args.copy())
    plain = thaw(freeze([undo.inverse, undo.version, undo.args]))
    refuse_unfit(plain)
    try:
        return msgspec.convert(plain, Compensation)
    except msgspec.ValidationError as wrong:
        raise TypeError(f"it is not what an inverse's bind returns: {wrong}") from None


def decode(payload: bytes | memoryview) -> Record:
    """Return the record of a payload.

    Raises:
        msgspec.DecodeError: It is no record of a known kind.
    """
    return _record_decoder.decode(payload)
