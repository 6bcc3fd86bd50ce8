import re
from datetime import datetime

from .desk import Desk


def told(text: str) -> list[str]:
    """Return the story's lines without their times and latencies."""
    lines = [line for line in text.splitlines() if re.match(r"  +[+-]\d", line)]
    story = [re.sub(r", [\d.]+ m?s$", "", line.partition(" s  ")[2]) for line in lines]
    return [line for line in story if "  noted: " not in line]


def test_calls_point_forward_and_undos_backward_newest_first(story: Desk) -> None:
    typed = story.saga("show", story.json("ls")["sagas"][2]["id"])
    assert typed.returncode == 0
    lines = told(typed.stdout)
    assert [re.sub(r"ch_\w+", "ch", line) for line in lines] == [
        '-> 1 shop.charge(amount=100, currency="usd", note="", password="", extra=null)  landed = "ch"',
        '-> 2 shop.charge(amount=200, currency="usd", note="two", password="", extra=null)  landed = "ch"',
        "-- unwinding begins: ValueError",
        '<- 2 shop.charge  by shop.refund(charge="ch")  undone',
        '<- 1 shop.charge  by shop.refund(charge="ch")  undone',
        "-- rolled back",
    ]
    assert len(re.findall(r"landed = \"\w+\", [\d.]+ ms$", typed.stdout, re.MULTILINE)) == 2
    assert len(re.findall(r"undone, [\d.]+ ms$", typed.stdout, re.MULTILINE)) == 2
    assert "state   ↩ rolled back (ValueError)" in typed.stdout
    assert "1. shop.charge: landed, undone" in typed.stdout


def test_facts_noted_in_mid_effect_are_told(story: Desk) -> None:
    text = story.saga("show", story.json("ls")["sagas"][3]["id"]).stdout
    assert "  -- 1 shop.charge  noted: desk=1\n" in text


def test_a_refused_call_is_told_with_its_rule(story: Desk) -> None:
    lines = told(story.saga("show", story.json("ls")["sagas"][1]["id"]).stdout)
    assert "-| 2 shop.wire  refused before it ran by rule irreversible: irreversible, and nobody approved it" in lines


def test_a_saga_whose_process_died_says_what_is_unknown_and_what_to_do(story: Desk) -> None:
    text = story.saga("show", story.json("ls")["sagas"][0]["id"]).stdout
    assert told(text)[-1] == "-> 2 shop.stuck(amount=600, lands=true)  nothing recorded yet"
    assert "nobody alive owns it: run saga recover" in text
    assert "key     order-17 (generation 1)" in text
    assert "2. shop.stuck: running, or cut off before its outcome was known" in text
    assert "stands or may stand: 500 usd (minor units)" in text


def test_what_another_process_did_is_told_in_the_order_in_which_it_happened(desk: Desk) -> None:
    desk.kill('with saga_scope("killed"):\n charge(1)\n stuck(2)')
    desk.saga("recover", "--import", "shop")
    lines = [re.sub(r"ch_\w+|pid \d+ on \S+", "*", line) for line in told(desk.saga("show", desk.only_id()).stdout)]
    assert lines[1:] == [
        "-> 2 shop.stuck(amount=2, lands=true)  cut off: no outcome was recorded",
        "-- taken over by * (recover)",
        "-- unwinding begins: its process died",
        '-> 2 shop.stuck  asked: it landed = "*"',
        '<- 2 shop.stuck  by shop.refund(charge="*")  undone',
        '<- 1 shop.charge  by shop.refund(charge="*")  undone',
        "-- rolled back",
    ]


def test_savepoints_notes_of_a_case_and_long_values_are_told(desk: Desk) -> None:
    desk.python(
        "with saga_scope('outer'):\n"
        "    charge(1, note='x' * 500)\n"
        "    try:\n"
        "        with saga_scope('inner'):\n"
        "            charge(2)\n"
        "            raise KeyError('k')\n"
        "    except KeyError: pass\n"
    )
    lines = told(desk.saga("show", desk.only_id()).stdout)
    assert "note=<text, 500 letters>" in lines[0]
    assert [line for line in lines if "inner" in line or "<-" in line] == [
        "-- savepoint inner opened",
        next(line for line in lines if " in inner" in line),
        "-- unwinding of savepoint inner begins: KeyError",
        next(line for line in lines if line.startswith("<- 2")),
        "-- savepoint inner undone",
    ]
    assert lines[-1] == "-- committed"


