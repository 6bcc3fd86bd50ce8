import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlsplit

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import pytest

from saga_connectors import postgres
from saga_connectors.credentials import set_resolver, variable
from saga_connectors.postgres._transaction import Connection
from saga_connectors.testing.postgres import LocalPostgres, PostgresBinaries, available_binaries
from saga_core import Saga, saga_scope

_databases = count(1)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", params=available_binaries(), ids=lambda binaries: f"pg{binaries.major}")
def binaries(request: pytest.FixtureRequest) -> PostgresBinaries:
    return request.param


@pytest.fixture(scope="session")
def server(binaries: PostgresBinaries) -> Iterator[LocalPostgres]:
    with LocalPostgres(binaries=binaries, auth="scram-sha-256") as server:
        yield server


@pytest.fixture
def dsn(server: LocalPostgres) -> str:
    """Return the DSN of an empty database."""
    return server.create_database(f"test_{next(_databases)}")


@pytest.fixture
async def connect(dsn: str) -> AsyncIterator[Callable[[], Awaitable[Connection]]]:
    """Return a function that opens a connection as somebody else would, without any setting of ours."""
    opened: list[Connection] = []

    async def open_one() -> Connection:
        opened.append(cast("Connection", await asyncpg.connect(dsn)))  # pyright: ignore[reportUnknownMemberType]
        return opened[-1]

    yield open_one
    for connection in opened:
        connection.terminate()


@pytest.fixture
async def world(connect: Callable[[], Awaitable[Connection]]) -> Connection:
    """Return somebody else's connection to a database that has the effects table and three orders."""
    connection = await connect()
    await connection.execute(postgres.install_sql())
    await connection.execute(
        """
        CREATE TABLE orders (id int PRIMARY KEY, status text, amount numeric(10, 2), note text DEFAULT '');
        INSERT INTO orders VALUES (1, 'new', 10, 'a'), (2, 'new', 20.50, 'b'), (3, NULL, 30, 'c');
        """
    )
    return connection


@pytest.fixture
def rows(world: Connection) -> Callable[[str], Awaitable[list[str]]]:
    """Return a function that reads a whole table, each row as PostgreSQL writes it."""

    async def read(table: str) -> list[str]:
        return [row[0] for row in await world.fetch(f"SELECT t::text FROM {table} AS t ORDER BY 1")]

    return read


class AgentFailedError(Exception):
    """What an agent's run ends with when it has to be unwound."""


@pytest.fixture
def unwound() -> Callable[[], AbstractAsyncContextManager[Saga]]:
    """Return a function that opens a saga whose agent fails at the end of the block."""

    @asynccontextmanager
    async def failing() -> AsyncGenerator[Saga]:
        try:
            async with saga_scope(store="memory:") as saga:
                yield saga
                raise AgentFailedError
        except AgentFailedError:
            return

    return failing


