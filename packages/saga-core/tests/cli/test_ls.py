import shutil

from .desk import Desk


def columns(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in text.splitlines()]


def test_each_saga_is_a_line_newest_first_with_its_state_and_what_became_of_its_effects(story: Desk) -> None:
    typed = story.saga("ls")
    assert typed.returncode == 0
    lines = columns(typed.stdout)
    assert [line[:2] + line[3:4] for line in lines] == [
        ["○ running", "killed", "1 applied, 1 intended"],
        ["↩ rolled back", "refused", "1/1 undone, 1 refused"],
        ["↩ rolled back", "failed", "2/2 undone"],
        ["● committed", "kept", "1 applied"],
    ]
    assert lines[0][-1] == "no owner: saga recover"
    assert lines[2][-1] == "(ValueError)"


def test_a_short_id_names_one_saga_alone(story: Desk) -> None:
    sagas = story.json("ls")["sagas"]
    for one in sagas:
        assert [other["id"] for other in sagas if other["id"].startswith(one["short"])] == [one["id"]]
        assert story.json("show", one["short"])["saga"]["id"] == one["id"]


def test_json_says_the_same_for_programs(story: Desk) -> None:
    document = story.json("ls")
    assert document["schema_version"] == 1
    assert document["store"] == f"file:{story.store.resolve()}"
    assert document["more"] is False
    killed, refused, failed, kept = document["sagas"]
    assert set(killed) == {
        *("id", "short", "name", "key", "tags", "state", "settled", "owner"),
        *("began", "ended", "steps", "refused", "cases", "waiting", "reason", "damage"),
    }
    assert (killed["state"], killed["key"], killed["settled"]) == ("running", "order-17", False)
    assert killed["steps"] == {"applied": 1, "intended": 1}
    assert (refused["refused"], failed["steps"], failed["reason"]) == (1, {"undone": 2}, "ValueError")
    assert (kept["tags"], kept["settled"], kept["ended"] > kept["began"]) == ({"team": "sales"}, True, True)


def test_states_are_filtered_several_at_once(story: Desk) -> None:
    found = story.json("ls", "--state", "committed", "running")["sagas"]
    assert [one["name"] for one in found] == ["killed", "kept"]


def test_open_lists_what_is_not_settled(story: Desk) -> None:
    assert [one["name"] for one in story.json("ls", "--open")["sagas"]] == ["killed"]


def test_a_limit_keeps_the_newest_and_says_that_there_are_more(story: Desk) -> None:
    typed = story.saga("ls", "--limit", "2")
    assert [line[1] for line in columns(typed.stdout)] == ["killed", "refused"]
    assert "older ones: --limit 0" in typed.stderr
    assert story.json("ls", "--limit", "2")["more"] is True
    assert len(story.json("ls", "--limit", "0")["sagas"]) == 4


def test_times_are_ages_or_utc(story: Desk) -> None:
    assert columns(story.saga("ls").stdout)[3][4].endswith(" ago")
    assert columns(story.saga("ls", "--utc").stdout)[3][4] == story.json("ls")["sagas"][3]["began"]


def test_an_empty_list_says_why_it_is_empty(desk: Desk) -> None:
    desk.python("from saga_core import open_store; open_store('file:.saga')")
    assert "no saga in" in desk.saga("ls").stderr
    assert desk.json("ls")["sagas"] == []
    desk.python('with saga_scope("kept"): charge(1)')
    filtered = desk.saga("ls", "--state", "unwinding", "damaged")
    assert "is unwinding or damaged; 1 are not" in filtered.stderr
    assert "every saga in" in desk.saga("ls", "--open").stderr
    assert filtered.stdout == ""
    assert filtered.returncode == 0


def test_a_live_owner_is_named_and_not_disturbed(desk: Desk) -> None:
    child = desk.start('with saga_scope("busy"): stuck(1)')
    (line,) = columns(desk.saga("ls").stdout)
    assert line[-1].startswith(f"pid {child.pid}, ")
    child.communicate("go on")
    assert child.returncode == 0
    assert [one["state"] for one in desk.json("ls")["sagas"]] == ["committed"]


def test_a_terminal_without_the_shapes_gets_plain_ones_and_the_same_words(story: Desk) -> None:
    typed = story.saga("ls", PYTHONIOENCODING="ascii")
    assert [line[0] for line in columns(typed.stdout)] == [
        "o running",
        "< rolled back",
        "< rolled back",
        "* committed",
    ]


def test_a_name_cannot_command_the_terminal(desk: Desk) -> None:
    desk.python(r'with saga_scope("\x1b[2J\u202egnp"): charge(1)')
    assert r"\x1b[2J\u202egnp" in desk.saga("ls").stdout


def test_listing_calls_nothing_that_a_log_names_and_changes_no_byte(desk: Desk) -> None:
    desk.kill('with saga_scope("killed"): stuck(1)')
    (desk.folder / "shop.py").write_text("raise SystemExit('imported')")
    before = desk.bytes()
    assert [desk.saga("ls").returncode, desk.saga("show", desk.only_id()).returncode] == [0, 0]
    assert desk.bytes() == before
    assert desk.ledger() == (1, 0)


def test_a_damaged_log_is_a_state_of_its_own_and_the_others_are_listed(desk: Desk) -> None:
    desk.kill('with saga_scope("hurt"):\n charge(1)\n stuck(2)')
    (log,) = desk.store.glob("open/*.log")
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 0xFF
    log.write_bytes(data)
    desk.python('with saga_scope("well"): charge(1)')
    lines = columns(desk.saga("ls").stdout)
    assert [line[0] for line in lines] == ["● committed", "✖ damaged"]
    assert "damaged at offset" in lines[1][-1]


def test_a_log_without_any_record_is_empty(desk: Desk) -> None:
    desk.python(
        "from saga_core import open_store; from saga_core.ids import new_saga_id\n"
        "open_store('file:.saga').create(new_saga_id()).release()"
    )
    assert columns(desk.saga("ls").stdout)[0][0] == "· empty"


def test_many_sagas_of_one_moment_are_listed_in_order_and_told_apart(desk: Desk) -> None:
    desk.python("for number in range(60):\n with saga_scope(str(number)): pass")
    listed = desk.json("ls", "--limit", "0")["sagas"]
    assert {one["name"] for one in listed} == {str(number) for number in range(60)}
    assert [one["id"] for one in listed] == sorted((one["id"] for one in listed), reverse=True)
    assert len({one["short"] for one in listed}) == 60
    assert len(desk.json("ls")["sagas"]) == 50


def test_a_log_in_both_places_is_listed_once_as_damaged(desk: Desk) -> None:
    desk.kill('with saga_scope("killed"): stuck(1)')
    desk.python('with saga_scope("kept"): charge(1)')
    (log,), (day,) = desk.store.glob("open/*.log"), desk.store.glob("done/*")
    shutil.copy(log, day)
    assert [one["state"] for one in desk.json("ls")["sagas"]] == ["committed", "damaged"]
