"""A saga from end to end with nothing installed but saga-core: plain functions, a ledger as the world, no plugin."""

import asyncio
from pathlib import Path

import pytest

from saga_core import Call, Compensation, compensable, inverse, saga_scope

LEDGER: list[tuple[str, int]] = []


@inverse("ledger.refund")
def refund(customer: str, amount: int) -> None:
    LEDGER.append((customer, -amount))


@compensable("ledger.charge")
def charge(customer: str, amount: int) -> int:
    LEDGER.append((customer, amount))
    return amount


@charge.undo
def undo_charge(call: Call[int]) -> Compensation:
    return refund.bind(customer=call.args["customer"], amount=call.result)


@compensable("ledger.charge_async")
async def charge_async(customer: str, amount: int) -> int:
    LEDGER.append((customer, amount))
    return amount


@charge_async.undo
def undo_charge_async(call: Call[int]) -> Compensation:
    return refund.bind(customer=call.args["customer"], amount=call.result)


@pytest.fixture(params=["memory:", "file:"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    LEDGER.clear()
    return request.param if request.param == "memory:" else f"file:{tmp_path / 'sagas'}"


def test_a_failing_run_is_undone_newest_first_and_its_error_propagates(store: str) -> None:
    with pytest.raises(LookupError, match="the agent hallucinated a field"), saga_scope(store=store) as saga:
        charge("ana", 5)
        charge("ben", 7)
        raise LookupError("the agent hallucinated a field")
    assert LEDGER == [("ana", 5), ("ben", 7), ("ben", -7), ("ana", -5)]
    assert saga.report.state == "rolled_back"
    assert saga.report.is_clean


def test_a_successful_run_keeps_what_it_did(store: str) -> None:
    with saga_scope(store=store) as saga:
        charge("ana", 5)
    assert LEDGER == [("ana", 5)]
    assert saga.report.state == "committed"


def test_a_failing_run_on_a_loop_is_undone_too(store: str) -> None:
    async def run() -> None:
        async with saga_scope(store=store):
            await charge_async("ana", 5)
            await charge_async("ben", 7)
            raise LookupError("the agent hallucinated a field")

    with pytest.raises(LookupError):
        asyncio.run(run())
    assert LEDGER == [("ana", 5), ("ben", 7), ("ben", -7), ("ana", -5)]
