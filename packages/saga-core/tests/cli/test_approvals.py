"""`saga approvals`: people answer from a terminal, and what they allowed happens exactly once."""

import json
import sqlite3
from contextlib import closing

import pytest

from .desk import Desk

PAY = 'with saga_scope("pay", key="invoice-17", tags={"requester": "rita"}):\n charge(1_00)\n wire(4_00)'


def wired(desk: Desk) -> int:
    with closing(sqlite3.connect(desk.folder / "ledger.db")) as books:
        (count,) = books.execute("select count(*) from charges where id = 'wire'").fetchone()
    return count


@pytest.fixture
def waiting(desk: Desk) -> str:
    """A request of a process that has ended since."""
    desk.python(PAY)
    (found,) = desk.json("approvals", "list")["approvals"]
    return found["id"]


def test_a_call_waits_over_night_and_runs_once_in_the_morning(desk: Desk, waiting: str) -> None:
    listed = desk.saga("approvals", "list")
    assert (listed.returncode, listed.stderr) == (4, "")
    assert listed.stdout.startswith(f"{waiting}  shop.wire(amount=400)  asked ")
    assert desk.saga("approvals", "list", "--key", "other").returncode == 0
    assert f"waits for approval: {waiting}" in desk.saga("ls").stdout
    shown = desk.saga("approvals", "show", waiting[:5])
    assert shown.returncode == 4
    for words in ("amount = 400", "key invoice-17", "1. shop.charge: applied", "1 person, 0 so far, not rita"):
        assert words in shown.stdout
    assert wired(desk) == 0
    approved = desk.saga("approvals", "approve", waiting, "--by", "ana", "--reason", "checked")
    assert (approved.returncode, approved.stderr) == (0, "")
    assert approved.stdout.startswith(f"{waiting} is approved: shop.wire(amount=400)\n")
    assert "run it again with the key invoice-17" in approved.stdout
    assert (desk.saga("approvals", "list").returncode, wired(desk)) == (0, 0)
    for _ in range(2):
        desk.python(PAY)
    assert wired(desk) == 1
    assert desk.ledger()[0] == 2
    story = desk.saga("show", desk.only_id()).stdout
    assert f"waits for approval {waiting} (irreversible: irreversible)" in story
    assert "approved by ana (checked)" in story


def test_a_rejected_call_never_runs(desk: Desk, waiting: str) -> None:
    assert desk.saga("approvals", "reject", waiting, "--by", "bo", "--reason", "wrong account").returncode == 0
    desk.python(PAY)
    assert wired(desk) == 0
    assert desk.ledger() == (1, 1), "the refusal left the scope: the fee was refunded"


def test_a_decision_that_comes_too_late_is_told_whose_was_first(desk: Desk, waiting: str) -> None:
    assert desk.saga("approvals", "approve", waiting, "--by", "rita").returncode == 5
    desk.saga("approvals", "approve", waiting, "--by", "ana")
    late = desk.saga("approvals", "reject", waiting, "--by", "bo", "--reason", "no")
    assert late.returncode == 5
    assert "already decided by ana" in late.stderr
    assert desk.saga("approvals", "revoke", waiting, "--by", "cy", "--reason", "wait").returncode == 0
    desk.python(PAY)
    assert wired(desk) == 0


def test_an_edited_call_runs_as_it_was_edited(desk: Desk, waiting: str) -> None:
    assert desk.saga("approvals", "approve", waiting, "--by", "ana", "--edit", "amount=many").returncode == 2
    assert desk.saga("approvals", "approve", waiting, "--by", "ana", "--edit", "sum=1").returncode == 5
    document = desk.json("approvals", "approve", waiting, "--by", "ana", "--edit", "amount=3")
    assert (document["state"], document["decisions"][0]["edit"]) == ("approved", {"amount": 3})
    desk.python(PAY)
    with closing(sqlite3.connect(desk.folder / "ledger.db")) as books:
        assert books.execute("select amount from charges where id = 'wire'").fetchall() == [(3,)]


def test_a_grant_covers_calls_to_come_until_it_is_revoked(desk: Desk) -> None:
    desk.python("with saga_scope():\n charge(1)")
    granted = desk.json(
        "approvals", "grant", "shop.wire", "--by", "ana", "--reason", "rent", "--args", "amount=4*", "--uses", "2"
    )
    assert (granted["uses"], granted["used"], granted["args"]) == (2, 0, {"amount": "4*"})
    desk.python('with saga_scope(key="a"): wire(41)')
    assert wired(desk) == 1
    desk.python('with saga_scope(key="b"): wire(51)')
    assert desk.saga("approvals", "list").returncode == 4
    assert "used 1 of 2" in desk.saga("approvals", "grants").stdout
    assert desk.saga("approvals", "revoke", granted["id"], "--by", "bo", "--reason", "over").returncode == 0
    desk.python('with saga_scope(key="c"): wire(42)')
    assert wired(desk) == 1
    assert desk.json("approvals", "grants")["grants"][0]["revoked_by"] == "bo"


@pytest.mark.parametrize(
    ("typed", "code"),
    [
        (["show", "nothing"], 3),
        (["approve", "nothing", "--by", "ana"], 3),
        (["revoke", "nothing", "--by", "ana", "--reason", "x"], 3),
        (["approve", "nothing"], 2),
        (["reject", "nothing", "--by", "ana"], 2),
        ([], 2),
        (["grant", "x", "--by", "ana", "--reason", "x", "--uses", "0"], 2),
        (["grant", "x", "--by", "ana", "--reason", "x", "--limit", "many", "usd"], 2),
        (["grant", "x", "--by", "ana", "--reason", "x", "--expires-in", "0"], 2),
        (["grant", "x", "--by", "ana", "--reason", "x", "--args", "amount"], 2),
    ],
)
def test_what_is_typed_wrongly_decides_nothing(desk: Desk, waiting: str, typed: list[str], code: int) -> None:
    answer = desk.saga("approvals", *typed)
    assert (answer.returncode, answer.stdout) == (code, "")
    assert answer.stderr
    assert desk.json("approvals", "grants")["grants"] == []
    assert json.loads(desk.saga("approvals", "list", "--json").stdout)["approvals"][0]["id"] == waiting
