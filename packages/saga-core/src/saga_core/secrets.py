"""What must not be kept, nor seen: secrets, found by the shape of a value and by the name under which it stands.

There are two levels. What is refused before an effect, or scrubbed from a result, needs strong evidence, because a
refusal of a harmless call costs the call: shapes that only keys and tokens have, and names that only they bear. What is
masked before a person sees it may be broader, because that costs a glance. A marker names the kind, never the match.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from msgspec import Raw

_CARD = r"(?<![\w.-])(?:\d[ -]?){14,15}\d(?![\w-])"
_CARD_STARTS = r"3[47]|4|5[1-5]|2[2-7]|6011|65"
_LONG = r"[A-Za-z0-9+/_-]{32,}={0,2}"
_LOGIN_IN_URL = r"(://[^\s/:@]*:)[^\s/@]+@"
_SHAPES: tuple[tuple[str, str], ...] = (
    ("private key", r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END[A-Z ]*-----|\Z)"),
    ("bearer token", r"(?i)\bbearer\s+[\w.~+/=-]{6,}"),
    ("basic credentials", r"(?i)\bbasic\s+[A-Za-z0-9+/]{12,}={0,2}"),
    ("webhook secret", r"\bwhsec_[\w+/=-]+"),
    ("Stripe key", r"\b[sr]k_(?:(?:live|test)_\w+|(?=\w*\d)\w{8,})"),
    ("client secret", r"\b(?:pi|seti)_[A-Za-z0-9]+_secret_\w+"),
    ("API key", r"\bsk-[\w-]{16,}"),
    ("GitHub token", r"\b(?:gh[oprsu]_|github_pat_)\w{20,}"),
    ("Slack token", r"\bxox[a-z]-[\w-]{8,}"),
    ("AWS key", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    ("JSON web token", r"\beyJ[\w-]{6,}\.[\w-]+\.[\w-]*"),
    ("Salesforce session", r"\b00D[A-Za-z0-9]{12,15}![\w.]{8,}"),
)
_QUICK = re.compile(
    rb"[-wsr_gxAe0Bb](?:----BEGIN|hsec_|k_(?:live|test)_|secret_|k-[\w-]{16}|h[oprsu]_\w|ithub_pat_|ox[a-z]-|"
    rb"KIA[A-Z0-9]|SIA[A-Z0-9]|yJ[\w-]{6}|0D[A-Za-z0-9]{12}|(?i:earer\s))"
)
"""Finds in a frozen value's bytes what may be of a strong shape; what it passes over holds none."""

_STRONG = frozenset(
    {
        "private key",
        "bearer token",
        "webhook secret",
        "Stripe key",
        "client secret",
        "API key",
        "GitHub token",
        "Slack token",
        "AWS key",
        "JSON web token",
        "Salesforce session",
    }
)
_CERTAIN_NAMES = frozenset({"password", "passwd", "passphrase", "authorization", "cvc", "cvv", "apikey"})
_PAGES = frozenset({"page", "next", "continuation", "sync", "cursor", "client", "resume", "count"})
"""What stands before "token" where it is none that opens a door."""

_SCALARS = frozenset({str, int, bool, float, type(None)})
_LEAST = 8
_SHORTEST = 20
_LETTERS = 3
_NUMBERS = 2
_WORDS = r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+"
_SECRET_WORDS = frozenset(
    {"password", "passwd", "passphrase", "secret", "token", "authorization", "cookie", "cvc", "cvv", "apikey"}
)
_SECRET_PAIRS = frozenset(
    {("api", "key"), ("private", "key"), ("secret", "key"), ("access", "key"), ("signing", "key")}
)


may_hold: Callable[[bytes | Raw], object] = _QUICK.search
"""Finds what may be of a strong shape in a frozen value's bytes, in about half a microsecond; None where nothing is."""


def is_suspect(name: str) -> bool:
    """Tell whether what stands under a name may be a secret because of the name."""
    return _kind_by_name(name) is not None


def find(value: Any, name: str = "", path: str = "") -> str | None:
    """Return where in a JSON value a secret stands, for certain, and of which kind: `order.note: Stripe key`."""
    if isinstance(value, dict):
        for key, item in cast("dict[Any, Any]", value).items():
            text = str(key)
            inner = f"{path}.{text}" if path else text
            kind = _strong_shape(text)
            if kind is not None:
                return f"{path or 'a name'}: {kind}"
            found = find(item, text, inner)
            if found is not None:
                return found
        return None
    if isinstance(value, (list, tuple)):
        items = cast("list[Any]", value)
        return next((found for item in items if (found := find(item, name, path)) is not None), None)
    if isinstance(value, (bytes, bytearray)):
        value = bytes(value).decode("latin-1")
    if not isinstance(value, str) or not value:
        return None
    kind = _strong_shape(value) or (_strong_name(name) if _is_credential(name, value) else None)
    return None if kind is None else f"{path or 'the value'}: {kind}"


