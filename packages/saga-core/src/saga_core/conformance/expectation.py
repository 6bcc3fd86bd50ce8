"""What a scenario says when something is not as its claim has it."""

from __future__ import annotations


def expect(holds: object, words: str) -> None:
    """Raise where something does not hold; an `assert` would be silent under `python -O`.

    Raises:
        AssertionError: It does not hold.
    """
    if not holds:
        raise AssertionError(words)
