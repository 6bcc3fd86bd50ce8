"""No part of a DSN reaches a log, a record or an error; nor do the values that a server quotes in its messages."""

import logging
import pickle
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from saga_connectors import postgres
from saga_connectors.credentials import set_resolver
from saga_connectors.postgres import errors
from saga_connectors.postgres._transaction import Connection
from saga_connectors.testing.postgres import LocalPostgres
from saga_core import open_store, saga_scope

pytestmark = pytest.mark.anyio
COMMIT = b"COMMIT\0"
PAY: dict[str, Any] = {"table": "orders", "set": {"status": "paid"}, "where": {"id": 1}, "credential_ref": "pg"}


def _assert_clean(text: str, *secrets: str) -> None:
    assert [secret for secret in secrets if secret in text] == []


def _bytes_of(folder: Path) -> str:
    return "".join(path.read_bytes().decode("latin-1") for path in sorted(folder.rglob("*")) if path.is_file())


async def test_no_part_of_the_dsn_is_in_the_store_the_log_or_an_error(
    world: Connection, server: LocalPostgres, dsn: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secrets = (server.password, dsn, dsn.partition("://")[2])
    store = open_store(f"file:{tmp_path / 'saga'}")
    raised: list[BaseException] = []
    with caplog.at_level(logging.DEBUG):
        with suppress(LookupError):
            async with saga_scope(store=store):
                await postgres.update(**PAY)
                wrongs: list[dict[str, Any]] = [
                    {"set": {"amount": "no number"}},
                    {"expect_rows": 7},
                    {"table": "nowhere"},
                ]
                for wrong in wrongs:
                    try:
                        await postgres.update(**{**PAY, **wrong})
                    except errors.PostgresError as error:
                        raised.append(error)
                await world.execute("UPDATE orders SET status = 'by hand' WHERE id = 1")
                raise LookupError
        set_resolver(lambda _: dsn.replace("/test_", "/no_test_"))
        with suppress(errors.DatabaseUnreachable):
            async with saga_scope(store=store):
                try:
                    await postgres.update(**PAY)
                except errors.PostgresError as error:
                    raised.append(error)
                    raise
    store.close()
    assert [type(error).__name__ for error in raised] == [
        "RolledBack",
        "RowCountMismatch",
        "UpdateUnsupported",
        "DatabaseUnreachable",
    ]
    told = "".join("".join(traceback.format_exception(error)) for error in raised)
    assert "postgres.update" in _bytes_of(tmp_path)
    assert "postgres.update" in caplog.text
    for text in (_bytes_of(tmp_path), caplog.text, told):
        _assert_clean(text, *secrets)
    _assert_clean(told, "no number", "no_test_")


async def test_no_part_of_the_dsn_is_left_behind_by_a_killed_process_or_its_recovery(
    world: Connection, server: LocalPostgres, crash: Any
) -> None:
    printed = crash.run_agent([PAY], killed_at=COMMIT, cut="after") + "".join(crash.recover(1))
    assert "postgres.update" in _bytes_of(crash.folder)
    _assert_clean(_bytes_of(crash.folder) + printed, server.password)


@pytest.mark.parametrize("kind", [kind for kind in vars(errors).values() if isinstance(kind, type)])
async def test_every_error_survives_pickling(kind: type[errors.PostgresError]) -> None:
    error = kind("what happened", world="nothing was changed", next="try again")
    if isinstance(error, errors.RolledBack):
        error.sqlstate = "55P03"
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(copy) is kind
    assert (str(copy), vars(copy)) == (str(error), vars(error))
