import threading
from datetime import timedelta

import pytest

from saga_core import (
    Call,
    Compensation,
    GateRefused,
    SagaError,
    StepInDoubt,
    compensable,
    inverse,
    irreversible,
    open_store,
    saga_scope,
)
from saga_core.adapter import may_have_landed
from saga_core.errors import OutcomeNotLogged

released = threading.Event()


class Declined(Exception):
    """The bank said no."""


@inverse("doubt.unpay")
def unpay() -> None:
    """Give it back."""


@compensable("doubt.pay", not_landed=Declined, timeout=timedelta(milliseconds=20))
def pay(how: str) -> str:
    if how == "slow":
        released.wait(30)
    elif how == "lost":
        raise ConnectionError("no answer")
    elif how == "declined":
        raise Declined
    return how


@pay.undo
def pay_undo(call: Call[str]) -> Compensation:
    return unpay.bind()


@irreversible("doubt.wire")
def wire() -> None:
    raise AssertionError("it was called")


def error_of(how: str) -> BaseException:
    released.clear()
    expected = (ConnectionError, TimeoutError, Declined, GateRefused)
    with saga_scope(store=open_store("memory:"), drain_timeout=timedelta(0)):
        with pytest.raises(expected) as caught:
            wire() if how == "refused" else pay(how)
        released.set()
    return caught.value


@pytest.mark.parametrize("how", ["lost", "slow"])
def test_a_call_whose_answer_did_not_come_may_have_landed(how: str) -> None:
    assert may_have_landed(error_of(how))


@pytest.mark.parametrize("how", ["declined", "refused"])
def test_a_call_that_was_refused_or_proven_without_effect_has_not_landed(how: str) -> None:
    assert not may_have_landed(error_of(how))


def test_a_call_that_landed_without_a_record_may_have_landed() -> None:
    assert may_have_landed(OutcomeNotLogged("landed"))
    assert not may_have_landed(SagaError("nothing was called"))


def test_the_same_call_again_while_it_is_in_doubt_may_have_landed() -> None:
    with saga_scope(store=open_store("memory:")):
        with pytest.raises(ConnectionError):
            pay("lost")
        with pytest.raises(StepInDoubt) as caught:
            pay("lost")
    assert may_have_landed(caught.value)
