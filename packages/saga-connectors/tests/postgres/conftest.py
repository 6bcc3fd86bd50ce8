import socket
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from itertools import count
from typing import Literal, cast
from urllib.parse import urlsplit

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import pytest

from saga_connectors import postgres
from saga_connectors.credentials import set_resolver
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


class Wire:
    """A TCP line to the server that can be cut at the very moment when something is said on it.

    Attributes:
        dsn: Leads to the database over this line.
        cut: Set when the armed cut has happened.
    """

    def __init__(self, dsn: str) -> None:
        address = urlsplit(dsn)
        self._server = (address.hostname or "", address.port or 0)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.dsn = dsn.replace(f":{address.port}/", f":{self._listener.getsockname()[1]}/")
        self.cut = threading.Event()
        self._armed: tuple[bytes, Literal["before", "after"], Callable[[], object]] | None = None
        self._left = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_at(
        self,
        said: bytes,
        *,
        when: Literal["before", "after"],
        nth: int = 1,
        and_then: Callable[[], object] = lambda: None,
    ) -> None:
        """Cut the line when the client says something for the nth time: before the server hears it, or after it acted.

        Either way the client hears no answer.
        """
        self._armed = said, when, and_then
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
                if self._is_hit(said):
                    self._cut(client, server, said)
                    return
                server.sendall(said)
            server.shutdown(socket.SHUT_RDWR)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while answer := server.recv(1 << 20):
                if self.cut.is_set() and self._held is client:
                    self._heard.set()
                else:
                    client.sendall(answer)
            client.shutdown(socket.SHUT_RDWR)

    _held: socket.socket | None = None
    _heard: threading.Event

    def _is_hit(self, said: bytes) -> bool:
        if self._armed is None or self._armed[0] not in said:
            return False
        self._left -= 1
        return self._left == 0

    def _cut(self, client: socket.socket, server: socket.socket, said: bytes) -> None:
        assert self._armed is not None
        _, when, and_then = self._armed
        self._heard, self._held, self._armed = threading.Event(), client, None
        self.cut.set()
        if when == "after":
            server.sendall(said)
            assert self._heard.wait(10)
        and_then()
        for end in (client, server):
            end.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def wire(dsn: str) -> Iterator[Wire]:
    """Return a line to the test's database; nothing uses it until a test points a credential at `wire.dsn`."""
    wire = Wire(dsn)
    yield wire
    wire.close()