@pytest.fixture(autouse=True)
def credential(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let every reference lead to the test's own database."""
    if "dsn" in request.fixturenames:
        dsn: str = request.getfixturevalue("dsn")
        set_resolver(lambda _: dsn)
    yield
    set_resolver(None)


When = Literal["before", "after", "never"]


class Wire:
    """A TCP line to the server on which something can be made to happen at the very moment when a word is said.

    Attributes:
        dsn: Leads to the database over this line.
    """

    def __init__(self, dsn: str) -> None:
        address = urlsplit(dsn)
        self._server = (address.hostname or "", address.port or 0)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.dsn = dsn.replace(f":{address.port}/", f":{self._listener.getsockname()[1]}/")
        self._armed: tuple[bytes, When, Callable[[], object]] | None = None
        self._left = 0
        self._heard: dict[socket.socket, threading.Event] = {}
        threading.Thread(target=self._accept, daemon=True).start()

    def on(self, word: bytes, *, cut: When, nth: int = 1, do: Callable[[], object] = lambda: None) -> None:
        """Wait for the client to say `word` for the nth time, call `do`, and cut the line.

        With `cut="before"` the server never hears the word. With `"after"` it has heard and answered it when `do` is
        called, and the client never hears the answer. With `"never"` the word is passed on after `do`.
        """
        self._armed = word, cut, do
        self._left = nth

    def close(self) -> None:
        """Take no further connection."""
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                for work, ends in ((self._speak, (client, server)), (self._answer, (server, client))):
                    threading.Thread(target=work, args=ends, daemon=True).start()

    def _speak(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError), client, server:
            while said := client.recv(1 << 20):
                cut = self._act(client, server, said)
                if cut == "never":
                    server.sendall(said)
                else:
                    break
            for end in (server, client):
                end.shutdown(socket.SHUT_RDWR)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while answer := server.recv(1 << 20):
                if client in self._heard:
                    self._heard[client].set()
                else:
                    client.sendall(answer)
            client.shutdown(socket.SHUT_RDWR)

    def _act(self, client: socket.socket, server: socket.socket, said: bytes) -> When:
        if self._armed is None or self._armed[0] not in said:
            return "never"
        self._left -= 1
        if self._left:
            return "never"
        (_, cut, do), self._armed = self._armed, None
        if cut == "after":
            heard = self._heard[client] = threading.Event()
            server.sendall(said)
            assert heard.wait(30)
        do()
        return cut


@pytest.fixture
def wire(dsn: str) -> Iterator[Wire]:
    """Return a line to the test's database; nothing uses it until a test points a credential at `wire.dsn`."""
    wire = Wire(dsn)
    yield wire
    wire.close()


_AGENT = """
import asyncio, json, sys
from datetime import UTC, datetime, timedelta
from saga_connectors import postgres
from saga_core import saga_scope

# In earnest it takes longer until a proof counts that nothing landed; see LANDS_WITHIN.
postgres.update._declaration.lands_within = timedelta(milliseconds=300)

async def main(store, calls):
    async with saga_scope("agent", store=store):
        for call in calls:
            await postgres.update(**call)
        raise RuntimeError("the agent failed")

asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
"""


class Crash:
    """An agent in a process of its own, over a line that kills it at a chosen moment."""

    def __init__(self, folder: Path, wire: Wire, dsn: str) -> None:
        self.folder = folder / "saga"
        self._store = f"file:{self.folder}"
        self._wire = wire
        self._dsn = dsn
        self._running: list[subprocess.Popen[str]] = []

    def run_agent(self, calls: Sequence[Mapping[str, Any]], *, killed_at: bytes, cut: When, nth: int = 1) -> str:
        """Run an agent that makes these calls and then fails, until it is killed; return what it printed."""
        agent = self._start(["-c", _AGENT, self._store, json.dumps(calls)], self._wire.dsn)
        self._wire.on(killed_at, cut=cut, nth=nth, do=agent.kill)
        printed = "".join(agent.communicate(timeout=60))
        assert agent.returncode == -9, printed
        return printed

    def recover(self, times: int) -> list[str]:
        """Run so many recoveries at once, each in a process of its own, and return what they printed."""
        options = ["--store", self._store, "--import", "saga_connectors.postgres", "--wait", "20"]
        running = [self._start(["-m", "saga_core", "recover", *options], self._dsn) for _ in range(times)]
        printed = ["".join(one.communicate(timeout=60)) for one in running]
        assert [one.returncode for one in running] == [0] * times, printed
        return printed

    def _start(self, arguments: list[str], dsn: str) -> subprocess.Popen[str]:
        environment = {**os.environ, variable("pg"): dsn}
        self._running.append(
            subprocess.Popen(
                [sys.executable, *arguments],
                env=environment,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )
        return self._running[-1]

    def close(self) -> None:
        """End what still runs."""
        for one in self._running:
            one.kill()
            one.communicate()


@pytest.fixture
def crash(tmp_path: Path, wire: Wire, dsn: str) -> Iterator[Crash]:
    crash = Crash(tmp_path, wire, dsn)
    yield crash
    crash.close()
