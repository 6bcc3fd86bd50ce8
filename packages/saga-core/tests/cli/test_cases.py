"""`saga cases`: what nobody can undo alone is settled by people, and the log tells who said what."""

import pytest

from .desk import Desk

STUCK = 'with saga_scope("killed", key="order-17"):\n charge(5_00)\n blind(6_00)'


@pytest.fixture
def case(desk: Desk) -> str:
    """A case about a call of which nobody could ask whether it landed."""
    desk.kill(STUCK)
    assert desk.saga("recover", "--import", "shop", "--resume-grace", "0", "--wait", "0").returncode == 4
    (found,) = desk.json("cases", "list")["cases"]
    return found["id"]


def test_a_person_settles_what_nobody_could_tell(desk: Desk, case: str) -> None:
    listed = desk.saga("cases", "list")
    assert (listed.returncode, listed.stderr) == (4, "")
    assert listed.stdout.startswith(f"{case}  step 2 shop.blind  ")
    assert desk.saga("cases", "claim", case, "--by", "ana").returncode == 0
    assert "ana is at it" in desk.saga("cases", "list").stdout
    assert desk.saga("cases", "claim", case, "--by", "bo").returncode == 5
    shown = desk.saga("cases", "show", case.replace(case[14:26], ""))
    assert (shown.returncode, "key order-17" in shown.stdout) == (4, True)
    settled = desk.saga("cases", "resolve", case, "--by", "ana", "--how", "left", "--evidence", "receipt 9")
    assert (settled.returncode, settled.stderr) == (0, "")
    assert "left by ana: receipt 9" in settled.stdout
    assert desk.saga("cases", "list").returncode == 0
    assert "left in place" in desk.saga("ls").stdout
    assert "case 1 settled, left in place, by ana: receipt 9" in desk.saga("show", desk.only_id()).stdout
    assert [path.stem for path in desk.store.glob("done/*/*.log")] == [desk.only_id()]
    assert desk.ledger() == (2, 1)
    late = desk.saga("cases", "resolve", case, "--by", "bo", "--how", "undone", "--evidence", "me too")
    assert (late.returncode, "settled already: left by ana" in late.stderr) == (5, True)


def test_what_was_undone_by_hand_makes_the_saga_rolled_back(desk: Desk, case: str) -> None:
    document = desk.json("cases", "resolve", case, "--by", "ana", "--how", "undone", "--evidence", "by phone")
    assert (document["resolved"], document["evidence"], document["state"]) == ("undone", "by phone", "undone")
    assert desk.json("ls")["sagas"][0]["state"] == "rolled_back"


def test_a_released_case_waits_for_recovery(desk: Desk, case: str) -> None:
    released = desk.saga("cases", "resolve", case, "--by", "ana", "--how", "retry", "--evidence", "ask again")
    assert released.stdout.endswith("next     saga recover\n")
    assert desk.saga("cases", "list").returncode == 0
    assert desk.saga("recover", "--import", "shop", "--wait", "0").returncode == 4
    (again,) = desk.json("cases", "list")["cases"]
    assert again["id"] == case[:-1] + "2"


@pytest.mark.parametrize(
    ("typed", "code"),
    [
        (["show", "nothing"], 2),
        (["show", "nothing:1"], 3),
        (["resolve", "CASE", "--by", "ana", "--how", "left"], 2),
        (["resolve", "CASE", "--by", "ana", "--how", "forget", "--evidence", "x"], 2),
        (["resolve", "CASE", "--by", " ", "--how", "left", "--evidence", "x"], 2),
        (["resolve", "CASE0", "--by", "ana", "--how", "left", "--evidence", "x"], 3),
        ([], 2),
    ],
)
def test_what_is_typed_wrongly_changes_nothing(desk: Desk, case: str, typed: list[str], code: int) -> None:
    before = desk.bytes()
    answer = desk.saga("cases", *(word.replace("CASE", case) for word in typed))
    assert (answer.returncode, answer.stdout) == (code, "")
    assert answer.stderr
    assert desk.bytes() == before
