"""Every crash of small programs: nothing is lost, undone twice or in vain, and saga_core decides as specified."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, get_args

import pytest

import saga_core.plan
from saga_core.plan import Move

from .exploration import Crash, Exploration
from .plan import difference
from .programs import KINDS, PROGRAMS
from .protocol import Fault, Rules
from .record import Kind, Settling

if TYPE_CHECKING:
    from saga_core.view import StepView

_SMALL = {"a hold, committed", "one step, committed", "one step, failed", "one step, whatever it answers"}
_BESIDE = {name for name in PROGRAMS if "beside" in name}
_FEW = [Kind("probe", "keyed"), Kind("keyed", "asked"), Kind("blind", "blind")]
_HOLDS = {name for name in PROGRAMS if "hold" in name}
_SETTLED = [Kind(settling, "keyed") for settling in get_args(Settling)]
_CASES = [
    (name, kind) for name in PROGRAMS for kind in (_FEW if name in _BESIDE else _SETTLED if name in _HOLDS else KINDS)
]


def explored(name: str, kind: Kind, fault: Fault | None = None) -> Exploration:
    """Explore a program: the smallest with two deaths, the second a recoverer's, the largest with one lost answer."""
    crashes, losses = 2 if name in _SMALL else 1, 1 if name in _BESIDE else 2
    return Exploration(Rules(PROGRAMS[name], kind, fault), crashes=crashes, losses=losses)


def _words(value: str | Kind) -> str:
    return value if isinstance(value, str) else "-".join(value)


@pytest.mark.parametrize(("name", "kind"), _CASES, ids=_words)
def test_after_every_crash_each_effect_is_kept_undone_once_or_told(name: str, kind: Kind) -> None:
    found = explored(name, kind)
    assert found.wrong == {}
    assert found.ends
    differences = {difference(records, kind) for records in found.surviving} - {""}
    assert differences == set()


class _Broken(NamedTuple):
    fault: Fault
    kind: Kind
    program: str
    verdict: str


_CONTROLS = [
    _Broken("no intent barrier", Kind("probe", "keyed"), "one step, failed", "an effect has no intent in the log"),
    _Broken("result-only record", Kind("probe", "keyed"), "one step, failed", "an effect has no intent in the log"),
    _Broken(
        "commit told before its sync",
        Kind("probe", "keyed"),
        "one step, committed",
        "somebody was told committed, and the log forgot it",
    ),
    _Broken(
        "adopter acts before its barrier",
        Kind("probe", "keyed"),
        "one step, committed",
        "somebody was told committed, and the log forgot it",
    ),
    _Broken(
        "not landed believed at once",
        Kind("probe", "keyed"),
        "one step, failed",
        "an effect stands, and nobody is told",
    ),
    _Broken(
        "undo key reused", Kind("probe", "keyed"), "a savepoint undone twice", "an effect stands, and nobody is told"
    ),
    _Broken("undo intent not awaited", Kind("probe", "asked"), "one step, failed", "an effect is undone twice"),
    _Broken("undo intent not awaited", Kind("probe", "blind"), "one step, failed", "an effect is undone twice"),
    _Broken("release not awaited", Kind("probe", "keyed"), "a hold, committed", "an effect has no intent in the log"),
    _Broken("release not recorded", Kind("blind", "keyed"), "a hold, committed", "an effect has no intent in the log"),
    _Broken(
        "a hold in doubt is sent again", Kind("blind", "keyed"), "a hold, committed", "a held effect is sent twice"
    ),
    _Broken(
        "a hold is sent before the commit",
        Kind("probe", "keyed"),
        "a hold, committed",
        "a held effect is sent without a commit on the disk",
    ),
    _Broken("in doubt is undone", Kind("probe", "keyed"), "one step, failed", "what did not land is undone"),
]


@pytest.mark.parametrize("broken", _CONTROLS, ids=lambda broken: f"{broken.fault}-{broken.kind.inverse}")
def test_a_rule_of_the_protocol_that_is_taken_back_is_missed(broken: _Broken) -> None:
    """Without the fault, the same programs are among those above."""
    assert broken.verdict in explored(broken.program, broken.kind, broken.fault).wrong


def test_both_kinds_of_crash_come_at_every_moment() -> None:
    crashes: list[Crash] = []
    Exploration(Rules(PROGRAMS["one step, failed"], _FEW[0]), crashes=1, losses=0, witness=crashes.append)
    moments = {(crash.how, crash.before.log) for crash in crashes}
    logs = {log for _, log in moments}
    assert len(logs) > 6
    assert {("power", log) for log in logs} <= moments
    assert any(len(crash.after.log) < len(crash.before.log) for crash in crashes)


def test_a_plan_that_differs_from_the_specification_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def undo(step: StepView, wall: int) -> Move:
        return Move("case", step, "leave it to somebody")

    found = explored("one step, failed", _FEW[0])
    assert not any(difference(records, _FEW[0]) for records in found.surviving)
    monkeypatch.setattr(saga_core.plan, "_undo", undo)
    assert any(difference(records, _FEW[0]) for records in found.surviving)
