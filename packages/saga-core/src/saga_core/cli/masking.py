"""Recorded text on its way to a person: masked, and harmless to a terminal."""

from __future__ import annotations

from saga_core.secrets import mask, mask_url, mask_value

__all__ = ["harmless", "mask", "mask_url", "mask_value", "shown"]


def shown(text: str) -> str:
    """Return recorded text as one line, masked and harmless."""
    return harmless(mask(text))


def harmless(text: str) -> str:
    """Return the text with what a terminal would obey, or would not show, spelled out."""
    return "".join(letter if letter.isprintable() else _escaped(letter) for letter in text)


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