def test_an_open_case_is_told_with_its_words(desk: Desk) -> None:
    desk.kill('with saga_scope("killed"): blind(2)')
    desk.saga("recover", "--import", "shop")
    text = desk.saga("show", desk.only_id()).stdout
    assert "state   ■ needs a person" in text
    assert f"case {desk.only_id()}:1 step 1 shop.blind: it may have landed" in text


def test_raw_records_are_one_a_line_in_the_order_of_the_log(story: Desk) -> None:
    saga = story.json("ls")["sagas"][2]["id"]
    lines = story.saga("show", saga, "--records").stdout.splitlines()
    kinds = [re.findall(r"[A-Z][A-Za-z]+", line)[0] for line in lines]
    assert kinds == [
        *("Began", "Intended", "Noted", "Applied", "Intended", "Noted", "Applied", "UnwindBegan"),
        *("UndoIntended", "UndoEnded", "UndoIntended", "UndoEnded", "RolledBack"),
    ]
    assert [int(line.split()[0]) for line in lines] == list(range(13))
    assert [record["kind"] for record in story.json("show", saga, "--records")["records"]] == kinds


def test_json_holds_the_steps_the_events_and_the_report(story: Desk) -> None:
    document = story.json("show", story.json("ls")["sagas"][1]["id"])
    assert set(document) == {"schema_version", "store", "saga", "steps", "refused", "events", "report"}
    (step,) = document["steps"]
    assert (step["action"], step["state"], step["args"]["amount"], step["result"][:3]) == (
        "shop.charge",
        "undone",
        300,
        "ch_",
    )
    assert step["undo"] == {"inverse": "shop.refund", "version": 1, "args": {"charge": step["result"]}}
    assert [call["action"] for call in document["refused"]] == ["shop.wire"]
    assert [event["arrow"] for event in document["events"]] == ["->", "--", "-|", "--", "<-", "--"]
    assert all(event["ms"] > 0 for event in document["events"] if event["arrow"] in {"->", "<-"})
    assert document["report"]["is_clean"] is True
    assert document["report"]["words"] == [
        "1. shop.charge: landed, undone",
        "2. shop.wire: refused, irreversible, and nobody approved it",
    ]


def test_times_are_counted_from_the_begin_or_are_utc(story: Desk) -> None:
    saga = story.json("ls")["sagas"][3]["id"]
    line = story.saga("show", saga, "--utc").stdout.splitlines()[-4]
    assert datetime.fromisoformat(line.split()[0]) >= datetime.fromisoformat(story.json("ls")["sagas"][3]["began"])


def test_an_id_may_be_any_unique_prefix_in_either_case(story: Desk) -> None:
    one = story.json("ls")["sagas"][0]
    assert story.json("show", one["short"].lower())["saga"]["id"] == one["id"]


def test_an_ambiguous_prefix_names_the_sagas_that_have_it(story: Desk) -> None:
    typed = story.saga("show", "01")
    assert typed.returncode == 3
    assert typed.stdout == ""
    assert "names 4 sagas" in typed.stderr
    assert [name for name in ("kept", "failed", "refused", "killed") if name not in typed.stderr] == []


def test_an_unknown_id_is_not_found_and_the_newest_ones_are_named(story: Desk) -> None:
    for unknown in ("7ZZZ", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "", "../open"):
        typed = story.saga("show", unknown)
        assert typed.returncode == 3
        assert story.json("ls")["sagas"][0]["id"] in typed.stderr


def test_a_damaged_log_is_shown_as_far_as_it_is_good_and_ends_with_6(desk: Desk) -> None:
    desk.kill('with saga_scope("hurt"):\n charge(1)\n stuck(2)')
    (log,) = desk.store.glob("open/*.log")
    data = bytearray(log.read_bytes())
    data[-200] ^= 0xFF
    log.write_bytes(data)
    typed = desk.saga("show", log.stem)
    assert typed.returncode == 6
    assert "state   ✖ damaged" in typed.stdout
    assert told(typed.stdout)[0].startswith("-> 1 shop.charge")
    assert "its log is damaged, nothing is done in its name" in typed.stderr
    assert desk.json("show", log.stem)["report"]["is_clean"] is False


def test_a_torn_tail_is_told_before_and_after_it_was_cut_off(desk: Desk) -> None:
    desk.kill('with saga_scope("torn"):\n charge(1)\n stuck(2)')
    (log,) = desk.store.glob("open/*.log")
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - 10)
    before = desk.saga("show", log.stem).stdout
    torn = re.search(r"torn +(\d+) bytes behind the last record", before)
    assert torn is not None
    desk.saga("recover", "--import", "shop")
    assert f"(recover; {torn[1]} bytes of a torn tail were cut off)" in desk.saga("show", log.stem).stdout
