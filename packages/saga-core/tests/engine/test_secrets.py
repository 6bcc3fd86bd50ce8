"""No secret reaches the log, the control database, an error or a log line; what is harmless is let through."""

from __future__ import annotations

import base64
import json
import logging
import random
import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saga_core import Saga, Store, compensable, current_step, inverse, open_store
from saga_core import approvals as people
from saga_core.errors import ScopeMisuse, SecretRefused
from saga_core.fold import fold
from saga_core.secrets import find, is_doubtful, may_hold, scrub
from saga_core.stores.encryption import Encryption
from saga_core.stores.store import Backend

from .world import World, declare, in_plain_scope, in_scope, unique

# Put together here, so that no scanner takes them for real.
STRONG = {
    "Stripe key": "sk_" + "live_4eC39HqLyjWDarjtT1zdp7dc",
    "webhook secret": "whsec_" + "5WbX5kEWLlfzsGNjH64I8lOOqUB6e8FH",
    "bearer token": "Bearer " + "abc.def-123",
    "JSON web token": "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.sig",
    "API key": "sk-" + "proj-abcdefghij0123456789",
    "GitHub token": "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a",
    "Slack token": "xoxb-" + "2345678901-abcdefgh",
    "AWS key": "AKIA" + "IOSFODNN7EXAMPLE",
    "Salesforce session": "00D" + "xx0000001gPL!AR8AQP0jITN80ESEsj5EbaZTFG0RNBaT1cyWk7",
    "client secret": "pi_3MtwBw_" + "secret_YrKJUKribcBjcG8HVhfZluoGH",
    "private key": "-----BEGIN RSA PRIVATE" + " KEY-----\nMIIEow\nIBAAKCAQEA\n-----END RSA PRIVATE KEY-----",
}
NAMED = {
    "password": "hunter2",
    "db_password": "correct horse",
    "apiKey": "x",
    "private_key": "short",
    "Authorization": "anything",
    "access_token": "a1b2c3d4e5",
    "client_secret": "s3cr3t-value",
    "cvc": "123",
}
HARMLESS: list[Any] = [
    "01K9ZQ4T8WJX5N3M2P7R6S1V0B",
    "4a7d1ed414474e4033ac29ccb8653d9b",
    str(uuid.UUID(int=2**100 + 7)),
    "ch_3MmlLrLkdIwHu7ix0snN0B15",
    "cus_NffrFeUfNV2Hib",
    "pi_3MtwBwLkdIwHu7ix28a3tqPa",
    "00Q5e00001AbCdEFGH",
    "/home/ada/projects/Invoices2024/src/handlers_v2/Main3",
    "DE89 3704 0044 0532 0130 00",
    "4111-2222",
    "the secret of good coffee",
    "please reset my password",
    "bearer of bad news",
    "Basic income",
    "a basic idea",
    "token ring network",
    "sk-ier",
    "sk_ill",
    "risk_live_view",
    "task-based work on disk-drives-and-more",
    "eyJafjallaj\u00f6kull",
    "ghp is no token",
    "xox and kisses",
    "https://example.com/reset?token_count=5",
    "AKIAH is a name",
    "00Dollar",
    base64.b64encode(b"hello world, this is plain text").decode(),
    {"max_tokens": 4096},
    {"token_count": 17},
    {"next_page_token": "CAUQAA12345678"},
    {"client_token": "idem-20261201-0001"},
    {"secretary": "Bob Smith 1"},
    {"is_secret": True},
    {"secret": "chocolate"},
    {"cookie": "oatmeal raisin"},
    {"token": "short"},
    {"password_hint": "my first dog, 1999"},
    {"key": "order-17"},
    {"public_key": "a1b2c3d4e5f6"},
    {"password": ""},
    {"password": None},
    {"tokens": ["a", "b"]},
    {"card_last4": "4242"},
    {"credential_ref": "stripe_prod"},
    {"author": "x"},
    {"authorization_id": "auth_12345678"},
    ["a", 1, 2.5, None, True],
    {"a": {"b": {"c": ["deep", {"d": "value 123"}]}}},
    "x" * 100_000,
    "",
    0,
    -1,
    1.5,
    "0x" + "ab" * 20,
    "SELECT token FROM sessions WHERE id = 5",
    "def get_secret(name): return vault[name]",
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit " * 20,
    "2026-12-01T10:00:00Z",
    "mailto:ada@example.org",
    "PO-2231/2026",
    "customer no. 4242 4242",
]


