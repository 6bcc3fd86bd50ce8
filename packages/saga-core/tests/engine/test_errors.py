"""Every error carries a code, says what happened to the world, and survives pickling and copying."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import saga_core
from saga_core import GateRefused, Report, SagaError, errors
from saga_core.errors import CODES, ApprovalPending, OutcomeNotLogged
from saga_core.report import StepReport

from .world import World, declare, in_plain_scope

OURS = {code: kind for code, kind in CODES.items() if kind.__module__ == errors.__name__}
REPORT = Report("01M8", "rolled_back", (StepReport("a", "undone", None, None, "1. a: undone"),), ("c1",), is_clean=True)


def made(kind: type[SagaError]) -> SagaError:
    error = kind("it was so", saga_id="01M8", world="nothing was called", next="look", report=REPORT)
    error.add_note("a note")
    return error


@pytest.mark.parametrize("kind", OURS.values(), ids=OURS)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_survives_pickling_with_all_its_data(kind: type[SagaError], protocol: int) -> None:
    error = made(kind)
    back = pickle.loads(pickle.dumps(error, protocol))  # noqa: S301
    assert type(back) is kind
    assert str(back) == str(error)
    assert back.args == error.args
    for name in ("code", "saga_id", "world", "next", "report"):
        assert getattr(back, name) == getattr(error, name)
    assert back.__notes__ == ["a note"]


@pytest.mark.parametrize("kind", OURS.values(), ids=OURS)
def test_an_error_can_be_copied(kind: type[SagaError]) -> None:
    error = made(kind)
    assert str(copy.copy(error)) == str(copy.deepcopy(error)) == str(error)


@pytest.mark.parametrize("kind", OURS.values(), ids=OURS)
def test_an_errors_text_has_its_code_and_every_part(kind: type[SagaError]) -> None:
    text = str(made(kind))
    assert text.splitlines()[0] == f"[{kind.code}] it was so"
    assert all(part in text for part in ("01M8", "nothing was called", "look"))
    assert "None" not in str(kind("it was so"))


@pytest.mark.parametrize("kind", OURS.values(), ids=OURS)
def test_an_error_is_no_runtime_error_and_has_a_docstring(kind: type[SagaError]) -> None:
    assert not issubclass(kind, RuntimeError)
    assert issubclass(kind, SagaError)
    assert kind.__doc__


def test_every_error_class_has_a_code_of_its_own() -> None:
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, SagaError) and kind is not SagaError
    ]
    assert len(kinds) > 15
    assert all("code" in vars(kind) for kind in kinds)
    codes = [kind.code for kind in kinds]
    assert len(set(codes)) == len(codes)
    assert set(codes) <= CODES.keys()


def test_a_code_cannot_be_taken_twice() -> None:
    with pytest.raises(TypeError, match="SG101"):
        type("Another", (SagaError,), {"code": "SG101"})
    assert CODES["SG101"] is GateRefused


def test_the_data_of_an_error_survives_too(world: World) -> None:
    lost = OutcomeNotLogged("landed")
    lost.result = {"id": "ch_1"}
    assert pickle.loads(pickle.dumps(lost)).result == {"id": "ch_1"}  # noqa: S301
    pending = ApprovalPending("decide", saga_id="01M8")
    pending.approval_id = "ap_1"
    assert pickle.loads(pickle.dumps(pending)).approval_id == "ap_1"  # noqa: S301


def test_a_real_refusal_survives_too(world: World) -> None:
    tools = declare(world, undo=False)

    def body(saga: Any) -> None:
        tools.charge_now("hotel")

    error = in_plain_scope(saga_core.open_store("memory:"), body).error
    assert isinstance(error, GateRefused)
    back = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert str(back) == str(error)
    assert back.__notes__ == error.__notes__
    assert vars(back) == vars(error)


def test_a_report_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(REPORT)) == REPORT  # noqa: S301
