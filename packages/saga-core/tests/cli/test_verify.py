import os
import pty
import subprocess
from pathlib import Path

from .desk import SAGA, Desk


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[150] ^= 1
    path.write_bytes(data)


def test_a_sound_store_ends_with_0_and_nothing_in_it_changes(desk: Desk) -> None:
    desk.python('with saga_scope("kept", key="a"): charge(1)')
    desk.kill('with saga_scope("killed"): stuck(1)')
    before = desk.bytes()
    typed = desk.saga("verify")
    assert (typed.returncode, typed.stderr) == (0, "")
    assert typed.stdout.startswith("1 unsettled, 1 settled in files, 0 in packs, 0 erased: all sound in file:")
    assert desk.json("verify")["counts"] == {"open": 1, "done": 1, "packed": 0, "tombstone": 0, "pack": 0}
    assert desk.bytes() == before


def test_damage_ends_with_6_and_names_saga_and_place(desk: Desk) -> None:
    desk.python('with saga_scope("kept"): charge(1)')
    desk.python('with saga_scope("hurt"): charge(1)')
    hurt = desk.json("ls")["sagas"][0]["id"]
    (path,) = desk.store.glob(f"done/*/{hurt}.log")
    flip(path)
    typed = desk.saga("verify")
    assert typed.returncode == 6
    assert "1 damaged in file:" in typed.stdout
    assert f"done/{path.parent.name}  {hurt}  damaged at offset" in typed.stdout
    document = desk.saga("verify", "--json")
    assert (document.returncode, document.stderr) == (6, "")
    (problem,) = desk.json("verify")["problems"]
    assert set(problem) == {"kind", "saga", "place", "problem"}
    assert (problem["kind"], problem["saga"], problem["place"]) == ("done", hurt, f"done/{path.parent.name}")


def test_a_terminal_is_told_how_far_it_is_and_a_program_is_not(desk: Desk) -> None:
    desk.python('with saga_scope("kept"): charge(1)')
    impatient = (
        "import saga_core.cli.verify as verify, sys\n"
        "verify._OFTEN = 0.0\n"
        "from saga_core.cli import main\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    for more, is_told in ([], True), (["--json"], False):
        watched, terminal = pty.openpty()
        command = [SAGA.with_name("python"), "-c", impatient, "verify", *more]
        subprocess.run(
            command, cwd=desk.folder, env=desk.environment(), stdout=subprocess.PIPE, stderr=terminal, check=True
        )
        os.write(terminal, b"end\n")
        os.close(terminal)
        with os.fdopen(watched, "rb") as screen:
            seen = screen.read1()
        assert (b"1 read, 0 damaged" in seen) == is_told


def test_there_must_be_a_store(desk: Desk) -> None:
    assert desk.saga("verify").returncode == 3
    assert not desk.store.exists()
