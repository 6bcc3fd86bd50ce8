"""What msgpack's bytes say, as far as a log needs it; without the library."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TypeAlias

Value: TypeAlias = "bool | int | float | str | bytes | list[Value] | dict[Value, Value] | Extension | None"
Record: TypeAlias = list[Value]


@dataclass(frozen=True)
class Extension:
    """A msgpack value of an extension type."""

    number: int
    data: bytes


class Unreadable(Exception):
    """Bytes that are not what they should be."""


class _Unpacker:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        taken = self.data[self.at : self.at + size]
        if len(taken) < size:
            raise Unreadable("a msgpack value is cut short")
        self.at += size
        return taken

    def number(self, form: str) -> int:
        return struct.unpack(">" + form, self.take(struct.calcsize(form)))[0]

    def sized(self, code: int, first: int) -> int:
        return self.number("BHI"[code - first])

    def text(self, size: int) -> str:
        return self.take(size).decode()

    def array(self, count: int) -> Record:
        return [self.value() for _ in range(count)]

    def map(self, count: int) -> dict[Value, Value]:
        return {self.value(): self.value() for _ in range(count)}

    def extension(self, size: int) -> Extension:
        return Extension(self.number("b"), self.take(size))

    def value(self) -> Value:
        code = self.number("B")
        if code <= 0x7F or code >= 0xE0:
            return code if code <= 0x7F else code - 0x100
        if code <= 0x8F:
            return self.map(code & 0x0F)
        if code <= 0x9F:
            return self.array(code & 0x0F)
        if code <= 0xBF:
            return self.text(code & 0x1F)
        return self.long_value(code)

    def long_value(self, code: int) -> Value:
        if code in {0xC0, 0xC2, 0xC3}:
            return {0xC0: None, 0xC2: False, 0xC3: True}[code]
        if code in range(0xC4, 0xC7):
            return self.take(self.sized(code, 0xC4))
        if code in range(0xC7, 0xCA):
            return self.extension(self.sized(code, 0xC7))
        if code in range(0xCA, 0xD4):
            return self.number("fdBHIQbhiq"[code - 0xCA])
        if code in range(0xD4, 0xD9):
            return self.extension(1 << code - 0xD4)
        if code in range(0xD9, 0xDC):
            return self.text(self.sized(code, 0xD9))
        if code in {0xDC, 0xDD}:
            return self.array(self.sized(code, 0xDB))
        if code in {0xDE, 0xDF}:
            return self.map(self.sized(code, 0xDD))
        raise Unreadable(f"0x{code:02x} begins no msgpack value")


def unpack(data: bytes) -> Value:
    """Return the one msgpack value that these bytes are.

    Raises:
        Unreadable: They are not one.
    """
    unpacker = _Unpacker(data)
    try:
        value = unpacker.value()
    except (UnicodeDecodeError, TypeError, RecursionError) as error:
        raise Unreadable(str(error)) from error
    if unpacker.at != len(data):
        raise Unreadable("bytes stand behind a msgpack value")
    return value
