"""Credential references: the only form in which a credential may stand in an argument or a log."""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from saga_connectors.errors import CredentialMalformed, CredentialMissing

Resolver = Callable[[str], str | Mapping[str, Any]]

_resolver: Resolver | None = None


class Credential(Mapping[str, Any]):
    """What a reference stands for. Its repr names the fields and never shows a value."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = dict(fields)

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        return f"<Credential with {', '.join(sorted(self._fields)) or 'no field'}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a credential is never pickled; pass its reference and resolve it there")


def set_resolver(resolver: Resolver | None) -> None:
    """Let `resolver` answer every later `resolve`, in all threads, instead of the environment; None undoes it.

    It is called with the reference each time a credential is needed, from any thread, and returns what a variable
    would hold (a key, a JSON object, a DSN) or a mapping. A LookupError says that the reference is unknown.
    """
    global _resolver  # noqa: PLW0603 - the process has one source of credentials
    _resolver = resolver


def resolve(ref: str, /, *, needs: tuple[str, ...] = ()) -> Mapping[str, Any]:
    """Return the fields that `ref` stands for; nothing is cached, so a rotated credential is seen by the next call.

    Without a resolver the variable `variable(ref)` is read. A value that starts with `{` is a JSON object and is
    returned as it is, one that contains `://` becomes `{"dsn": value}`, any other `{"api_key": value}`.

    Args:
        ref: The reference, for instance `stripe_prod`.
        needs: Fields that must be there, each a string that is not empty.

    Raises:
        CredentialMissing: Nothing is known under this reference.
        CredentialMalformed: The value is no JSON object although it starts like one, or a needed field is not there.
    """
    held = _held(ref)
    fields: Mapping[str, Any] = _parsed(ref, held) if isinstance(held, str) else held
    for name in needs:
        value = fields.get(name)
        if not isinstance(value, str) or not value:
            raise CredentialMalformed(
                f"the credential {ref!r} has no field {name!r}.",
                world="nothing was called",
                next=f"give {_where(ref)} a JSON object with the field {name!r}",
            )
    return Credential(fields)


def variable(ref: str, /) -> str:
    """Return the environment variable that holds `ref` when no resolver is set."""
    return "SAGA_CREDENTIAL_" + re.sub(r"[^A-Z0-9]", "_", ref.upper())


def _held(ref: str) -> str | Mapping[str, Any]:
    resolver = _resolver
    if resolver is None:
        held = os.environ.get(variable(ref))
    else:
        try:
            held = resolver(ref)
        except Exception as error:
            raise CredentialMissing(
                f"the resolver did not give the credential {ref!r} ({type(error).__name__}).",
                world="nothing was called",
                next="check the reference, or the callable given to saga_connectors.credentials.set_resolver",
            ) from error
    if isinstance(held, str) and held.strip():
        return held
    if isinstance(held, Mapping) and held:
        return held
    raise CredentialMissing(
        f"there is no credential {ref!r}.",
        world="nothing was called",
        next=f"set {_where(ref)}",
    )


def _parsed(ref: str, held: str) -> Mapping[str, Any]:
    text = held.strip()
    if not text.startswith("{"):
        return {"dsn": text} if "://" in text else {"api_key": text}
    with suppress(ValueError):
        return json.loads(text)
    # Raised out here, because the decoder's error quotes the document, and with it the secret.
    raise CredentialMalformed(
        f"the credential {ref!r} starts like a JSON object and is none.",
        world="nothing was called",
        next=f"put a key, a DSN or a JSON object into {_where(ref)}",
    )


def _where(ref: str) -> str:
    if _resolver is None:
        return f"the environment variable {variable(ref)}"
    return "what the resolver returns"
