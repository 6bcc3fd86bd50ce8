"""A process is killed in mid-write or in mid-revert, and another one ends what it began."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from saga_connectors.credentials import variable
from saga_connectors.testing import LocalServer

AGENT = """
import asyncio, sys
from saga_connectors import salesforce
from saga_core import saga_scope

async def main(store, lead, ref):
    async with saga_scope("agent", store=store) as saga:
        await salesforce.patch_object(
            saga, object_type="Lead", object_id=lead, patch={"Status": "Won"}, credential_ref=ref
        )
        raise RuntimeError("the agent failed")

asyncio.run(main(*sys.argv[1:]))
"""
RECOVER = [sys.executable, "-m", "saga_core", "recover", "--import", "saga_connectors.salesforce", "--wait", "20"]
WRITES = "PATCH /services/data/*/sobjects/Lead/*"


@pytest.fixture
def outliving_server() -> Iterator[LocalServer]:
    with LocalServer.in_process("salesforce") as running:
        yield running


def status(server: LocalServer, lead: str) -> Any:
    return server.snapshot()["records"][lead]["Status"]


def wait_for(server: LocalServer, lead: str, expected: str) -> None:
    deadline = time.monotonic() + 30
    while status(server, lead) != expected:
        assert time.monotonic() < deadline, f"the record never became {expected!r}"
        time.sleep(0.02)


@pytest.mark.parametrize(("cut", "holds"), [(1, "Won"), (2, "Open - Not Contacted")], ids=["write", "revert"])
def test_another_process_puts_the_record_back_exactly_once(
    outliving_server: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int, holds: str
) -> None:
    server = outliving_server
    lead = server.act("create", object_type="Lead", fields={"LastName": "Lem", "Company": "Cyberiad"})["id"]
    secrets = server.act("credential")
    app = {"client_id": secrets["client_id"], "client_secret": secrets["client_secret"]}
    monkeypatch.setenv(variable("sf"), json.dumps({"instance_url": server.url, **app}))
    server.arm("hang", on=WRITES, when="after", nth=cut)
    agent = subprocess.Popen([sys.executable, "-c", AGENT, f"file:{tmp_path / 'saga'}", lead, "sf"])
    if cut == 2:
        wait_for(server, lead, "Won")
    wait_for(server, lead, holds)
    os.kill(agent.pid, signal.SIGKILL)
    assert agent.wait() == -signal.SIGKILL
    server.release()

    for _ in range(2):
        recovery = subprocess.run(
            [*RECOVER, "--store", f"file:{tmp_path / 'saga'}"], capture_output=True, text=True, check=False
        )
        assert recovery.returncode == 0, recovery.stdout + recovery.stderr
        assert secrets["client_secret"] not in recovery.stdout + recovery.stderr
    assert status(server, lead) == "Open - Not Contacted"
    history = [(each["OldValue"], each["NewValue"]) for each in server.snapshot()["history"]]
    assert history == [("Open - Not Contacted", "Won"), ("Won", "Open - Not Contacted")]
