"""What recorded text may show. The made-up secrets are put together here, so that no scanner takes them for real."""

import json
import random
import secrets
import string

import pytest

from saga_core.cli.masking import mask, mask_url, mask_value, shown

from .desk import Desk

SECRETS = {
    "Stripe key": "sk_" + "live_4eC39HqLyjWDarjtT1zdp7dc",
    "restricted Stripe key": "rk_" + "test_51ABCdef",
    "another vendor's sk_ key": "sk_" + "a1b2c3d4e5f6",
    "webhook secret": "whsec_" + "5WbX5kEWLlfzsGNjH64I8lOOqUB6e8FH",
    "bearer token": "Bearer " + "abc.def-123",
    "basic credentials": "Basic " + "dXNlcjpwYXNzd29yZA==",
    "JSON web token": "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.sig",
    "model vendor's key": "sk-" + "proj-abcdefghij0123456789",
    "GitHub token": "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a",
    "Slack token": "xoxb-" + "2345678901-abcdefgh",
    "AWS key": "AKIA" + "IOSFODNN7EXAMPLE",
    "Salesforce session": "00D" + "xx0000001gPL!AR8AQP0jITN80ESEsj5EbaZTFG0RNBaT1cyWk7",
    "payment secret": "pi_3MtwBw_" + "secret_YrKJUKribcBjcG8HVhfZluoGH",
    "card number": "4242 4242 " + "4242 4242",
    "private key": "-----BEGIN RSA PRIVATE" + " KEY-----\nMIIEow\nIBAAKCAQEA\n-----END RSA PRIVATE KEY-----",
    "long random token": "q8Xv2LmN7rT4kPz9wYc3Jb6HsDf1GaQe",
}

HARMLESS = [
    "01K9ZQ4T8WJX5N3M2P7R6S1V0B",  # a saga's id
    "4a7d1ed414474e4033ac29ccb8653d9b",  # a step's key
    "49f913c6-2301-4acd-af5d-73908754428c",
    "ch_3MmlLrLkdIwHu7ix0snN0B15",
    "cus_NffrFeUfNV2Hib",
    "00Q5e00001AbCdEFGH",
    "/home/ada/projects/Invoices2024/src/handlers_v2/Main3",
    "https://api.example.com/v1/charges?limit=3",
    "postgres://db.internal:5432/sales",
    "ada@example.com",
    "2026-11-30T22:02:36.819Z",
    "1796076156819577928",
    "risk_assessment_of_the_task",
    "the bearer of this letter",
    "SomeVeryLongCamelCaseClassNameWithoutAnyNumbersInIt",
    "4242 4242 4242 4243",  # no card: its check digit is wrong
]


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_a_secret_is_replaced_by_the_name_of_its_kind_wherever_it_stands(secret: str) -> None:
    for text in (secret, f"refused: {secret} (bad)", f'{{"header":"{secret}"}}'):
        masked = mask(text)
        assert "[redacted: " in masked
        assert secret not in masked
        assert secret.rsplit(" ", maxsplit=1)[-1][-8:] not in masked.replace("PRIVATE KEY-----", "")
        assert mask(masked) == masked


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_is_shown_as_it_is(text: str) -> None:
    """The control of the other side: a mask that hides everything would pass every other test."""
    assert mask(text) == text
    assert mask_value({"id": text}) == {"id": text}


def test_only_the_password_in_a_url_is_hidden() -> None:
    hidden = "postgres://app:[redacted: password]@db:5432/x"
    assert mask("postgres://app:hunter2@db:5432/x") == hidden
    assert mask_url("postgres://app:hunter2@db:5432/x") == hidden


def test_random_tokens_are_found_by_their_looks() -> None:
    dice = random.Random(7)
    letters = string.ascii_letters + string.digits + "-_"
    drawn = ["".join(dice.choices(letters, k=43)) for _ in range(1000)]
    assert sum(mask(token) == "[redacted: token]" for token in drawn) >= 990
    assert "[redacted: token]" in mask(f"key={secrets.token_urlsafe(64)}")


def test_a_value_is_hidden_by_the_name_under_which_it_stands() -> None:
    recorded = {
        "password": "short",
        "apiKey": "k",
        "client_secret": {"value": "nested", "also": [1, None]},
        "cvc": 123,
        "headers": {"Authorization": "x"},
    }
    assert mask_value(recorded) == {
        "password": "[redacted: password]",
        "apiKey": "[redacted: api key]",
        "client_secret": {"value": "[redacted: secret]", "also": ["[redacted: secret]", None]},
        "cvc": "[redacted: cvc]",
        "headers": {"Authorization": "[redacted: authorization]"},
    }


def test_names_that_only_sound_secret_hide_nothing() -> None:
    recorded = {"auth_types": ["basic"], "browserSessionId": "a", "max_tokens": 5, "token_count": 2, "keys": 1}
    recorded |= {"credential_ref": "stripe_prod", "primary_key": 7, "passwords_changed": True, "author": "Ada"}
    assert mask_value(recorded) == recorded


def test_a_card_number_is_hidden_as_a_number_too() -> None:
    assert mask_value({"number": 4242424242424242}) == {"number": "[redacted: card number]"}
    assert mask_value({"amount": 42000, "at": 1796076156819577928}) == {"amount": 42000, "at": 1796076156819577928}


def test_shown_text_is_one_harmless_line() -> None:
    assert shown("a\nb\x1b[31m\u202eé○") == r"a\nb\x1b[31m\u202eé○"


def test_no_command_shows_a_secret_that_the_log_holds(desk: Desk) -> None:
    key = SECRETS["Stripe key"]
    desk.python(
        "from saga_core.engine import invocation, landing, terms\n"  # a log of somebody who does not look
        "invocation.find = landing.find = terms.find = lambda *_: None\n"
        f"key = {key!r}\n"
        "with saga_scope('leak ' + key, key='order ' + key, tags={'token': 'hunter22', 'of': key}) as saga:\n"
        "    charge(1, note='use ' + key, password='hunter2', extra={'dsn': 'postgres://app:hunter3@db/x', 'k': key})\n"
        "    saga.rollback('because of ' + key)"
    )
    (log,) = desk.store.glob("done/*/*.log")
    assert key.encode() in log.read_bytes()  # the control: there is something to hide
    shown_by = {
        "ls": desk.saga("ls"),
        "ls --json": desk.saga("ls", "--json"),
        "show": desk.saga("show", log.stem),
        "show --records": desk.saga("show", log.stem, "--records"),
        "show --json": desk.saga("show", log.stem, "--json", "--records"),
    }
    for command, typed in shown_by.items():
        assert typed.returncode == 0, command
        assert "[redacted: Stripe key]" in typed.stdout, command
        assert [leak for leak in (key, key[8:], "hunter") if leak in typed.stdout + typed.stderr] == [], command
    (step,) = json.loads(shown_by["show --json"].stdout)["steps"]
    assert step["args"]["extra"] == {
        "dsn": "postgres://app:[redacted: password]@db/x",
        "k": "[redacted: Stripe key]",
    }


def test_what_a_handler_logs_or_raises_shows_no_secret_when_recover_runs_it(desk: Desk) -> None:
    desk.kill('with saga_scope("killed"): stuck(1)')
    typed = desk.saga("recover", "--import", "shop", "--wait", "0", SHOP_CLOSED="1")
    assert "shop: asked with [redacted: bearer token]" in typed.stderr
    assert "the inverse raised ConnectionError" in typed.stderr
    assert "abcdef123456" not in typed.stderr + typed.stdout
