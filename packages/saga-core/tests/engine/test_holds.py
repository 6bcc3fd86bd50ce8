"""Held effects: nothing before the commit, behind it each at most once, in order, and never while in doubt."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any, NamedTuple, TypedDict

import pytest

from saga_core import (
    Action,
    AsyncAction,
    Attempt,
    Compensation,
    Landed,
    NotLanded,
    Receipt,
    Saga,
    StepMismatch,
    Store,
    Unknown,
    cases,
    current_step,
    irreversible,
    rules,
    saga_scope,
)
from saga_core.errors import DeclarationError, GateRefused, SagaUnsettled
from saga_core.gate import Gate, Proposal, Refuse
from saga_core.recovery import recover
from saga_core.stores.store import Backend

from .world import (
    Declined,
    World,
    declare,
    decline,
    done,
    eventually,
    in_plain_scope,
    in_scope,
    left_open,
    lose,
    take,
    unique,
)

NOW = timedelta(0)


class Mail(NamedTuple):
    """A held send over the world, in both kinds."""

    send: AsyncAction[..., Receipt]
    send_now: Action[..., Receipt]


def mails(world: World, *, probe: bool = False, **options: Any) -> Mail:
    """Declare a held send in both kinds; what `before` and `after` of the world hold is done around its landing."""

    async def send(to: str) -> None:
        key = current_step().key
        take(world.before, to)
        world.charge(to, key)
        take(world.after, to)

    def send_now(to: str) -> None:
        key = current_step().key
        take(world.before, to)
        world.charge(to, key)
        take(world.after, to)

    def ask(attempt: Attempt) -> Landed[None] | NotLanded:
        return NotLanded() if world.find(attempt.key) is None else Landed(None)

    held = Mail(
        irreversible(unique("mail"), hold=True, **options)(send),
        irreversible(unique("mail"), hold=True, **options)(send_now),
    )
    if probe:
        held.send.probe(ask)
        held.send_now.probe(ask)
    return held


def recorded(store: Store, saga: Saga) -> list[str]:
    """Return the kinds of a saga's records, in order."""
    assert isinstance(store, Backend)
    reading = store.read(saga.id)
    assert reading is not None
    return [type(record).__name__ for record in reading.records]


def test_a_held_call_happens_behind_the_commit_and_its_receipt_says_so(store: Store, world: World) -> None:
    mail = mails(world)
    receipts: list[Receipt] = []

    def body(saga: Saga) -> None:
        receipts.append(mail.send_now("ana"))
        mail.send_now("bo")
        assert world.sent == []

    ended = in_plain_scope(store, body)
    assert ended.error is None
    assert world.standing == ["ana", "bo"]
    assert "staged, not done" in receipts[0].text
    assert "when this run commits" in str(receipts[0])
    assert receipts[0].action == mail.send_now.name
    kinds = recorded(store, ended.saga)
    assert kinds == ["Began", "Held", "Held", "Committed", "Released", "Applied", "Released", "Applied"]
    assert ended.states == ["applied", "applied"]
    assert ended.saga.report.is_clean
    assert "sent after the commit" in ended.saga.report.steps[0].words
    assert done(store) == [ended.saga.id]


def test_on_a_loop_both_kinds_are_staged_and_sent_in_order(store: Store, world: World) -> None:
    mail = mails(world)

    async def body(saga: Saga) -> None:
        await mail.send("ana")
        mail.send_now("bo")  # on the loop's own thread: it only stages
        await mail.send("cy")
        assert world.sent == []

    ended = in_scope(store, body)
    assert ended.error is None
    assert world.standing == ["ana", "bo", "cy"]
    assert ended.saga.report.is_clean


def test_a_failed_run_sends_nothing(store: Store, world: World) -> None:
    mail, tools = mails(world), declare(world)

    def body(saga: Saga) -> None:
        mail.send_now("ana")
        tools.charge_now("hotel")
        raise ValueError("no")

    ended = in_plain_scope(store, body)
    assert isinstance(ended.error, ValueError)
    assert world.landed("ana") == 0
    assert world.standing == []
    assert ended.states == ["not_landed", "undone"]
    assert "dropped with the run, never sent" in ended.saga.report.steps[0].words
    assert "1 held effects dropped, never sent" in ended.notes
    assert ended.saga.report.is_clean
    assert done(store) == [ended.saga.id]


def test_holds_merge_with_a_savepoint_or_vanish_with_it(store: Store, world: World) -> None:
    mail = mails(world)

    async def body(saga: Saga) -> None:
        await mail.send("outer")
        async with saga_scope("kept"):
            await mail.send("kept")
        assert world.sent == []
        with pytest.raises(ValueError, match="inner"):
            async with saga_scope("lost"):
                await mail.send("lost")
                raise ValueError("inner")
        await mail.send("last")

    ended = in_scope(store, body)
    assert ended.error is None
    assert world.standing == ["outer", "kept", "last"]
    assert ended.states == ["applied", "applied", "not_landed", "applied"]
    assert ended.saga.report.is_clean


