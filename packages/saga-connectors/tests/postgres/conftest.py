from collections.abc import Iterator
from itertools import count

import pytest

from saga_connectors.testing.postgres import LocalPostgres, PostgresBinaries, available_binaries

_databases = count(1)


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
