"""What must not be seen: one function through which every recorded text passes before a person or a program gets it.

A marker names the kind of what it hides, never the match. Recorded text is also made harmless to a terminal.
"""

from __future__ import annotations

import re
from typing import Any

_CARD = re.compile(r"(?<![\w.-])(?:\d[ -]?){14,15}\d(?![\w-])")
_CARD_STARTS = re.compile(r"3[47]|4|5[1-5]|2[2-7]|6011|65")
_LONG = re.compile(r"[A-Za-z0-9+/_-]{32,}={0,2}")
_PASSWORD_IN_URL = re.compile(r"(://[^\s/:@]*:)[^\s/@]+@")
_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("private key", re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END[A-Z ]*-----|\Z)", re.DOTALL)),
    ("bearer token", re.compile(r"\bbearer\s+[\w.~+/=-]{6,}", re.IGNORECASE)),
    ("basic credentials", re.compile(r"\bbasic\s+[A-Za-z0-9+/]{12,}={0,2}", re.IGNORECASE)),
    ("webhook secret", re.compile(r"\bwhsec_[\w+/=-]+")),
    ("Stripe key", re.compile(r"\b[sr]k_(?:(?:live|test)_\w+|(?=\w*\d)\w{8,})")),
    ("client secret", re.compile(r"\b(?:pi|seti)_[A-Za-z0-9]+_secret_\w+")),
    ("API key", re.compile(r"\bsk-[\w-]{16,}")),
    ("GitHub token", re.compile(r"\b(?:gh[oprsu]_|github_pat_)\w{20,}")),
    ("Slack token", re.compile(r"\bxox[a-z]-[\w-]{8,}")),
    ("AWS key", re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")),
    ("JSON web token", re.compile(r"\beyJ[\w-]{6,}\.[\w-]+\.[\w-]*")),
    ("Salesforce session", re.compile(r"\b00D[A-Za-z0-9]{12,15}![\w.]{8,}")),
)
_SHORTEST = 20
_LETTERS = 3
_NUMBERS = 2
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_SECRET_WORDS = frozenset(
    {"password", "passwd", "passphrase", "secret", "token", "authorization", "cookie", "cvc", "cvv", "apikey"}
)
_SECRET_PAIRS = frozenset(
    {("api", "key"), ("private", "key"), ("secret", "key"), ("access", "key"), ("signing", "key")}
)


def mask(text: str) -> str:
    """Return the text with every part that looks like a secret replaced by the name of its kind."""
    text = mask_url(text)
    for kind, shape in _SHAPES:
        text = shape.sub(_marker(kind), text)
    text = _CARD.sub(lambda found: _marker("card number") if _is_card(found[0]) else found[0], text)
    return _LONG.sub(lambda found: _marker("token") if _is_random(found[0]) else found[0], text)


def mask_url(url: str) -> str:
    """Return a URL without its password."""
    return _PASSWORD_IN_URL.sub(lambda found: f"{found[1]}{_marker('password')}@", url)


def mask_value(value: Any, name: str = "") -> Any:
    """Return a JSON value with its secrets replaced: by the name under which a value stands, and by its shape."""
    if isinstance(value, dict):
        is_secret = _kind_by_name(name) is not None
        return {mask(str(key)): mask_value(item, name if is_secret else str(key)) for key, item in value.items()}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if isinstance(value, (list, tuple)):
        return [mask_value(item, name) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, (bytes, bytearray)):
        return f"[{len(value)} bytes]"
    if value is None or isinstance(value, bool):
        return value
    kind = _kind_by_name(name)
    if kind is not None and value != "":
        return _marker(kind)
    if isinstance(value, int) and mask(str(value)) != str(value):
        return mask(str(value))
    return value if isinstance(value, (int, float)) else mask(str(value))


def shown(text: str) -> str:
    """Return recorded text as one line, masked and harmless."""
    return harmless(mask(text))


def harmless(text: str) -> str:
    """Return the text with what a terminal would obey, or would not show, spelled out."""
    return "".join(letter if letter.isprintable() else _escaped(letter) for letter in text)


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")


def _marker(kind: str) -> str:
    return f"[redacted: {kind}]"


def _kind_by_name(name: str) -> str | None:
    words = [word.lower() for word in _WORDS.findall(name)]
    if words and words[-1] in _SECRET_WORDS:
        return words[-1]
    return " ".join(words[-2:]) if tuple(words[-2:]) in _SECRET_PAIRS else None


def _is_card(text: str) -> bool:
    digits = [int(letter) for letter in text if letter.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    plain = digits[-1::-2]
    return (sum(doubled) + sum(plain)) % 10 == 0 and _CARD_STARTS.match("".join(map(str, digits))) is not None


def _is_random(text: str) -> bool:
    """Tell whether a run looks drawn rather than written: letters of both cases with digits strewn among them."""
    return any(
        len(part) >= _SHORTEST
        and sum(letter.isupper() for letter in part) >= _LETTERS
        and sum(letter.islower() for letter in part) >= _LETTERS
        and len(re.findall(r"\d+", part)) >= _NUMBERS
        for part in text.split("/")
    )