def scrub(value: Any, name: str = "") -> Any:
    """Return a JSON value with what `find` finds replaced by markers of its kinds."""
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return {scrub(key): scrub(item, str(key)) for key, item in items}
    if isinstance(value, (list, tuple)):
        return [scrub(item, name) for item in cast("list[Any]", value)]
    if isinstance(value, (bytes, bytearray)):
        return f"[{len(value)} bytes]" if find(value) is not None else value
    if not isinstance(value, str) or find(value, name) is None:
        return value
    if _strong_shape(value) is None:
        return _marker(_strong_name(name) or "secret")
    for kind, shape in _SHAPES:
        if kind in _STRONG:
            value = re.sub(shape, _marker(kind), value)
    return value


def marker_in(value: Any, path: str = "") -> str | None:
    """Return where a marker stands in a value: what is made of it is not what was there."""
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return next((found for name, item in items if (found := marker_in(item, f"{path}.{name}".strip(".")))), None)
    if isinstance(value, (list, tuple)):
        return next((found for item in cast("list[Any]", value) if (found := marker_in(item, path))), None)
    is_marked = isinstance(value, str) and "[redacted: " in value
    return f"{path}: it was kept out of the log" if is_marked else None


@lru_cache(1024)
def has_suspect(names: tuple[Any, ...]) -> bool:
    """Tell whether one of the names is such that what stands under it may be a secret."""
    return any(is_suspect(str(name)) for name in names)


def is_doubtful(value: Any, frozen: bytes | Raw) -> bool:
    """Tell whether a look into a value is needed to know that it holds no secret."""
    if may_hold(frozen) is not None:
        return True
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return not _SCALARS.issuperset(map(type, fields.values())) or has_suspect(tuple(fields))
    return type(value) not in _SCALARS


def _strong_shape(text: str) -> str | None:
    if may_hold(text.encode("utf-8", "surrogatepass")) is None:
        return None
    return next((kind for kind, shape in _SHAPES if kind in _STRONG and re.search(shape, text)), None)


def _strong_name(name: str) -> str | None:
    words = [word.lower() for word in re.findall(_WORDS, name)]
    if words[-1:] == ["token"] and words[-2:-1] and words[-2] in _PAGES:
        return None
    return _kind_by_name(name)


def _is_credential(name: str, value: str) -> bool:
    """Tell whether a value under a suspect name looks like what opens a door: under some names everything does."""
    kind = _strong_name(name)
    if kind is None or value.startswith("[redacted: "):
        return False
    if kind in _CERTAIN_NAMES or " " in kind:
        return True
    return len(value) >= _LEAST and not any(map(str.isspace, value)) and any(map(str.isdigit, value))


def mask(text: str) -> str:
    """Return the text with every part that looks like a secret replaced by the name of its kind."""
    text = mask_url(text)
    for kind, shape in _SHAPES:
        text = re.sub(shape, _marker(kind), text)
    text = re.sub(_CARD, lambda found: _marker("card number") if _is_card(found[0]) else found[0], text)
    return re.sub(_LONG, lambda found: _marker("token") if _is_random(found[0]) else found[0], text)


def mask_url(url: str) -> str:
    """Return a URL without its password."""
    return re.sub(_LOGIN_IN_URL, lambda found: f"{found[1]}{_marker('password')}@", url)


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


def _marker(kind: str) -> str:
    return f"[redacted: {kind}]"


def _kind_by_name(name: str) -> str | None:
    words = [word.lower() for word in re.findall(_WORDS, name)]
    if words and words[-1] in _SECRET_WORDS:
        return words[-1]
    return " ".join(words[-2:]) if tuple(words[-2:]) in _SECRET_PAIRS else None


def _is_card(text: str) -> bool:
    digits = [int(letter) for letter in text if letter.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    plain = digits[-1::-2]
    return (sum(doubled) + sum(plain)) % 10 == 0 and re.match(_CARD_STARTS, "".join(map(str, digits))) is not None


def _is_random(text: str) -> bool:
    """Tell whether a run looks drawn rather than written: letters of both cases with digits strewn among them."""
    return any(
        len(part) >= _SHORTEST
        and sum(letter.isupper() for letter in part) >= _LETTERS
        and sum(letter.islower() for letter in part) >= _LETTERS
        and len(re.findall(r"\d+", part)) >= _NUMBERS
        for part in text.split("/")
    )
