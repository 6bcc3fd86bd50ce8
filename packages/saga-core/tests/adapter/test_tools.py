"""What adapters make tools of, and what a model is told."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from saga_core import Compensation, SagaError, compensable, inverse, irreversible, read_only, saga_scope
from saga_core.adapter import describe, words_of
from saga_core.errors import DeclarationError

Amount = Annotated[int, "minor units"]


@read_only("tools.look")
def look(amount: Amount, note: str = "none") -> dict[str, str]:
    """Look."""
    return {"note": note * amount}


@irreversible("tools.wire")
def wire(iban: str) -> None:
    """Send a wire."""


@inverse("tools.undo")
def undo() -> None: ...


def bound(_: object) -> Compensation:
    return undo.bind()


@compensable("tools.lose", undo=bound)
def lose() -> None:
    """Lose the answer."""
    raise ConnectionError("no answer")


@compensable("tools.decline", not_landed=ValueError, undo=bound)
def decline() -> None:
    """Be declined."""
    raise ValueError("declined")


def caught(call: Any) -> Exception:
    with saga_scope(store="memory:"), pytest.raises((SagaError, ConnectionError, ValueError)) as found:
        call()
    return found.value


def test_an_actions_annotations_are_types_although_its_module_writes_them_as_text() -> None:
    (described,) = describe(look)
    assert described.name == "look"
    assert described.action is look
    assert described.signature.parameters["amount"].annotation == Amount
    assert described.signature.parameters["note"].default == "none"
    assert described.signature.return_annotation == dict[str, str]


def test_two_actions_of_one_name_are_refused() -> None:
    @read_only("tools.another_look")
    def look() -> None: ...

    with pytest.raises(DeclarationError, match="could not tell them apart"):
        describe(look, globals()["look"])


def test_a_plain_function_is_refused() -> None:
    function: Any = caught
    with pytest.raises(DeclarationError, match="is no action"):
        describe(wire, function)


def test_an_annotation_that_cannot_be_read_is_named() -> None:
    @read_only("tools.unread")
    def unread(what: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore[reportUndefinedVariable, reportUnknownParameterType]

    with pytest.raises(DeclarationError, match="Missing"):
        describe(unread)  # pyright: ignore[reportUnknownArgumentType]


def test_a_refused_call_is_told_without_the_way_to_approve_it() -> None:
    error = caught(lambda: wire("DE1"))
    assert isinstance(error, SagaError)
    words = words_of(error)
    assert "irreversible" in words
    assert words.endswith("Nothing was called.")
    assert error.next not in words


def test_a_call_that_may_have_landed_is_told_as_one_not_to_be_repeated() -> None:
    words = words_of(caught(lose))
    assert words == ("no answer. It may have taken effect all the same: do not call it again with the same arguments.")


def test_a_call_that_did_not_land_is_told_in_its_own_words() -> None:
    assert words_of(caught(decline)) == "declined."
