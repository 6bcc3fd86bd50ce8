import os
import pty
import subprocess

import pytest

from .desk import SAGA, Desk

SECRET = "Lovelace"
PROGRAM = f'with saga_scope("{SECRET}", key="key of {SECRET}", tags={{"who": "{SECRET}"}}): charge(1, note="{SECRET}")'


def is_readable(desk: Desk) -> bool:
    return any(SECRET.encode() in path.read_bytes() for path in desk.store.rglob("*") if path.is_file())


def test_an_erased_saga_is_neither_listed_nor_shown_and_the_tombstone_says_who_did_it(desk: Desk) -> None:
    desk.python(PROGRAM)
    desk.python('with saga_scope("kept"): charge(1)')
    saga = desk.json("ls")["sagas"][1]["id"]
    assert is_readable(desk)
    typed = desk.saga("erase", saga[:-2], "--yes", "--by", "Bob\x1b[31m")
    assert (typed.returncode, typed.stdout) == (0, f"saga {saga} is erased; its tombstone stays\n")
    assert not is_readable(desk)
    assert [one["name"] for one in desk.json("ls")["sagas"]] == ["kept"]
    for name in (saga, saga.lower(), saga[:-2]):
        shown = desk.saga("show", name)
        assert shown.returncode == 3
        assert f"saga {saga} was erased on 20" in shown.stderr
        assert "by Bob\\x1b[31m;" in shown.stderr
    again = desk.json("erase", saga)
    assert (again["id"], again["by"]) == (saga, "Bob\x1b[31m")
    assert desk.saga("erase", saga).stdout.startswith(f"saga {saga} was erased already")
    assert desk.ledger() == (2, 0)


@pytest.mark.parametrize("if_settled", ["raise", "return"])
def test_the_key_of_an_erased_saga_is_refused_in_words(desk: Desk, if_settled: str) -> None:
    desk.python(PROGRAM)
    desk.saga("erase", desk.only_id(), "--yes")
    told = desk.python(
        "from saga_core import SagaClosed\n"
        "try:\n"
        f' with saga_scope("again", key="key of {SECRET}", if_settled="{if_settled}"): charge(2)\n'
        "except SagaClosed as closed:\n"
        " print(closed)"
    )
    assert "its log was erased" in told
    assert 'if_settled="new"' in told
    assert desk.ledger() == (1, 0)
    desk.python(f'with saga_scope("again", key="key of {SECRET}", if_settled="new"): charge(2)')
    assert desk.ledger() == (2, 0)


def test_what_is_not_settled_ends_with_4_and_stays(desk: Desk) -> None:
    desk.kill(f'with saga_scope("{SECRET}"): stuck(1)')
    before = desk.bytes()
    typed = desk.saga("erase", desk.only_id(), "--yes")
    assert typed.returncode == 4
    assert "is not settled" in typed.stderr
    assert "saga recover" in typed.stderr
    after = desk.bytes()
    after.pop("upkeep.lock")
    assert after == before
    desk.saga("recover", "--import", "shop")
    assert desk.saga("erase", desk.only_id(), "--yes").returncode == 0
    assert desk.ledger() == (1, 1)


def test_nobody_to_ask_ends_with_2(desk: Desk) -> None:
    desk.python(PROGRAM)
    before = desk.bytes()
    for more in ([], ["--json"]):
        typed = desk.saga("erase", desk.only_id(), *more)
        assert (typed.returncode, "--yes" in typed.stderr) == (2, True)
    assert desk.bytes() == before


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("YES", 0), ("n", 1), ("", 1)])
def test_a_person_at_the_terminal_is_asked(desk: Desk, answer: str, code: int) -> None:
    desk.python(PROGRAM)
    person, terminal = pty.openpty()
    os.write(person, f"{answer}\n".encode())
    command = [SAGA, "erase", desk.only_id()]
    typed = subprocess.run(
        command, cwd=desk.folder, env=desk.environment(), stdin=terminal, capture_output=True, text=True, check=False
    )
    os.close(person)
    os.close(terminal)
    assert typed.returncode == code
    assert SECRET in typed.stderr
    assert is_readable(desk) == (code != 0)


def test_a_saga_that_never_was_ends_with_3(desk: Desk) -> None:
    desk.python(PROGRAM)
    assert desk.saga("erase", "7" + "Z" * 25, "--yes").returncode == 3
    assert desk.saga("erase", "7ZZZ", "--yes").returncode == 3
    assert is_readable(desk)
