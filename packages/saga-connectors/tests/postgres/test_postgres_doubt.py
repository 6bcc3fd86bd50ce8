"""The answer to a commit is lost, or the process is killed around it: the server tells what became of it."""

import subprocess
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from saga_connectors import postgres
from saga_connectors.credentials import set_resolver
from saga_connectors.postgres import _update, errors
from saga_connectors.postgres._effect import record
from saga_connectors.postgres._transaction import LANDS_WITHIN, Connection, Transaction, is_proof
from saga_connectors.postgres._update import landed
from saga_core import Attempt, Landed, NotLanded, Saga, Unknown, saga_scope

pytestmark = pytest.mark.anyio
Rows = Callable[[str], Awaitable[list[str]]]
Unwound = Callable[[], AbstractAsyncContextManager[Saga]]

ORDERS = ["(1,new,10.00,a)", "(2,new,20.50,b)", "(3,,30.00,c)"]
PAID = ["(1,paid,10.00,a)", *ORDERS[1:]]
COMMIT = b"COMMIT\0"
PAY: dict[str, Any] = {"table": "orders", "set": {"status": "paid"}, "where": {"id": 1}, "credential_ref": "pg"}


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a proof that nothing landed count at once; in earnest it has to wait for `LANDS_WITHIN`."""
    declaration: Any = postgres.update._declaration  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    assert declaration.lands_within == LANDS_WITHIN
    monkeypatch.setattr(declaration, "lands_within", timedelta())


async def _pay() -> Any:
    return await postgres.update(**PAY)


async def test_a_lost_answer_to_a_commit_that_landed_is_as_if_nothing_had_happened(
    world: Connection, wire: Any, unwound: Unwound, rows: Rows
) -> None:
    set_resolver(lambda _: wire.dsn)
    wire.on(COMMIT, cut="after")
    async with unwound() as saga:
        assert await _pay() == [{"id": "1", "status": "paid"}]
        assert await rows("orders") == PAID
    assert [step.state for step in saga.report.steps] == ["undone"]
    assert await rows("orders") == ORDERS


async def test_a_commit_that_never_reached_the_server_is_in_doubt_and_then_proven_not_landed(
    world: Connection, wire: Any, rows: Rows, soon: None
) -> None:
    set_resolver(lambda _: wire.dsn)
    wire.on(COMMIT, cut="before")
    async with saga_scope(store="memory:") as saga:
        with pytest.raises(errors.CommitInDoubt) as doubt:
            await _pay()
    assert not is_proof(doubt.value)
    assert [step.state for step in saga.report.steps] == ["not_landed"]
    assert saga.report.is_clean
    assert await rows("orders") == ORDERS


async def test_a_backend_terminated_before_the_commit_is_proven_not_landed(
    world: Connection, dsn: str, wire: Any, binaries: Any, rows: Rows, soon: None
) -> None:
    def terminate() -> None:
        query = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'saga'"
        subprocess.run([binaries.folder / "psql", "-XAt", "-c", query, dsn], check=True, capture_output=True)

    set_resolver(lambda _: wire.dsn)
    wire.on(COMMIT, cut="never", do=terminate)
    async with saga_scope(store="memory:") as saga:
        with pytest.raises(errors.CommitInDoubt):
            await _pay()
    assert [step.state for step in saga.report.steps] == ["not_landed"]
    assert await rows("orders") == ORDERS


async def test_an_undo_whose_answer_was_lost_is_found_done_and_not_done_twice(
    world: Connection, wire: Any, unwound: Unwound, rows: Rows
) -> None:
    await world.execute(
        """
        CREATE TABLE history (status text);
        CREATE FUNCTION remember() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN INSERT INTO history VALUES (NEW.status); RETURN NULL; END';
        CREATE TRIGGER remember AFTER UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION remember();
        """
    )
    set_resolver(lambda _: wire.dsn)
    async with unwound() as saga:
        await _pay()
        wire.on(COMMIT, cut="after")
    assert [step.state for step in saga.report.steps] == ["undone"]
    assert await rows("orders") == ORDERS
    assert sorted(await rows("history")) == ["(new)", "(paid)"]


async def _asked(key: str, xid: str | None) -> Landed[Any] | NotLanded | Unknown:
    async with Transaction("pg") as transaction:
        return await landed(transaction, key, xid, schema="saga")


async def test_the_server_tells_each_fate_of_a_transaction_apart(world: Connection, connect: Any) -> None:
    other: Connection = await connect()
    effect = "INSERT INTO saga.effects (key, relation, before, after) VALUES ('k', 't', '[]', '[]') RETURNING xid::text"
    assert isinstance(await _asked("k", None), NotLanded)

    await other.execute("BEGIN")
    ((xid,),) = await other.fetch(effect)
    running = await _asked("k", xid)
    assert isinstance(running, Unknown)
    assert "in progress" in running.reason
    await other.execute("ROLLBACK")
    assert isinstance(await _asked("k", xid), NotLanded)

    ((xid,),) = await other.fetch(effect)
    assert isinstance(await _asked("k", xid), Landed)
    assert isinstance(await _asked("k", None), Landed)
    await other.execute("DELETE FROM saga.effects")
    deleted = await _asked("k", xid)
    assert isinstance(deleted, Unknown)
    assert "deleted" in deleted.reason

    with pytest.raises(errors.RolledBack):
        await _asked("k", str(int(xid) + 1_000_000))


async def test_a_database_that_cannot_be_asked_tells_nothing(world: Connection) -> None:
    probe: Any = _update._probe  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    captured = {"effects_schema": "saga"}
    attempt = Attempt("postgres.update", 1, {"credential_ref": "pg"}, "k", datetime.now(UTC), captured, {})
    assert isinstance(await probe(attempt), NotLanded)
    await world.execute("DROP TABLE saga.effects")
    assert isinstance(await probe(attempt), Unknown)
    set_resolver(lambda _: "postgresql://postgres@127.0.0.1:1/nowhere")
    assert isinstance(await probe(attempt), Unknown)


@pytest.mark.parametrize(
    ("killed_at", "cut", "nth", "left"),
    [
        pytest.param(b"INSERT INTO", "before", 1, ORDERS, id="before-the-note"),
        pytest.param(COMMIT, "before", 1, ORDERS, id="before-the-commit"),
        pytest.param(COMMIT, "after", 1, PAID, id="before-the-outcome"),
        pytest.param(COMMIT, "before", 2, PAID, id="before-the-commit-of-the-undo"),
        pytest.param(COMMIT, "after", 2, ORDERS, id="before-the-outcome-of-the-undo"),
    ],
)
async def test_after_a_kill_two_recoveries_at_once_leave_the_world_as_it_was(
    world: Connection, crash: Any, rows: Rows, killed_at: bytes, cut: str, nth: int, left: list[str]
) -> None:
    await world.execute(
        """
        CREATE TABLE history (status text);
        CREATE FUNCTION remember() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN INSERT INTO history VALUES (NEW.status); RETURN NULL; END';
        CREATE TRIGGER remember AFTER UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION remember();
        """
    )
    crash.run_agent([PAY], killed_at=killed_at, cut=cut, nth=nth)
    assert await rows("orders") == left
    crash.recover(2)
    assert await rows("orders") == ORDERS
    # Each landed change was undone once, and nothing else was ever written.
    assert sorted(await rows("history")) in ([], ["(new)", "(paid)"])
    assert (await rows("history") == []) == (await rows("saga.effects") == [])
    await world.execute("UPDATE orders SET status = 'paid' WHERE id = 1")
    crash.recover(1)
    assert await rows("orders") == PAID


async def test_one_key_is_recorded_once(world: Connection) -> None:
    """A second run under the same key must not pass for one that has not landed."""
    async with Transaction("pg") as transaction:
        assert await record(transaction, "k", "orders", [], []) is not None
        await transaction.commit()
    async with Transaction("pg") as transaction:
        assert await record(transaction, "k", "orders", [], []) is None
    with pytest.raises(errors.CommitInDoubt) as doubt:
        async with Transaction("pg"):
            raise errors.CommitInDoubt("landed before")
    assert not is_proof(doubt.value)
