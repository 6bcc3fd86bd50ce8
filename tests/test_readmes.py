"""The packages' READMEs do what they say: each snippet runs as a program of its own, and the world is looked at."""

import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import stripe

from saga_connectors.credentials import variable
from saga_connectors.testing import LocalServer

ROOT = Path(__file__).parents[1]
BANK = """
from pathlib import Path


def write(line):
    with Path("ledger.txt").open("a") as ledger:
        ledger.write(f"{line}\\n")


def charge(customer_id, amount):
    write(f"charge {customer_id} {amount}")
    return "ch_1"


def refund(charge_id):
    write(f"refund {charge_id}")
"""


def snippet(package: str) -> str:
    """Return the one Python snippet of the package's README."""
    text = (ROOT / "packages" / package / "README.md").read_text(encoding="utf-8")
    (found,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return found


def on_a_loop(code: str) -> str:
    """Return the snippet as a program: what it awaits at its top level stands in a coroutine."""
    imports, body = code.split("\n\n", 1)
    return f"import asyncio\n{imports}\n\n\nasync def main():\n{textwrap.indent(body, '    ')}\n\nasyncio.run(main())\n"


def run(program: str, folder: Path, **environment: str) -> str:
    """Run a program that ends by the RuntimeError of the snippets, and return what follows that error's message."""
    (folder / "program.py").write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=folder,
        env=os.environ | environment | {"HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    _, error, notes = done.stderr.rpartition("RuntimeError: the agent hallucinated a field\n")
    assert error, done.stderr
    return notes


@pytest.fixture
def payments() -> Iterator[LocalServer]:
    with LocalServer.in_process("stripe") as server:
        yield server


@pytest.fixture
def org() -> Iterator[LocalServer]:
    with LocalServer.in_process("salesforce") as server:
        yield server


@pytest.fixture
def customer(payments: LocalServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A customer with a good card."""
    # The package's telemetry writes into the home directory; it has no switch but this one.
    monkeypatch.setattr(stripe, "enable_telemetry", False)
    http_client = stripe.RequestsClient(timeout=5)
    client = stripe.StripeClient("sk_test_readme", base_addresses={"api": payments.url}, http_client=http_client)
    card = "pm_card_visa"
    made = client.v1.customers.create({"payment_method": card, "invoice_settings": {"default_payment_method": card}})
    yield made.id
    http_client.close()


def test_the_snippet_of_saga_core_refunds_what_it_charged(tmp_path: Path) -> None:
    (tmp_path / "bank.py").write_text(BANK, encoding="utf-8")
    assert "1 of 1 effects undone" in run(snippet("saga-core"), tmp_path)
    ledger = (tmp_path / "ledger.txt").read_text(encoding="utf-8")
    assert ledger.splitlines() == ["charge cus_1 4200", "refund ch_1"]


def test_the_snippet_of_saga_connectors_refunds_the_charge_and_reverts_the_lead(
    payments: LocalServer, customer: str, org: LocalServer, tmp_path: Path
) -> None:
    fields = {"LastName": "Okafor", "Company": "Okafor Cranes", "Status": "Open"}
    lead: str = org.act("create", object_type="Lead", fields=fields)["id"]
    credentials = {
        variable("stripe_prod"): json.dumps({"api_key": "sk_test_readme", "base_url": payments.url}),
        variable("sf"): json.dumps({"instance_url": org.url, "access_token": org.act("log_in")["access_token"]}),
    }
    code = snippet("saga-connectors").replace("cus_...", customer).replace("00Q...", lead)
    assert "2 of 2 effects undone" in run(on_a_loop(code), tmp_path, **credentials)
    (refund,) = payments.snapshot()["refunds"].values()
    assert (refund["amount"], refund["customer"], refund["status"]) == (42000, customer, "succeeded")
    changes = [(change["OldValue"], change["NewValue"]) for change in org.snapshot()["history"]]
    assert changes == [("Open", "Won"), ("Won", "Open")]


@pytest.mark.parametrize("package", ["saga-langgraph", "saga-crewai", "saga-openai"])
def test_the_lines_that_the_front_page_shows_for_a_framework_are_those_that_its_package_runs(package: str) -> None:
    shown = re.findall(r"```py\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    text = (ROOT / "packages" / package / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0] in shown
