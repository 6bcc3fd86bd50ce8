"""The same action for synchronous callers."""

from typing import Any

import pytest

from saga_connectors.sync import salesforce
from saga_connectors.testing import LocalServer
from saga_core import saga_scope


class Failed(Exception):
    """The program's own failure."""


def status(server: LocalServer, lead: str) -> Any:
    return server.snapshot()["records"][lead]["Status"]


def test_a_synchronous_run_patches_and_puts_back(server: LocalServer, lead: str, credential_ref: str) -> None:
    def run() -> None:
        with saga_scope(store="memory:") as saga:
            salesforce.patch_object(
                saga, object_type="Lead", object_id=lead, patch={"Status": "Won"}, credential_ref=credential_ref
            )
            assert status(server, lead) == "Won"
            raise Failed

    with pytest.raises(Failed) as failed:
        run()
    assert "1 of 1 effects undone" in failed.value.__notes__[0]
    assert status(server, lead) == "Open - Not Contacted"


def test_it_is_the_same_declaration() -> None:
    assert salesforce.patch_object.name == "salesforce.patch_object"
    assert salesforce.patch_object.reversibility == "reversible"
