"""Encrypted logs: each record under AES-256-GCM, chained by its tag to the one before it.

The key of a log is derived from a named data key of the user's and the log's own salt. The name stands in the file
header, so that keys can change: new logs take the current one, old ones keep theirs. Changing, dropping or reordering
records without the key breaks the chain of tags; cutting records off the end does not.
"""

from __future__ import annotations

import base64
import os
from importlib.util import find_spec
from struct import Struct
from typing import TYPE_CHECKING

from saga_core.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_SIZE = 32
"""Bytes of a data key."""

NAME_SIZE = 16
"""Bytes that a key's name takes at the most."""

CHECK_SIZE = 8
"""Bytes in the file header that tell the right key from a wrong one."""

_NONCE = 12
_TAG = 16
_NONCES = 4096
_AAD = Struct("<16s26sIH")
_VARIABLE = "SAGA_ENCRYPTION"


class Encryption:
    """The keys of a store's logs: bring your own, from a key service, a file or the environment."""

    def __init__(self, current: str, keys: Callable[[str], bytes]) -> None:
        """Name the key of new logs and tell where keys come from.

        Args:
            current: The name of the key for new logs, at most 16 bytes; it stands readable in each file.
            keys: Returns the 32 bytes of a key by its name, unwrapped by whoever keeps it; called once a name and
                process. What it raises is shown to whoever opens a log.

        Raises:
            StoreError: The name is empty, too long or not plain ASCII, or the extra `encryption` is not installed.
        """
        if not current or len(current) > NAME_SIZE or not current.isascii() or not current.isprintable():
            raise StoreError(
                f"a key's name is 1 to {NAME_SIZE} plain ASCII letters",
                world="nothing was opened",
                next="choose a short name, such as the month in which the key was made",
            )
        if find_spec("cryptography") is None:
            raise StoreError(
                "encrypted stores need the package cryptography",
                world="nothing was opened",
                next='pip install "saga-core[encryption]"',
            )
        self.current = current
        self._get = keys
        self._known: dict[str, bytes] = {}

    def cipher(self, name: str, salt: bytes, saga: str) -> Cipher:
        """Return the cipher of one log, at its beginning.

        Raises:
            StoreError: The key is not to be had, or is no key.
        """
        key = self._known.get(name)
        if key is None:
            key = self._known[name] = self._fetched(name, saga)
        return Cipher(key, salt, saga)

    def _fetched(self, name: str, saga: str) -> bytes:
        try:
            key = self._get(name)
        except Exception as error:
            raise missing(name, saga, f"it could not be had: {type(error).__qualname__}") from error
        if not isinstance(key, bytes) or len(key) != KEY_SIZE:  # pyright: ignore[reportUnnecessaryIsInstance] -- the user's function
            raise missing(name, saga, f"what was returned for it is not {KEY_SIZE} bytes")
        return key


class Cipher:
    """Seals and opens the records of one log in their order."""

    def __init__(self, key: bytes, salt: bytes, saga: str) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415
        from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415

        derived = HKDF(SHA256(), KEY_SIZE + CHECK_SIZE, salt, b"saga log 1").derive(key)
        self._gcm: AESGCM = AESGCM(derived[:KEY_SIZE])
        self.check = derived[KEY_SIZE:]
        self._saga = saga.encode()
        self._last = salt
        self._nonces = b""

    def seal(self, kind: int, epoch: int, payload: bytes) -> bytes:
        """Return the record's payload as it stands in the file: nonce, ciphertext, tag."""
        nonce, self._nonces = self._nonces[:_NONCE], self._nonces[_NONCE:]
        if not nonce:
            fresh = os.urandom(_NONCE * (_NONCES // _NONCE))
            nonce, self._nonces = fresh[:_NONCE], fresh[_NONCE:]
        return nonce + self._gcm.encrypt(nonce, payload, _AAD.pack(self._last, self._saga, epoch, kind))

    def went(self, sealed: bytes) -> None:
        """Chain the next record to one that stands in the file now."""
        self._last = sealed[-_TAG:]

    def open(self, kind: int, epoch: int, sealed: bytes) -> bytes:
        """Return a record's payload; records are opened in their order.

        Raises:
            ValueError: It was not sealed so, or not behind the one that was opened last.
        """
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415

        aad = _AAD.pack(self._last, self._saga, epoch, kind)
        try:
            payload = self._gcm.decrypt(sealed[:_NONCE], sealed[_NONCE:], aad)
        except (InvalidTag, ValueError):
            raise ValueError("its tag does not fit") from None
        self._last = sealed[-_TAG:]
        return payload


def from_environment() -> Encryption | None:
    """Return the encryption that the environment names, None if it names none.

    `SAGA_ENCRYPTION` is the name of the key for new logs; `SAGA_ENCRYPTION_KEY_<NAME>` holds a key's 32 bytes in
    base64, its name in capitals and `_` for each sign that is neither letter nor digit.
    """
    current = os.environ.get(_VARIABLE)
    return Encryption(current, _from_variable) if current else None


def _from_variable(name: str) -> bytes:
    letters = "".join(letter if letter.isalnum() else "_" for letter in name.upper())
    return base64.b64decode(os.environ[f"{_VARIABLE}_KEY_{letters}"], validate=True)


def missing(name: str, saga: str, why: str) -> StoreError:
    """Return the error of a log whose key is not at hand."""
    return StoreError(
        f"the log of saga {saga} is encrypted with the key {name!r}: {why}",
        saga_id=saga,
        world="it was neither read nor changed",
        next="open the store with its keys: open_store(url, encryption=...), or SAGA_ENCRYPTION and the key's variable",
    )
