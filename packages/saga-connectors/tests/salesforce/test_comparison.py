"""When two values of a field are one, and whose values a record holds."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saga_connectors.salesforce.comparison import same, standing


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("double", 1, 1.0),
        ("currency", "12.50", 12.5),
        ("percent", 0.1, 0.1),
        ("datetime", "2026-12-01T10:00:00.000+0000", "2026-12-01T12:00:00+02:00"),
        ("datetime", "2026-12-01T10:00:00Z", "2026-12-01T10:00:00.750Z"),
        ("date", "2026-12-01", "2026-12-01T00:00:00Z"),
        ("multipicklist", "A;B", "B;A;"),
        ("reference", "0015gQ000000001", "0015gQ000000001EBA"),
        ("string", "", None),
        ("boolean", True, True),
    ],
)
def test_two_spellings_of_one_value_are_the_same(kind: str, one: Any, other: Any) -> None:
    assert same(kind, one, other)
    assert same(kind, other, one)


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("double", 1, 1.1),
        ("int", 0, None),
        ("boolean", False, None),
        ("boolean", True, 1),
        ("double", 1, True),
        ("datetime", "2026-12-01T10:00:00Z", "2026-12-01T10:00:01Z"),
        ("datetime", "2026-12-01T10:00:00Z", "soon"),
        ("multipicklist", "A;B", "A"),
        ("reference", "0015gQ000000001", "0015gq000000001"),
        ("string", "a", "A"),
        ("string", "0", None),
        ("picklist", "1", 1),
    ],
)
def test_two_values_are_not_taken_for_one(kind: str, one: Any, other: Any) -> None:
    assert not same(kind, one, other)
    assert not same(kind, other, one)


VALUES = st.sampled_from(["a", "b", "c", None])
ROWS = st.fixed_dictionaries({"X": VALUES, "Y": VALUES})


@given(wrote=ROWS, before=ROWS, found=ROWS)
def test_every_changed_field_has_exactly_one_standing(
    wrote: dict[str, Any], before: dict[str, Any], found: dict[str, Any]
) -> None:
    held = standing(wrote, before, found, {"X": "string", "Y": "string"})
    assert sorted(held.ours + held.restored + held.theirs) == [name for name in "XY" if wrote[name] != before[name]]
    assert all(found[name] == wrote[name] for name in held.ours)
    assert all(found[name] == before[name] for name in held.restored)
    assert all(found[name] not in (wrote[name], before[name]) for name in held.theirs)
