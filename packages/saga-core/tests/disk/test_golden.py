"""The bytes of format version 1: what was written once is read for ever, and is written so to this day.

A file of `golden/` never changes. A change of the format raises `frame.VERSION`, keeps the reader of version 1, and
adds files of its own beside these.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest

from saga_core import frame
from saga_core.records import Record
from saga_core.stores import copies

from .samples import COMMITTED, DECIDED, SAMPLES, UNWOUND, told

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", SAMPLES)
def test_what_version_1_wrote_says_the_same_for_ever(name: str) -> None:
    expected = json.loads((GOLDEN / f"v1-{name}.json").read_text(encoding="utf-8"))
    assert told(name, (GOLDEN / f"v1-{name}").read_bytes()) == expected


@pytest.mark.parametrize("name", SAMPLES)
def test_the_same_records_are_still_the_same_bytes(name: str) -> None:
    assert (frame.VERSION, copies.VERSION) == (1, 1)
    assert SAMPLES[name] == (GOLDEN / f"v1-{name}").read_bytes()


def test_every_kind_of_record_has_a_golden_one() -> None:
    assert {type(record) for record in (*COMMITTED, *UNWOUND, *DECIDED)} == set(get_args(Record))


def test_a_log_of_an_unknown_version_is_refused_and_not_guessed_at() -> None:
    data = bytearray((GOLDEN / "v1-committed.log").read_bytes())
    data[8] = 2
    parsed = frame.parse(bytes(data), boot="")
    assert parsed.frames == []
    assert parsed.damage is not None
    assert "version 2 is not known here" in parsed.damage