def test_what_proves_not_to_have_landed_is_tried_again_under_a_new_key(store: Store, world: World) -> None:
    mail = mails(world, not_landed=Declined)
    keys: list[str] = []
    world.before["ana"] = [lambda: keys.append(current_step().key) or decline()] * 2
    ended = in_plain_scope(store, lambda _: mail.send_now("ana"))
    assert ended.error is None
    assert world.standing == ["ana"]
    assert len({*keys, world.charges[0].key}) == 3
    assert ended.saga.report.is_clean


def test_what_raises_twice_is_sent_again_under_its_key_where_the_remote_knows_it(store: Store, world: World) -> None:
    mail = mails(world, replay=True)
    keys: list[str] = []
    world.before["ana"] = [lambda: keys.append(current_step().key) or lose()] * 2

    async def body(saga: Saga) -> None:
        await mail.send("ana")

    ended = in_scope(store, body)
    assert ended.error is None
    assert world.standing == ["ana"]
    assert {*keys} == {world.charges[0].key}
    assert ended.saga.report.is_clean


def test_a_probe_that_finds_it_keeps_it_from_being_sent_again(store: Store, world: World) -> None:
    mail = mails(world, probe=True)
    world.after["ana"] = [lose]

    def body(saga: Saga) -> None:
        mail.send_now("ana")
        mail.send_now("bo")

    ended = in_plain_scope(store, body)
    assert world.standing == ["ana", "bo"]
    assert world.landed("ana") == 1
    assert ended.saga.report.is_clean


def test_a_probe_that_does_not_find_it_in_time_lets_it_be_sent_again(store: Store, world: World) -> None:
    mail = mails(world, probe=True, lands_within=NOW)
    world.before["ana"] = [lose]
    ended = in_plain_scope(store, lambda _: mail.send_now("ana"))
    assert world.standing == ["ana"]
    assert ended.saga.report.is_clean


def test_in_doubt_without_a_probe_it_is_a_case_and_later_ones_wait_for_it(store: Store, world: World) -> None:
    mail = mails(world)
    world.after["ana"] = [lose]

    def body(saga: Saga) -> None:
        mail.send_now("ana")
        mail.send_now("bo")

    ended = in_plain_scope(store, body)
    assert ended.error is None
    assert world.standing == ["ana"]
    assert ended.states == ["in_doubt", "held"]
    report = ended.saga.report
    assert report.state == "committed"
    assert not report.is_clean
    assert "it may have landed" in report.cases[0]
    assert "waits for a person" in report.steps[1].words
    recover(store, wait=NOW)
    assert world.standing == ["ana"]
    cases.resolve(store, f"{ended.saga.id}:1", by="eva", how="left", evidence="it is in her inbox")
    assert recover(store, wait=NOW).count("settled") == 1
    assert world.standing == ["ana", "bo"]
    assert done(store) == [ended.saga.id]


def test_a_person_may_have_it_sent_again(store: Store, world: World) -> None:
    mail = mails(world)
    world.before["ana"] = [lose]
    ended = in_plain_scope(store, lambda _: mail.send_now("ana"))
    assert world.standing == []
    cases.resolve(store, f"{ended.saga.id}:1", by="eva", how="retry", evidence="her provider never saw it")
    assert recover(store, wait=NOW).count("settled") == 1
    assert world.standing == ["ana"]


def test_a_person_may_say_that_it_is_not_to_be_sent(store: Store, world: World) -> None:
    mail = mails(world)
    world.before["ana"] = [lose]

    def body(saga: Saga) -> None:
        mail.send_now("ana")
        mail.send_now("bo")

    ended = in_plain_scope(store, body)
    cases.resolve(store, f"{ended.saga.id}:1", by="eva", how="undone", evidence="she was told by phone")
    found = recover(store, wait=NOW).found[0]
    assert world.standing == ["bo"]
    assert found.report is not None
    assert "nothing of it stands (by eva: she was told by phone)" in found.report.steps[0].words
    assert not found.report.is_clean


def test_a_copy_that_was_restored_sends_nothing_unasked(store: Store, world: World) -> None:
    """What it holds was perhaps sent long ago, by the saga that it was copied from."""
    mail = mails(world)
    world.before["ana"] = [lose]

    def body(saga: Saga) -> None:
        mail.send_now("ana")
        mail.send_now("bo")

    ended = in_plain_scope(store, body)
    cases.resolve(store, f"{ended.saga.id}:1", by="eva", how="left", evidence="it is in her inbox")
    found = recover(store, wait=NOW, auto_undo_within=NOW).found[0]
    assert found.outcome == "stale"
    assert "nothing is sent unasked" in found.words
    assert world.sent == []
    recover(store, wait=NOW)
    assert world.standing == ["bo"]


