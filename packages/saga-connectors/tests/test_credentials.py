"""Credential references: where a value comes from, and that it shows nowhere else."""

import json
import pickle
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from saga_connectors.credentials import resolve, set_resolver, variable
from saga_connectors.errors import CredentialMalformed, CredentialMissing, MissingExtra

SECRET = "sk_test_planted0123456789"


@pytest.fixture(autouse=True)
def no_resolver() -> Iterator[None]:
    yield
    set_resolver(None)


def test_a_bare_value_is_an_api_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAGA_CREDENTIAL_STRIPE_PROD", SECRET)
    assert dict(resolve("stripe_prod")) == {"api_key": SECRET}


def test_a_json_object_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"api_key": SECRET, "base_url": "http://127.0.0.1:1"}
    monkeypatch.setenv("SAGA_CREDENTIAL_S", json.dumps(fields))
    assert dict(resolve("s")) == fields


def test_a_value_with_a_scheme_is_a_dsn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAGA_CREDENTIAL_PG", f"postgresql://app:{SECRET}@db/shop")
    assert dict(resolve("pg")) == {"dsn": f"postgresql://app:{SECRET}@db/shop"}


def test_punctuation_in_a_reference_becomes_an_underscore() -> None:
    assert variable("team-a/stripe.prod") == "SAGA_CREDENTIAL_TEAM_A_STRIPE_PROD"


def test_a_missing_credential_names_the_variable_to_set() -> None:
    with pytest.raises(CredentialMissing) as raised:
        resolve("stripe-prod")
    assert "SAGA_CREDENTIAL_STRIPE_PROD" in raised.value.next
    assert raised.value.code == "SG601"
    assert raised.value.world == "nothing was called"


def test_an_empty_variable_is_a_missing_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAGA_CREDENTIAL_S", "  ")
    with pytest.raises(CredentialMissing):
        resolve("s")


def test_a_rotated_credential_is_seen_by_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAGA_CREDENTIAL_S", "old")
    assert resolve("s")["api_key"] == "old"
    monkeypatch.setenv("SAGA_CREDENTIAL_S", "new")
    assert resolve("s")["api_key"] == "new"


def test_a_needed_field_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAGA_CREDENTIAL_S", json.dumps({"base_url": "http://127.0.0.1:1", "api_key": ""}))
    with pytest.raises(CredentialMalformed, match="api_key"):
        resolve("s", needs=("api_key",))


def test_a_resolver_replaces_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAGA_CREDENTIAL_S", "from the environment")
    set_resolver({"s": "from the vault"}.__getitem__)
    assert resolve("s")["api_key"] == "from the vault"


def test_a_resolver_may_return_fields() -> None:
    fields: Mapping[str, Any] = {"instance_url": "https://example.test", "access_token": SECRET}

    def resolver(ref: str) -> Mapping[str, Any]:
        return fields

    set_resolver(resolver)
    assert dict(resolve("sf", needs=("access_token",))) == fields


def test_a_reference_the_resolver_does_not_know_is_a_missing_credential() -> None:
    empty: dict[str, str] = {}
    set_resolver(empty.__getitem__)
    with pytest.raises(CredentialMissing, match="KeyError"):
        resolve("s")


@pytest.mark.parametrize("value", [SECRET, json.dumps({"api_key": SECRET}), f"https://u:{SECRET}@x"])
def test_a_value_shows_in_no_repr(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("SAGA_CREDENTIAL_S", value)
    credential = resolve("s")
    assert SECRET in str(dict(credential)), "the value itself is there"
    assert SECRET not in repr(credential) + str(credential) + f"{credential}"


def test_a_malformed_value_shows_in_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAGA_CREDENTIAL_S", '{"api_key": "' + SECRET)
    with pytest.raises(CredentialMalformed) as raised:
        resolve("s")
    assert SECRET not in "".join(traceback.format_exception(raised.value, chain=True))
    assert raised.value.__context__ is None


def test_a_credential_is_never_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAGA_CREDENTIAL_S", SECRET)
    with pytest.raises(TypeError, match="reference"):
        pickle.dumps(resolve("s"))


def test_a_missing_library_names_the_extra_to_install() -> None:
    error = MissingExtra("saga_connectors.stripe", "stripe", library="stripe")
    assert isinstance(error, ImportError)
    assert 'pip install "saga-connectors[stripe]"' in str(error)
    assert error.name == "stripe"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301
