import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from saga_connectors.testing.postgres import LocalPostgres, PostgresBinaries, available_binaries, embedded_binaries

_OWNER = """
import sys
from saga_connectors.testing.postgres import LocalPostgres
server = LocalPostgres()
print(server.folder, flush=True)
sys.stdin.readline()
"""


def _ask(dsn: str, query: str) -> str:
    """Ask the server as its own client does."""
    return subprocess.run(
        [embedded_binaries().folder / "psql", "-XAt", "-c", query, dsn], capture_output=True, text=True, check=True
    ).stdout.rstrip("\n")


def _processes(server_folder: Path) -> list[psutil.Process]:
    """Return the server and the shell that holds it."""
    server = psutil.Process(int((server_folder / "data" / "postmaster.pid").read_text().split()[0]))
    shell = server.parent()
    assert shell is not None
    return [server, shell]


@pytest.fixture
def owner() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Start a process that owns a server, and return both."""
    with subprocess.Popen(
        [sys.executable, "-c", _OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_the_newest_server_is_the_embedded_one() -> None:
    newest, *_ = available_binaries()
    assert newest == embedded_binaries()
    assert newest.major == 18


def test_the_server_is_of_the_version_asked_for(server: LocalPostgres, binaries: PostgresBinaries) -> None:
    assert _ask(server.dsn, "SELECT split_part(current_setting('server_version'), ' ', 1)") == binaries.version


def test_a_database_of_any_name_can_be_created_and_reached(server: LocalPostgres) -> None:
    name = 'or"ders / 100% ü'
    assert _ask(server.create_database(name), "SELECT current_database()::text") == name


def test_a_wrong_password_is_refused(server: LocalPostgres) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        _ask(server.dsn.replace(server.password, "guess"), "SELECT 1")
    assert "password authentication failed" in refused.value.stderr


def test_the_socket_in_the_folder_reaches_the_same_server(server: LocalPostgres) -> None:
    dsn = f"postgresql://postgres:{server.password}@/postgres?host={server.folder}&port={server.port}"
    assert _ask(dsn, "SELECT pg_postmaster_start_time()::text") == _ask(
        server.dsn, "SELECT pg_postmaster_start_time()::text"
    )


def test_the_server_does_not_run_as_root(server: LocalPostgres) -> None:
    assert 0 not in {process.uids().real for process in _processes(server.folder)}


def test_two_servers_live_side_by_side_and_stopping_one_leaves_the_other(server: LocalPostgres) -> None:
    with LocalPostgres() as other:
        assert (other.port, other.folder) != (server.port, server.folder)
        gone = _processes(other.folder)
    assert not any(process.is_running() for process in gone)
    assert not other.folder.exists()
    assert all(process.is_running() for process in _processes(server.folder))
    other.stop()


def test_stopping_cuts_connections_that_are_open() -> None:
    with LocalPostgres() as server:
        client = subprocess.Popen(
            [server.binaries.folder / "psql", "-XAtq", server.dsn],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write("BEGIN;\nCREATE TABLE t ();\nSELECT 'open';\n")
        client.stdin.flush()
        assert client.stdout.readline() == "open\n"
    client.communicate("SELECT 'still there';\n")
    assert client.returncode != 0
    assert not server.folder.exists()


def test_the_server_is_gone_when_its_owner_was_killed(owner: tuple[subprocess.Popen[str], Path]) -> None:
    process, folder = owner
    held = _processes(folder)
    process.kill()
    _, alive = psutil.wait_procs(held, timeout=60)
    assert not alive
    assert not folder.exists()


def test_the_server_is_gone_when_its_owner_ends_without_stopping_it(
    owner: tuple[subprocess.Popen[str], Path],
) -> None:
    process, folder = owner
    held = _processes(folder)
    process.communicate("\n", timeout=60)
    assert process.returncode == 0
    assert not any(found.is_running() for found in held)
    assert not folder.exists()


def test_the_server_ends_when_the_shell_that_holds_it_was_killed(owner: tuple[subprocess.Popen[str], Path]) -> None:
    _, folder = owner
    server, shell = _processes(folder)
    shell.kill()
    assert psutil.wait_procs([server], timeout=60)[1] == []
    shutil.rmtree(folder)


def test_a_forked_child_leaves_the_server_of_its_parent_alone(server: LocalPostgres) -> None:
    child = os.fork()
    if child == 0:
        server.stop()
        os._exit(0)
    os.waitpid(child, 0)
    assert server.folder.exists()
    assert all(process.is_running() for process in _processes(server.folder))


def test_binaries_in_a_folder_closed_to_others_are_still_started(tmp_path: Path) -> None:
    """A virtual environment below /root is closed to the user that the server runs as."""
    tmp_path.chmod(0o700)
    package = embedded_binaries().folder.parents[1]
    for folder in (package, package.with_name(f"{package.name}.libs")):
        shutil.copytree(folder, tmp_path / folder.name, ignore=shutil.ignore_patterns("include"))
    binaries = PostgresBinaries.in_folder(tmp_path / package.name / "pginstall" / "bin")
    running: set[Path] = set()
    for _ in range(2):
        with LocalPostgres(binaries=binaries) as server:
            running.add(Path(_processes(server.folder)[0].exe()))
            assert _ask(server.dsn, "SELECT 'up'") == "up"
    (started,) = running
    if os.geteuid() == 0:
        assert not started.is_relative_to(tmp_path)
        shutil.rmtree(started.parents[3])


def test_a_temp_folder_closed_to_others_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with LocalPostgres() as server:
        assert _ask(server.dsn, "SELECT 'up'") == "up"


def test_a_server_that_cannot_start_says_why_and_leaves_nothing_behind() -> None:
    with tempfile.TemporaryDirectory() as folder:
        broken = Path(folder)
        broken.chmod(0o755)
        for name, script in {
            "postgres": "echo 'postgres (PostgreSQL) 99.1'",
            "initdb": "echo 'no locale today' >&2; exit 1",
        }.items():
            (broken / name).write_text(f"#!/bin/sh\n{script}\n")
            (broken / name).chmod(0o755)
        before = set(broken.parent.glob("saga-postgres-*"))
        with pytest.raises(OSError, match="no locale today"):
            LocalPostgres(binaries=PostgresBinaries.in_folder(broken))
        assert set(broken.parent.glob("saga-postgres-*")) <= before