@pytest.mark.parametrize("kind", STRONG)
def test_a_secret_is_found_whole_inside_a_text_and_anywhere_in_a_value(kind: str) -> None:
    secret = STRONG[kind]
    for value in (secret, f"use {secret} for it", [1, {"a": [secret]}], {f"x {secret}": 1}, secret.encode()):
        found = find(value)
        assert found is not None, value
        assert found.endswith(f": {kind}")
        assert secret not in found
        assert may_hold(msgspec.msgpack.encode(value)) is not None
        assert secret not in json.dumps(scrub(value), default=str)


@pytest.mark.parametrize("name", NAMED)
def test_a_name_that_only_secrets_bear_is_enough(name: str) -> None:
    value = {"order": {name: NAMED[name]}}
    found = find(value)
    assert found is not None
    assert found.startswith(f"order.{name}: ")
    assert is_doubtful(value, msgspec.msgpack.encode(value))
    assert NAMED[name] not in json.dumps(scrub(value))


@pytest.mark.parametrize("value", HARMLESS, ids=lambda value: repr(value)[:30])
def test_what_is_harmless_is_let_through_as_it_is(value: Any) -> None:
    assert find(value) is None
    assert scrub(value) == value


plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**40), 2**40), st.text(max_size=30)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)),
    max_leaves=12,
)


@given(plain, st.sampled_from(sorted(STRONG)), st.text(max_size=10).map(lambda text: text + " "), st.randoms())
def test_wherever_a_secret_is_planted_it_is_found(value: Any, kind: str, before: str, dice: random.Random) -> None:
    """The quick look at the bytes may not pass over what the slow one finds."""
    planted = (
        [value, {"x": [before + STRONG[kind]]}] if dice.random() < 0.5 else {"a": value, "b": before + STRONG[kind]}
    )
    assert find(planted) is not None
    assert may_hold(msgspec.msgpack.encode(planted)) is not None


def test_a_detector_that_lacks_a_shape_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from saga_core import secrets  # noqa: PLC0415

    monkeypatch.setattr(secrets, "_STRONG", secrets._STRONG - {"AWS key"})  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(AssertionError):
        test_a_secret_is_found_whole_inside_a_text_and_anywhere_in_a_value("AWS key")


def traces(store: Store, *secrets: str) -> list[str]:
    """Return the files of a store in which a secret can be read."""
    place = Path(store.url.removeprefix("file:"))
    return [
        str(path.relative_to(place))
        for path in place.rglob("*")
        if path.is_file()
        for data in [path.read_bytes()]
        if any(secret.encode() in data for secret in secrets)
    ]


@pytest.mark.parametrize("secret", [STRONG["Stripe key"], f"use {STRONG['bearer token']} now"], ids=["whole", "part"])
def test_a_call_with_a_secret_among_its_arguments_is_refused_before_anything_happens(
    file_store: Store, world: World, secret: str, caplog: pytest.LogCaptureFixture
) -> None:
    tools = declare(world)
    caplog.set_level(logging.DEBUG)
    errors: list[SecretRefused] = []

    async def body(saga: Saga) -> None:
        for item in (secret, {"deep": [secret]}, {"password": "hunter2"}):
            with pytest.raises(SecretRefused) as caught:
                await tools.charge(item)
            errors.append(caught.value)

    ended = in_scope(file_store, body)
    assert ended.error is None
    assert world.sent == []
    assert traces(file_store, secret, "hunter2") == []
    told = "".join(map(str, errors)) + caplog.text
    assert secret not in told
    assert "hunter2" not in told
    assert "item.password: password" in told


def test_a_hidden_argument_may_be_a_secret(file_store: Store, world: World) -> None:
    tools = declare(world)

    @compensable(unique("login"), hide=("password",), undo=lambda call: tools.refund.bind(call.result))
    async def login(user: str, password: str) -> str:
        return world.charge(user + password[:0], current_step().key)

    async def body(saga: Saga) -> None:
        await login("ada", STRONG["Stripe key"])

    assert in_scope(file_store, body).error is None
    assert world.standing == ["ada"]
    assert traces(file_store, STRONG["Stripe key"]) == []


