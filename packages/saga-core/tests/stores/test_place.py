"""The directory of a store, and the URLs that lead to it."""

from __future__ import annotations

import logging
import stat
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from saga_core.errors import StoreError
from saga_core.stores import open_store
from saga_core.stores.place import file_system

if TYPE_CHECKING:
    from collections.abc import Callable

    from saga_core.stores.file import FileStore
    from saga_core.stores.log import FileLog

MOUNTS = r"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
31 27 0:40 / /home rw,relatime shared:5 - nfs4 server:/home rw
32 27 0:41 / /home/ann/local\040disk rw,relatime - xfs /dev/sdb rw
33 27 0:42 / /over rw,relatime - ext4 /dev/sdc rw
34 33 0:43 / /over rw,relatime - tmpfs tmpfs rw
"""


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_everything_in_a_store_is_for_its_user_alone(
    store: FileStore, begin: Callable[[FileStore], FileLog], place: Path
) -> None:
    log = begin(store)
    assert store.take_key("key", log.saga, 1)
    log.settle()
    begin(store)
    for path in place.rglob("*"):
        assert mode_of(path) == (0o700 if path.is_dir() else 0o600), path
    assert mode_of(place) == 0o700


def test_a_store_keeps_itself_out_of_git(store: FileStore, place: Path) -> None:
    assert store.url == f"file:{place}"
    project = place.parent
    subprocess.run(["git", "init", "-q", project], check=True)
    status = ["git", "-C", project, "status", "--porcelain", "--untracked-files=all"]
    assert subprocess.run(status, check=True, capture_output=True, text=True).stdout == ""


def test_one_directory_is_one_store_however_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "deep")
    (tmp_path / "deep").mkdir()
    store = open_store("file:deep/.saga")
    for url in (
        "deep/.saga",
        f"file:{tmp_path}/deep/.saga",
        f"file://{tmp_path}/deep/.saga",
        "link/../deep/.saga",
        "link/.saga",
    ):
        assert open_store(url) is store
    assert open_store("file:other") is not store
    store.close()
    assert open_store("memory:") is not open_store("memory:")


def test_a_directory_that_was_deleted_and_made_again_is_a_new_store(tmp_path: Path) -> None:
    url = f"file:{tmp_path}/.saga"
    first = open_store(url)
    (tmp_path / ".saga").rename(tmp_path / "aside")
    assert open_store(url) is not first


@pytest.mark.parametrize("url", ["", "file:", "redis://localhost", "http://x/y", "file:a\0b"])
def test_an_url_that_names_no_store_is_refused(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match="file:PATH"):
        open_store(url)
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_there_yet_is_refused_by_name() -> None:
    with pytest.raises(StoreError, match="PostgreSQL store does not exist yet"):
        open_store("postgresql://localhost/saga")


def test_a_directory_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    """A store's .gitignore would hide the user's whole project."""
    (tmp_path / "main.py").write_text("x")
    with pytest.raises(StoreError, match="not empty"):
        open_store(f"file:{tmp_path}")
    assert [path.name for path in tmp_path.iterdir()] == ["main.py"]


def test_a_path_through_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in ("file", "file/.saga"):
        with pytest.raises(StoreError, match="no store can be used"):
            open_store(f"file:{tmp_path / path}")


def test_a_damaged_identity_is_refused(place: Path, store: FileStore) -> None:
    store.close()
    (place / "store").write_text("0123\n")
    (place / "aside").mkdir()
    with pytest.raises(StoreError, match="damaged"):
        open_store(str(place))


UNPRIVILEGED = """
import os, resource, sys, tempfile
import saga_core.stores.file
from saga_core.errors import StoreError
from saga_core.stores import open_store
if os.getuid() == 0:
    os.setuid(65534)
for path in sys.argv[1:]:
    try:
        open_store(path)
    except StoreError as error:
        print(error.args[0].rpartition(": ")[2], "|", error.world, "|", "SAGA_STORE" in error.next, flush=True)
"""


def test_a_read_only_place_is_refused_before_anything_is_opened(spawn: Callable[..., subprocess.Popen[str]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        made = root / "made"
        open_store(str(made)).close()
        root.chmod(0o555)
        for entry in [made, *made.iterdir()]:
            entry.chmod(0o555 if entry.is_dir() else 0o444)
        child = spawn(UNPRIVILEGED, made, root / "new" / ".saga")
        assert child.stdout is not None
        answers = child.stdout.read().splitlines()
        for entry in [root, made, *made.iterdir()]:
            entry.chmod(0o700)
        assert answers == [
            "this process may not write there | nothing was opened | True",
            "Permission denied | nothing was opened | True",
        ]
        assert not (root / "new").exists()


def test_a_path_lies_on_the_mount_nearest_to_it() -> None:
    expected = {
        "/": "ext4",
        "/srv/saga": "ext4",
        "/homer": "ext4",
        "/home": "nfs4",
        "/home/ann/project/.saga": "nfs4",
        "/home/ann/local disk/.saga": "xfs",
        "/over/x": "tmpfs",
        "/proc/self": "proc",
    }
    assert {path: file_system(path, MOUNTS) for path in expected} == expected
    assert file_system("/x", "22 27 0:21 / /proc rw,relatime - proc proc rw") is None


def test_a_file_system_that_is_not_known_to_keep_locks_is_refused() -> None:
    with pytest.raises(StoreError, match="type proc") as caught:
        open_store("file:/proc/self/.saga")
    assert "PostgreSQL" in caught.value.next


def test_a_place_that_may_vanish_is_warned_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "saga_core.store"):
        for _ in range(3):
            open_store(f"file:{tmp_path}/.saga")
    assert len(caplog.records) == 1


OPEN = """
import sys
from saga_core.stores.file import open_file_store
import tempfile, resource
print("ready", flush=True)
for line in sys.stdin:
    print(open_file_store(line.strip()).identity, flush=True)
"""


def test_processes_that_make_one_store_at_once_agree_on_its_id(
    spawn: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    children = [spawn(OPEN) for _ in range(3)]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for number in range(15):
        path = tmp_path / str(number) / ".saga"
        for child in children:
            assert child.stdin is not None
            child.stdin.write(f"{path}\n")
            child.stdin.flush()
        said: set[str] = set()
        for child in children:
            assert child.stdout is not None
            said.add(child.stdout.readline().strip())
        assert said == {(path / "store").read_text().strip()}
        places = ["cases", "done", "journals", "open", "suspended"]
        assert sorted(entry.name for entry in path.iterdir()) == sorted([".gitignore", *places, "store"])
