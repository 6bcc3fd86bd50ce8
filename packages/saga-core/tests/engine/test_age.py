"""A saga that has lain for long may be a restored copy: age is judged by two clocks, and in doubt against acting."""

from datetime import timedelta

import pytest

from saga_core.answers import Compensation
from saga_core.clock import SECOND
from saga_core.codec import freeze
from saga_core.engine.age import distrust, told
from saga_core.fold import fold
from saga_core.records import EMPTY, Applied, Began, Intended, UndoEnded, UndoIntended, UnwindBegan
from saga_core.stores.boot import boot_id
from saga_core.view import SagaView

HOUR = 3_600 * SECOND
DAY = timedelta(days=1)
NOW, UP = 1_000 * HOUR, 500 * HOUR
UNDO = Compensation("a.undo", 1, {})


class Clock:
    """A clock that stands, set back or forth by so many hours since the records were written."""

    def __init__(self, wall: int, up: int) -> None:
        self._wall, self._up = wall, up

    def wall(self) -> int:
        return NOW + self._wall * HOUR

    def up(self) -> int:
        return UP + self._up * HOUR

    def jitter(self) -> float:
        return 1.0


def left(boot: str = "an earlier boot") -> SagaView:
    return fold([Began("S", "saga", None, NOW, UP, boot, 1, "host", {})])


def is_trusted(view: SagaView, *, wall: int, up: int = 0, named: bool = False, within: timedelta = DAY) -> bool:
    return distrust(view, clock=Clock(wall, up), within=within, is_named=named) is None


def test_a_saga_of_another_boot_is_trusted_for_a_day() -> None:
    assert is_trusted(left(), wall=0)
    assert is_trusted(left(), wall=24)
    assert not is_trusted(left(), wall=25)


def test_naming_it_lifts_the_rule_only_with_a_longer_span() -> None:
    assert not is_trusted(left(), wall=100, named=True)
    assert is_trusted(left(), wall=100, named=True, within=timedelta(hours=100))
    assert is_trusted(left(), wall=100, within=timedelta.max)


def test_a_record_from_the_future_is_believed_only_where_somebody_names_the_saga() -> None:
    assert not is_trusted(left(), wall=-1)
    assert not is_trusted(left(), wall=-1, within=timedelta.max)
    assert is_trusted(left(), wall=-1, named=True)
    assert not is_trusted(left(), wall=-25, named=True)


def test_clocks_of_two_machines_may_differ_by_minutes() -> None:
    view = left()
    view.last_at += 4 * 60 * SECOND
    assert is_trusted(view, wall=0)
    view.last_at += 2 * 60 * SECOND
    assert not is_trusted(view, wall=0)


def test_within_one_boot_a_clock_that_was_set_back_does_not_make_it_younger() -> None:
    assert is_trusted(left(boot_id()), wall=-30, up=1)
    assert not is_trusted(left(boot_id()), wall=1, up=25)
    assert not is_trusted(left(boot_id()), wall=25, up=1), "of two clocks the one that says older is believed"


@pytest.mark.parametrize(("how", "trusted"), [("pending", True), ("failed", True), ("conflict", False)])
def test_what_is_due_later_is_no_reason_to_distrust(how: str, *, trusted: bool) -> None:
    """A vendor may ask for three days before a refund is looked at again."""
    value = freeze(None)
    intended = Intended(1, NOW, "a", 1, "compensable", "", "a#1", 1, None, value, EMPTY, EMPTY, "power", HOUR)
    view = fold(
        [
            Began("S", "saga", None, NOW, UP, "an earlier boot", 1, "host", {}),
            intended,
            Applied(1, NOW, value, UNDO),
            UnwindBegan("", "Failure", NOW),
            UndoIntended(1, NOW, "key", UNDO, 1),
            UndoEnded(1, NOW, UP, how, wait=72 * HOUR),
        ]
    )
    assert is_trusted(view, wall=90) == trusted
    assert not is_trusted(view, wall=72 + 25)


def test_an_effect_that_may_still_land_is_waited_for_before_its_age_counts() -> None:
    value = freeze(None)
    view = left()
    assert not is_trusted(view, wall=30)
    began = Began("S", "saga", None, NOW, UP, "an earlier boot", 1, "host", {})
    intended = Intended(1, NOW, "a", 1, "compensable", "", "a#1", 1, None, value, EMPTY, EMPTY, "power", 10 * HOUR)
    assert is_trusted(fold([began, intended]), wall=30)
    assert not is_trusted(fold([began, intended]), wall=35)


def test_an_age_is_told_in_a_unit_that_does_not_round_it_away() -> None:
    spans = (0, 119, 120, 7_199, 7_200, 172_799, 172_800)
    assert [told(span * SECOND) for span in spans] == ["0 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 d"]