def test_a_result_is_recorded_without_its_secrets_and_the_caller_gets_it_whole(file_store: Store, world: World) -> None:
    tools, secret = declare(world), STRONG["client secret"]

    @compensable(unique("pay"), undo=lambda call: tools.refund.bind(call.result["id"]))
    async def pay(item: str) -> dict[str, str]:
        return {"id": world.charge(item, current_step().key), "client_secret": secret, "note": f"x {secret}"}

    async def body(saga: Saga) -> None:
        assert (await pay("hotel"))["client_secret"] == secret
        raise ValueError

    ended = in_scope(file_store, body)
    assert ended.saga.report.state == "rolled_back"
    assert world.undone == ["hotel"]
    assert traces(file_store, secret) == []


def test_an_undo_that_needs_a_secret_is_a_case_and_never_a_wrong_undo(file_store: Store, world: World) -> None:
    sent: list[str] = []

    @inverse(unique("revoke"))
    def revoke(api_key: str) -> None:
        sent.append(api_key)

    @compensable(unique("make_key"), undo=lambda call: revoke.bind(call.result["api_key"]))
    async def make_key(item: str) -> dict[str, str]:
        world.charge(item, current_step().key)
        return {"api_key": STRONG["Stripe key"]}

    async def body(saga: Saga) -> None:
        await make_key("hotel")
        raise ValueError

    ended = in_scope(file_store, body)
    assert ended.saga.report.state == "needs_human"
    assert "only an encrypted store may hold" in "".join(ended.saga.report.cases)
    assert sent == []
    assert traces(file_store, STRONG["Stripe key"]) == []


def test_an_encrypted_store_keeps_what_the_undo_needs(tmp_path: Path, world: World) -> None:
    store = open_store(f"file:{tmp_path / 'store'}", encryption=Encryption("k", lambda _: b"k" * 32))
    sent: list[str] = []

    @inverse(unique("revoke"))
    def revoke(api_key: str) -> None:
        sent.append(api_key)

    @compensable(unique("make_key"), undo=lambda call: revoke.bind(call.result["api_key"]))
    async def make_key(item: str) -> dict[str, str]:
        return {"api_key": STRONG["Stripe key"]}

    async def body(saga: Saga) -> None:
        await make_key("hotel")
        raise ValueError

    assert in_scope(store, body).saga.report.state == "rolled_back"
    assert sent == [STRONG["Stripe key"]]
    assert traces(store, STRONG["Stripe key"]) == []
    store.close()


def test_a_capture_with_a_secret_is_refused_before_the_effect(file_store: Store, world: World) -> None:
    tools = declare(world)
    tools.charge.capture(lambda _: {"before": STRONG["AWS key"]})

    async def body(saga: Saga) -> None:
        with pytest.raises(SecretRefused, match="capture"):
            await tools.charge("hotel")

    assert in_scope(file_store, body).error is None
    assert world.sent == []
    assert traces(file_store, STRONG["AWS key"]) == []


def test_a_noted_secret_is_refused(file_store: Store, world: World) -> None:
    tools = declare(world)
    world.before["hotel"].append(lambda: current_step().note_sync(key=STRONG["AWS key"]))

    def body(saga: Saga) -> None:
        with pytest.raises(SecretRefused, match="noted"):
            tools.charge_now("hotel")

    in_plain_scope(file_store, body)
    assert world.sent == []
    assert traces(file_store, STRONG["AWS key"]) == []


@pytest.mark.parametrize("where", ["name", "key", "tags"])
def test_a_scope_is_not_named_by_a_secret(file_store: Store, where: str) -> None:
    from saga_core import saga_scope  # noqa: PLC0415

    secret = STRONG["GitHub token"]
    options: dict[str, Any] = {"key": secret} if where == "key" else {"tags": {"of": secret}} if where == "tags" else {}
    with (
        pytest.raises(ScopeMisuse) as caught,
        saga_scope(secret if where == "name" else "x", store=file_store, **options),
    ):
        pass
    assert secret not in str(caught.value)


def test_words_of_people_and_reasons_are_scrubbed(file_store: Store, world: World) -> None:
    secret = STRONG["Slack token"]

    def body(saga: Saga) -> None:
        saga.rollback(f"because of {secret}")

    ended = in_plain_scope(file_store, body)
    people.grant(file_store, "*", by="ana", reason=f"ticket {secret}")
    assert traces(file_store, secret) == []
    assert isinstance(file_store, Backend)
    reading = file_store.read(ended.saga.id)
    assert reading is not None
    assert "[redacted: Slack token]" in fold(reading.records).reason