def test_what_is_held_passes_through_approval_and_budgets_once(store: Store, world: World) -> None:
    @irreversible(unique("gift"), hold=True, money=("amount", "currency"))
    def gift(to: str, amount: int, currency: str) -> None:
        world.charge(to, current_step().key)

    gate = Gate(rules.budget({"usd": 1_00}, per=timedelta(days=1)))

    def body(saga: Saga) -> None:
        gift("ana", 60, "usd")
        with pytest.raises(GateRefused):
            gift("bo", 60, "usd")

    ended = in_plain_scope(store, body, gate=gate)
    assert world.standing == ["ana"]
    assert recorded(store, ended.saga).count("Permitted") == 1


def test_nothing_is_sent_while_a_step_is_in_doubt(store: Store, world: World) -> None:
    mail, tools = mails(world), declare(world)
    world.after["hotel"] = [lose]

    async def body(saga: Saga) -> None:
        await mail.send("ana")
        with pytest.raises(ConnectionError):
            await tools.charge("hotel")

    ended = in_scope(store, body)
    assert ended.error is None
    assert world.standing == ["hotel"]
    assert ended.states == ["held", "in_doubt"]
    assert "waits for a person" in ended.saga.report.steps[0].words
    assert not ended.saga.report.is_clean
    recover(store, wait=NOW)
    assert world.landed("ana") == 0
    cases.resolve(store, f"{ended.saga.id}:1", by="eva", how="left", evidence="it is on the statement")
    recover(store, wait=NOW)
    assert world.standing == ["hotel", "ana"]
    assert left_open(store) == []


def test_a_step_in_doubt_that_can_be_settled_is_settled_first(store: Store, world: World) -> None:
    mail, tools = mails(world), declare(world, probe=True, lands_within=NOW)
    world.before["hotel"] = [lose]

    async def body(saga: Saga) -> None:
        await mail.send("ana")
        with pytest.raises(ConnectionError):
            await tools.charge("hotel")

    ended = in_scope(store, body)
    assert world.standing == ["ana"]
    assert ended.states == ["applied", "not_landed"]
    assert ended.saga.report.is_clean


def test_a_resumed_program_gets_an_equal_receipt_and_stages_nothing_twice(store: Store, world: World) -> None:
    mail = mails(world)
    key = unique("key")
    with saga_scope("pay", key=key, store=store) as saga:
        first = mail.send_now("ana")
        saga.suspend("later")
    assert world.sent == []
    with saga_scope("pay", key=key, store=store) as saga:
        assert mail.send_now("ana") == first
    assert recorded(store, saga).count("Held") == 1
    assert world.standing == ["ana"]


def test_a_resumed_call_with_other_arguments_is_a_mismatch(store: Store, world: World) -> None:
    mail, key = mails(world), unique("key")
    with saga_scope("pay", key=key, store=store) as saga:
        mail.send_now("ana")
        saga.suspend("later")
    with saga_scope("pay", key=key, store=store), pytest.raises(StepMismatch):
        mail.send_now("bo")
    assert world.standing == ["ana"]


def test_a_committed_saga_answers_with_the_receipt(store: Store, world: World) -> None:
    mail, key = mails(world), unique("key")
    with saga_scope("pay", key=key, store=store):
        first = mail.send_now("ana")
    with saga_scope("pay", key=key, store=store, if_settled="return"):
        assert mail.send_now("ana") == first
    assert world.landed("ana") == 1


def test_the_key_of_a_saga_whose_holds_are_not_sent_is_unsettled(store: Store, world: World) -> None:
    mail, key = mails(world), unique("key")
    world.after["ana"] = [lose]
    with saga_scope("pay", key=key, store=store):
        mail.send_now("ana")
        mail.send_now("bo")
    words = "not all of its held effects are sent"
    with pytest.raises(SagaUnsettled, match=words), saga_scope("pay", key=key, store=store):
        pytest.fail("the scope opened")


def test_the_rules_judge_a_held_call_when_it_is_staged(store: Store, world: World) -> None:
    mail = mails(world)

    def no_bo(proposal: Proposal) -> Refuse | None:
        assert proposal.recoverable
        return Refuse("not to bo") if proposal.args["to"] == "bo" else None

    def body(saga: Saga) -> None:
        mail.send_now("ana")
        with pytest.raises(GateRefused, match="not to bo"):
            mail.send_now("bo")

    ended = in_plain_scope(store, body, gate=Gate(no_bo))
    assert world.standing == ["ana"]
    assert ended.saga.report.is_clean


class Letter(TypedDict):
    to: str
    cc: list[str]


