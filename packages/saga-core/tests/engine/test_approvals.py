"""A person decides: the call runs exactly as it was approved, once, or not at all."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from saga_core import (
    Action,
    ApprovalPending,
    AsyncAction,
    Escalate,
    Gate,
    GateRefused,
    Proposal,
    Refuse,
    Saga,
    StepMismatch,
    Store,
    StoreError,
    current_step,
    irreversible,
    saga_scope,
)
from saga_core import approvals as people
from saga_core.errors import ApprovalConflict, NotFound
from saga_core.rules import above, deny_actions
from saga_core.stores import permits

from .world import World, declare, done, eventually, in_plain_scope, in_scope, left_open, unique

KEY = "invoice-17"


class Bank(NamedTuple):
    """An irreversible transfer over the world, in both kinds, which are two actions."""

    wire: AsyncAction[..., Any]
    wire_now: Action[..., Any]


def open_bank(world: World, **options: Any) -> Bank:
    async def wire(item: str, amount: int = 100) -> Any:
        return {"id": world.charge(f"{item}-{amount}", current_step().key)}

    def wire_now(item: str, amount: int = 100) -> Any:
        return {"id": world.charge(f"{item}-{amount}", current_step().key)}

    return Bank(irreversible(unique("wire"), **options)(wire), irreversible(unique("wire"), **options)(wire_now))


def run(store: Store, bank: Bank, *calls: tuple[Any, ...], key: str | None = KEY, **options: Any) -> Any:
    """Run a program that wires, again and again the same one."""

    async def body(saga: Saga) -> None:
        for call in calls or (("rent",),):
            await bank.wire(*call)

    return in_scope(store, body, key=key, **options)


def only(store: Store) -> people.Approval:
    (found,) = people.pending(store)
    return found


def test_an_irreversible_call_waits_with_the_saga_suspended_and_runs_once_when_it_is_approved(
    store: Store, world: World
) -> None:
    tools, bank = declare(world), open_bank(world)

    async def body(saga: Saga) -> None:
        await tools.charge("fee")
        await bank.wire("rent", 250)

    first = in_scope(store, body, key=KEY)
    assert isinstance(first.error, ApprovalPending)
    assert first.states == ["applied", "awaiting_approval"]
    assert first.saga.report.state == "suspended"
    assert world.sent == ["charge fee"]
    request = only(store)
    assert (request.id, request.key, request.args) == (first.error.approval_id, KEY, {"item": "rent", "amount": 250})
    assert (request.action, request.state, request.reason) == (bank.wire.name, "pending", "irreversible")
    assert request.story == (f"1. {tools.charge.name}: applied",)
    again = in_scope(store, body, key=KEY)
    assert isinstance(again.error, ApprovalPending)
    assert again.error.approval_id == request.id
    assert people.approve(store, request.id, by="ana", reason="checked").state == "approved"
    assert people.pending(store) == []
    last = in_scope(store, body, key=KEY)
    assert last.error is None
    assert world.sent == ["charge fee", "charge rent-250"]
    assert last.states == ["applied", "applied"]
    assert people.get(store, request.id).state == "used"
    assert done(store) == [last.saga.id]


def test_a_plain_scope_waits_the_same_way(store: Store, world: World) -> None:
    bank = open_bank(world)

    def body(saga: Saga) -> None:
        bank.wire_now("rent")

    assert isinstance(in_plain_scope(store, body, key=KEY).error, ApprovalPending)
    people.approve(store, only(store).id, by="ana")
    assert in_plain_scope(store, body, key=KEY).error is None
    assert world.sent == ["charge rent-100"]


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
def test_a_call_waits_in_place_for_as_long_as_it_may(store: Store, world: World, *, is_async: bool) -> None:
    bank = open_bank(world)

    def decide() -> None:
        eventually(lambda: bool(people.pending(store)))
        people.approve(store, only(store).id, by="ana")

    deciding = threading.Thread(target=decide)
    deciding.start()
    wait = timedelta(seconds=30)
    if is_async:
        ended = run(store, bank, key=None, approval_wait=wait)
    else:
        ended = in_plain_scope(store, lambda _: bank.wire_now("rent"), approval_wait=wait)
    deciding.join()
    assert ended.error is None
    assert world.sent == ["charge rent-100"]


def test_without_a_key_and_without_a_wait_nobody_can_be_asked(store: Store, world: World) -> None:
    ended = run(store, open_bank(world), key=None)
    assert isinstance(ended.error, GateRefused)
    assert "key=" in ended.error.next
    assert "approval_wait=" in ended.error.next
    assert people.pending(store) == []
    assert world.sent == []


def test_a_wait_that_ends_without_a_key_refuses(store: Store, world: World) -> None:
    ended = run(store, open_bank(world), key=None, approval_wait=timedelta(milliseconds=60))
    assert isinstance(ended.error, GateRefused)
    assert "in time" in str(ended.error)
    assert world.sent == []
    assert people.pending(store) == [], "its saga is over: nobody is asked any more"


def test_a_rejected_call_is_refused_with_the_reason_and_stays_refused(store: Store, world: World) -> None:
    bank = open_bank(world)
    run(store, bank)
    people.reject(store, only(store).id, by="bo", reason="wrong account")

    async def body(saga: Saga) -> None:
        with pytest.raises(GateRefused, match="rejected by bo: wrong account"):
            await bank.wire("rent")
        saga.suspend("again")

    assert in_scope(store, body, key=KEY).error is None
    ended = run(store, bank)
    assert isinstance(ended.error, GateRefused)
    assert world.sent == []


def test_the_first_decision_wins_and_a_later_one_is_told_whose(store: Store, world: World) -> None:
    run(store, open_bank(world))
    request = only(store).id
    people.approve(store, request, by="ana", reason="fine")
    with pytest.raises(ApprovalConflict, match=r"already decided by ana \(fine\)") as late:
        people.reject(store, request, by="bo", reason="no")
    assert "nothing was decided" in late.value.world
    with pytest.raises(ApprovalConflict, match="already decided"):
        people.approve(store, request, by="bo")
    with pytest.raises(NotFound):
        people.approve(store, "nothing", by="bo")
    for nobody in ("", "  "):
        with pytest.raises(ValueError, match="name"):
            people.approve(store, request, by=nobody)


def test_an_approval_can_be_taken_back_until_it_is_used(store: Store, world: World) -> None:
    bank = open_bank(world)
    run(store, bank)
    request = only(store).id
    with pytest.raises(ApprovalConflict, match="no approval"):
        people.revoke(store, request, by="ana", reason="early")
    people.approve(store, request, by="ana")
    people.revoke(store, request, by="cy", reason="changed my mind")
    ended = run(store, bank)
    assert isinstance(ended.error, GateRefused)
    assert "revoked by cy: changed my mind" in str(ended.error)
    assert world.sent == []


def test_an_approval_that_was_used_cannot_be_taken_back(store: Store, world: World) -> None:
    bank = open_bank(world)
    run(store, bank)
    request = only(store).id
    people.approve(store, request, by="ana")
    assert run(store, bank).error is None
    with pytest.raises(ApprovalConflict, match="it is used"):
        people.revoke(store, request, by="ana", reason="late")


def four_eyes(proposal: Proposal) -> Escalate:
    return Escalate("four eyes", approvals=2)


def test_a_quorum_is_of_different_people_without_the_requester(store: Store, world: World) -> None:
    bank = open_bank(world)
    terms: dict[str, Any] = {"gate": Gate(four_eyes), "tags": {"requester": "rita"}}
    run(store, bank, **terms)
    request = only(store).id
    with pytest.raises(ApprovalConflict, match="requester"):
        people.approve(store, request, by="rita")
    assert people.approve(store, request, by="ana").state == "pending"
    with pytest.raises(ApprovalConflict, match="ana approved it already"):
        people.approve(store, request, by="ana")
    assert isinstance(run(store, bank, **terms).error, ApprovalPending)
    assert people.approve(store, request, by="bo").state == "approved"
    assert run(store, bank, **terms).error is None
    assert world.sent == ["charge rent-100"]


def test_an_edited_call_runs_as_it_was_edited_and_the_log_keeps_both(store: Store, world: World) -> None:
    bank = open_bank(world)
    run(store, bank)
    request = only(store).id
    with pytest.raises(ApprovalConflict, match="sum is no argument"):
        people.approve(store, request, by="ana", edit={"sum": 1})
    people.approve(store, request, by="ana", reason="half of it", edit={"amount": 50})
    ended = run(store, bank)
    assert ended.error is None
    assert world.sent == ["charge rent-50"]
    told = people.get(store, request)
    assert (told.args["amount"], told.decisions[0]["edit"]["amount"]) == (100, 50)


def test_an_edited_call_is_judged_again(store: Store, world: World) -> None:
    bank = open_bank(world, money=("amount", "usd"))
    gate = Gate(above({"usd": 120}, refuse=True))
    run(store, bank, gate=gate)
    people.approve(store, only(store).id, by="ana", edit={"amount": 5000})
    ended = run(store, bank, gate=gate)
    assert isinstance(ended.error, GateRefused)
    assert "above 120 usd" in str(ended.error)
    assert world.sent == []


def test_a_quorum_approves_one_and_the_same_call(store: Store, world: World) -> None:
    bank, gate = open_bank(world), Gate(four_eyes)
    run(store, bank, gate=gate)
    request = only(store).id
    people.approve(store, request, by="ana")
    assert people.approve(store, request, by="bo", edit={"amount": 7}).state == "pending"
    assert people.approve(store, request, by="ana", edit={"amount": 7}).state == "approved"
    assert run(store, bank, gate=gate).error is None
    assert world.sent == ["charge rent-7"]


def test_an_approval_is_for_no_other_amount(store: Store, world: World) -> None:
    bank = open_bank(world)
    run(store, bank, ("rent", 100))
    people.approve(store, only(store).id, by="ana")
    ended = run(store, bank, ("rent", 10_000))
    assert isinstance(ended.error, StepMismatch)
    assert world.sent == []


def test_where_other_arguments_make_no_other_call_people_are_asked_anew(store: Store, world: World) -> None:
    tools, gate = declare(world, identity=("item",)), Gate(lambda _: Escalate("look"))
    twice = Bank(tools.charge, tools.charge_now)
    run(store, twice, ("rent", 100), gate=gate)
    first = only(store)
    people.approve(store, first.id, by="ana")
    assert isinstance(run(store, twice, ("rent", 10_000), gate=gate).error, ApprovalPending)
    assert only(store).id != first.id
    assert world.sent == []
    people.approve(store, only(store).id, by="ana")
    assert run(store, twice, ("rent", 10_000), gate=gate).error is None
    assert world.sent == ["charge rent"]


def test_an_approval_is_for_no_other_saga(store: Store, world: World) -> None:
    bank = open_bank(world)
    run(store, bank)
    people.approve(store, only(store).id, by="ana")
    assert isinstance(run(store, bank, key="invoice-18").error, ApprovalPending)
    assert world.sent == []


def test_an_approval_is_for_no_other_step_and_good_for_one_run(store: Store, world: World) -> None:
    bank = open_bank(world)
    run(store, bank, ("rent",), ("rent",))
    people.approve(store, only(store).id, by="ana")
    assert isinstance(run(store, bank, ("rent",), ("rent",)).error, ApprovalPending)
    assert world.sent == ["charge rent-100"]


def test_an_approval_is_for_no_other_version(store: Store, world: World) -> None:
    name = unique("wire")

    def declared(version: int) -> Bank:
        @irreversible(name, version=version)
        async def wire(item: str) -> Any:
            return world.charge(f"{item} by {version}", current_step().key)

        return Bank(wire, open_bank(world).wire_now)

    run(store, declared(1))
    first = only(store).id
    people.approve(store, first, by="ana")
    assert isinstance(run(store, declared(2)).error, ApprovalPending)
    assert only(store).id != first
    assert world.sent == []


def test_two_calls_that_wait_at_once_are_decided_each_for_itself(store: Store, world: World) -> None:
    bank = open_bank(world)

    async def body(saga: Saga) -> None:
        results = await asyncio.gather(
            bank.wire.at("a")("rent", 1), bank.wire.at("b")("food", 2), return_exceptions=True
        )
        outcomes[:] = results
        for error in results:
            if isinstance(error, ApprovalPending):
                raise error

    outcomes: list[Any] = []
    in_scope(store, body, key=KEY)
    by_item = {request.args["item"]: request.id for request in people.pending(store)}
    assert by_item.keys() == {"rent", "food"}
    people.reject(store, by_item["rent"], by="ana", reason="no")
    people.approve(store, by_item["food"], by="ana")
    assert in_scope(store, body, key=KEY).error is None
    assert isinstance(outcomes[0], GateRefused)
    assert world.sent == ["charge food-2"]


def test_a_task_group_of_waiting_calls_suspends(store: Store, world: World) -> None:
    tools, bank = declare(world), open_bank(world)

    async def body(saga: Saga) -> None:
        await tools.charge("fee")
        async with asyncio.TaskGroup() as group:
            group.create_task(bank.wire.at("a")("rent"))

    ended = in_scope(store, body, key=KEY)
    assert ended.saga.report.state == "suspended"
    assert world.standing == ["fee"]


def test_beside_another_error_the_saga_unwinds(store: Store, world: World) -> None:
    tools, bank = declare(world), open_bank(world)

    async def body(saga: Saga) -> None:
        await tools.charge("fee")
        try:
            await bank.wire("rent")
        except ApprovalPending as pending:
            raise ExceptionGroup("both", [pending, ValueError("other")]) from None

    ended = in_scope(store, body, key=KEY)
    assert ended.saga.report.state == "rolled_back"
    assert world.standing == []
    assert people.pending(store) == []


def test_a_savepoint_that_waits_is_not_undone(store: Store, world: World) -> None:
    tools, bank = declare(world), open_bank(world)

    async def body(saga: Saga) -> None:
        async with saga_scope("inner"):
            await tools.charge("fee")
            await bank.wire("rent")

    assert in_scope(store, body, key=KEY).saga.report.state == "suspended"
    assert world.standing == ["fee"]
    people.approve(store, only(store).id, by="ana")
    assert in_scope(store, body, key=KEY).error is None
    assert world.sent == ["charge fee", "charge rent-100"]


def test_a_request_that_nobody_answers_becomes_a_no(store: Store, world: World) -> None:
    bank = open_bank(world)
    gate = Gate(lambda _: Escalate("soon", expires_in=timedelta(microseconds=1)))
    assert isinstance(run(store, bank, gate=gate).error, ApprovalPending)
    assert people.pending(store) == []
    assert isinstance(run(store, bank, gate=gate).error, GateRefused)
    assert people.pending(store) == []
    assert world.sent == []


def test_an_approval_that_expires_before_the_run_is_a_no(
    store: Store, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = open_bank(world)
    gate = Gate(lambda _: Escalate("soon", expires_in=timedelta(hours=1)))
    run(store, bank, gate=gate)
    request = only(store).id
    people.approve(store, request, by="ana")
    now: Any = permits._now  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] -- an hour passes

    def later(connection: object, clock: object) -> int:
        return now(connection, clock) + 3600 * 10**9

    monkeypatch.setattr(permits, "_now", later)
    assert people.get(store, request).state == "expired"
    ended = run(store, bank, gate=gate)
    assert isinstance(ended.error, GateRefused)
    assert "expired" in str(ended.error)
    assert world.sent == []


def test_a_rule_that_says_no_meanwhile_is_heard(store: Store, world: World) -> None:
    bank = open_bank(world)
    run(store, bank)
    people.approve(store, only(store).id, by="ana")
    ended = run(store, bank, gate=Gate(deny_actions("wire*")))
    assert isinstance(ended.error, GateRefused)
    assert world.sent == []


def test_a_rule_that_wants_more_people_meanwhile_is_heard(store: Store, world: World) -> None:
    bank = open_bank(world)
    run(store, bank)
    people.approve(store, only(store).id, by="ana")
    ended = run(store, bank, gate=Gate(four_eyes))
    assert isinstance(ended.error, GateRefused)
    assert "2 people have to approve it now" in str(ended.error)
    assert world.sent == []


def test_a_grant_lets_calls_run_that_it_covers_and_as_many(store: Store, world: World) -> None:
    bank = open_bank(world, money=("amount", "usd"))
    granted = people.grant(
        store, bank.wire.name, by="ana", reason="rent", args={"item": "rent*"}, uses=2, limit=100, currency="usd"
    )
    others = [("food", 50), ("rent", 101)]
    for number, other in enumerate(others):
        assert isinstance(run(store, bank, other, key=f"other-{number}").error, ApprovalPending)
    assert run(store, bank, ("rent", 100), ("rent 2", 1), key="covered").error is None
    assert isinstance(run(store, bank, ("rent", 100), key="third").error, ApprovalPending)
    assert world.sent == ["charge rent-100", "charge rent 2-1"]
    assert [(one.id, one.used) for one in people.grants(store)] == [(granted.id, 2)]


def test_a_grant_ends_when_it_is_revoked_or_its_time_is_over(store: Store, world: World) -> None:
    bank = open_bank(world)
    granted = people.grant(store, "*", by="ana", reason="all")
    people.revoke_grant(store, granted.id, by="bo")
    people.grant(store, "*", by="ana", reason="short", expires_in=timedelta(microseconds=1))
    assert isinstance(run(store, bank).error, ApprovalPending)
    assert [one.revoked_by for one in people.grants(store)] == ["bo", None]
    with pytest.raises(NotFound):
        people.revoke_grant(store, "nothing", by="bo")


def test_a_grant_is_one_person_and_no_quorum(store: Store, world: World) -> None:
    people.grant(store, "*", by="ana", reason="all")
    assert isinstance(run(store, open_bank(world), gate=Gate(four_eyes)).error, ApprovalPending)
    assert world.sent == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"uses": 0},
        {"expires_in": timedelta(0)},
        {"limit": 5},
        {"currency": "usd"},
        {"limit": Decimal("NaN"), "currency": "usd"},
    ],
    ids=repr,
)
def test_a_grant_of_nothing_is_refused(store: Store, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"grant|limit"):
        people.grant(store, "*", by="ana", reason="all", **wrong)
    assert people.grants(store) == []


def test_a_no_comes_before_a_question(store: Store, world: World) -> None:
    def no(_: Proposal) -> Refuse:
        return Refuse("closed")

    ended = run(store, open_bank(world), gate=Gate(four_eyes, no))
    assert isinstance(ended.error, GateRefused)
    assert people.pending(store) == []


def test_a_scope_that_is_closed_while_a_call_waits_calls_nothing(store: Store, world: World) -> None:
    bank = open_bank(world)

    async def body(saga: Saga) -> None:
        waiting = asyncio.create_task(bank.wire("rent"))
        await asyncio.to_thread(eventually, lambda: bool(people.pending(store)))
        saga.rollback("enough")
        people.approve(store, only(store).id, by="ana")
        with pytest.raises(Exception, match="rollback was decided"):
            await waiting

    in_scope(store, body, approval_wait=timedelta(seconds=30))
    assert world.sent == []


def test_a_cancelled_wait_calls_nothing(store: Store, world: World) -> None:
    bank = open_bank(world)

    async def body(saga: Saga) -> None:
        waiting = asyncio.create_task(bank.wire("rent"))
        await asyncio.to_thread(eventually, lambda: bool(people.pending(store)))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    in_scope(store, body, key=KEY, approval_wait=timedelta(seconds=30))
    assert world.sent == []


def test_arguments_changed_after_the_check_do_not_run(store: Store, world: World) -> None:
    tools = declare(world)
    sent: list[Any] = []

    @irreversible(unique("mail"))
    async def mail(to: list[str]) -> None:
        sent.append(to)

    async def body(saga: Saga) -> None:
        await tools.charge("fee")
        to = ["ana"]
        people.grant(store, "mail*", by="ana", reason="all")
        with pytest.raises(Exception, match="changed after the gate"):
            task = asyncio.create_task(mail(to))
            while not task.done():
                to.append("more")
                await asyncio.sleep(0)
            await task

    ended = in_scope(store, body)
    assert ended.error is None
    assert sent == []


def test_a_store_that_cannot_be_written_lets_nothing_run(file_store: Store, world: World) -> None:
    bank = open_bank(world)
    run(file_store, bank)
    people.approve(file_store, only(file_store).id, by="ana")
    control = Path(file_store.url.removeprefix("file:")) / "control.db"
    whole = control.read_bytes()
    control.write_bytes(b"no database at all" * 400)
    with pytest.raises(StoreError, match="not a database"):
        run(file_store, bank)
    assert world.sent == []
    control.write_bytes(whole)
    control.with_name("control.db-journal").unlink(missing_ok=True)
    assert run(file_store, bank).error is None
    assert world.sent == ["charge rent-100"]
    assert left_open(file_store) == []