def test_it_is_run_with_what_was_recorded_whatever_became_of_the_arguments(store: Store, world: World) -> None:
    seen: list[Any] = []

    @irreversible(unique("letter"), hold=True)
    def letter(what: Letter, wait: timedelta) -> None:
        seen.append((what, wait))

    def body(saga: Saga) -> None:
        what: Letter = {"to": "ana", "cc": []}
        letter(what, timedelta(hours=1))
        what["cc"].append("everybody")

    in_plain_scope(store, body)
    assert seen == [({"to": "ana", "cc": []}, timedelta(hours=1))]


def test_a_cancellation_behind_the_pivot_comes_after_the_holds(store: Store, world: World) -> None:
    mail = mails(world)
    begun = threading.Event()
    let_go = threading.Event()

    def hang() -> None:
        begun.set()
        assert let_go.wait(20)

    world.before["ana"] = [hang]
    reports: list[Any] = []

    async def run() -> None:
        async with saga_scope(store=store) as saga:
            reports.append(saga)
            mail.send_now("ana")
            await mail.send("bo")

    async def main() -> None:
        task = asyncio.ensure_future(run())
        await asyncio.to_thread(begun.wait, 20)
        task.cancel()
        await asyncio.sleep(0)
        let_go.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert world.standing == ["ana", "bo"]
    assert reports[0].report.is_clean


def test_a_hold_that_takes_long_is_carried_on_behind_its_caller(store: Store, world: World) -> None:
    mail = mails(world)
    let_go = threading.Event()
    world.before["ana"] = [lambda: let_go.wait(20)]

    def body(saga: Saga) -> None:
        mail.send_now("ana")
        mail.send_now("bo")

    ended = in_plain_scope(store, body, unwind_timeout=timedelta(0))
    assert ended.error is None
    assert ended.saga.report.state == "committed"
    assert not ended.saga.report.is_clean
    let_go.set()
    eventually(lambda: world.standing == ["ana", "bo"])
    eventually(lambda: done(store) == [ended.saga.id])


def test_a_loop_that_is_closed_over_a_hold_leaves_it_to_its_thread(store: Store, world: World) -> None:
    mail = mails(world)
    begun, let_go = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        assert let_go.wait(20)

    world.before["ana"] = [hang]
    opened: list[Saga] = []

    async def run() -> None:
        async with saga_scope(store=store) as saga:
            opened.append(saga)
            mail.send_now("ana")
            mail.send_now("bo")

    async def main() -> None:
        task = asyncio.ensure_future(run())
        await asyncio.to_thread(begun.wait, 20)
        assert not task.done()
        threading.Timer(0.1, let_go.set).start()  # asyncio.run cancels both tasks and waits for the effect's thread

    asyncio.run(main())
    eventually(lambda: done(store) == [opened[0].id])
    assert world.standing == ["ana", "bo"]
    assert world.landed("ana") == 1


def test_an_undecided_probe_of_the_remote_is_a_case(store: Store, world: World) -> None:
    mail = mails(world, lands_within=NOW)
    mail.send_now.probe(lambda _: Unknown("it is down"))
    world.after["ana"] = [lose]
    ended = in_plain_scope(store, lambda _: mail.send_now("ana"))
    assert "could not tell" in ended.saga.report.cases[0]
    assert world.landed("ana") == 1


def test_what_never_lands_is_a_case_in_the_end(store: Store, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saga_core.engine.asking.FIRST_WAIT", 0.0)
    mail = mails(world, not_landed=Declined)
    world.before["ana"] = [decline] * 6
    ended = in_plain_scope(store, lambda _: mail.send_now("ana"))
    assert "tried 6 times and did not land" in ended.saga.report.cases[0]
    assert world.sent == []
    cases.resolve(store, f"{ended.saga.id}:1", by="eva", how="retry", evidence="it takes mail again")
    recover(store, wait=NOW)
    assert world.standing == ["ana"]


def test_what_a_held_action_cannot_keep_is_refused_when_it_is_declared() -> None:
    def mail(to: str) -> None:
        raise AssertionError(to)

    hidden: dict[str, Any] = {"hide": ("to",)}
    with pytest.raises(DeclarationError, match="it is held, and hide="):
        irreversible(unique("mail"), hold=True, **hidden)(mail)
    tier: dict[str, Any] = {"tier": "process"}
    with pytest.raises(DeclarationError, match="tier= does not go with hold=True"):
        irreversible(unique("mail"), hold=True, **tier)(mail)
    held = irreversible(unique("mail"), hold=True)(mail)
    with pytest.raises(DeclarationError, match="takes no undo"):
        held.undo(lambda call: Compensation("mail", 1, call.args))
    with pytest.raises(DeclarationError, match="takes no capture"):
        held.capture(lambda attempt: attempt.args["to"])
