"""What cannot be recorded, found again or undone is refused when it is declared, with the reason."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from saga_core import Call, Compensation, SagaError, compensable, inverse, irreversible, reversible
from saga_core.errors import DeclarationError

from .world import unique


class Custom:
    """What JSON does not bring back."""


def generator() -> Iterator[int]:
    yield 1


async def asynchronous_generator() -> AsyncIterator[int]:
    yield 1


def method(self: object, item: str) -> str:
    return item


def custom_parameter(item: Custom) -> str:
    return str(item)


def nested_custom_parameter(items: list[dict[str, Custom]]) -> str:
    return str(items)


def optional_custom_parameter(item: Custom | None = None) -> str:
    return str(item)


def custom_result(item: str) -> Custom:
    return Custom()


def custom_result_in_a_tuple(item: str) -> tuple[str, Custom]:
    return item, Custom()


def any_arguments(*items: str) -> str:
    return items[0]


def positional_only(item: str, /) -> str:
    return item


BAD = [
    generator,
    asynchronous_generator,
    method,
    custom_parameter,
    nested_custom_parameter,
    optional_custom_parameter,
    custom_result,
    custom_result_in_a_tuple,
    any_arguments,
    positional_only,
]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.__name__)
@pytest.mark.parametrize("decorator", [compensable, reversible, irreversible], ids=lambda found: found.__name__)
def test_a_function_that_cannot_be_recorded_is_no_action(decorator: Any, bad: Any) -> None:
    name = unique("bad")
    with pytest.raises(DeclarationError, match=name) as caught:
        decorator(name)(bad)
    assert caught.value.next


@pytest.mark.parametrize("bad", [Custom, Custom(), 5, None], ids=["class", "instance", "int", "none"])
def test_what_is_no_function_is_no_action(bad: Any) -> None:
    with pytest.raises(DeclarationError, match="function"):
        compensable(unique("bad"))(bad)


@pytest.mark.parametrize("bad", [*BAD[3:6], any_arguments, method], ids=lambda bad: bad.__name__)
def test_a_handler_whose_arguments_cannot_be_recorded_is_no_inverse(bad: Any) -> None:
    with pytest.raises(DeclarationError):
        inverse(unique("bad"))(bad)


@pytest.mark.parametrize(
    "bad", [generator, asynchronous_generator, Custom, 5], ids=["generator", "async", "class", "int"]
)
def test_what_does_not_run_to_an_answer_is_no_inverse(bad: Any) -> None:
    with pytest.raises(DeclarationError):
        inverse(unique("bad"))(bad)


def test_a_name_must_be_given() -> None:
    with pytest.raises(DeclarationError, match="name"):
        compensable(custom_result)  # pyright: ignore[reportArgumentType]
    with pytest.raises(DeclarationError, match="name"):
        inverse(custom_result)  # pyright: ignore[reportArgumentType, reportCallIssue]
    for empty in ("", " "):
        with pytest.raises(DeclarationError, match="name"):
            compensable(empty)(lambda: None)


def test_two_functions_cannot_share_a_name() -> None:
    name = unique("shared")

    def one() -> None: ...

    def other() -> None: ...

    first = compensable(name)(one)
    with pytest.raises(DeclarationError, match="twice"):
        compensable(name)(other)
    with pytest.raises(DeclarationError, match="twice"):
        irreversible(name)(other)
    assert compensable(name)(one).name == first.name
    inverse(name)(one)
    with pytest.raises(DeclarationError, match="twice"):
        inverse(name)(other)


def test_an_undo_is_a_plain_function() -> None:
    async def undo(call: Call[Any]) -> Compensation:
        raise NotImplementedError

    action = compensable(unique("act"))(lambda: None)
    with pytest.raises(DeclarationError, match="asynchronous"):
        action.undo(undo)  # pyright: ignore[reportArgumentType]
    with pytest.raises(DeclarationError, match="asynchronous"):
        compensable(unique("act"), undo=undo)(lambda: None)  # pyright: ignore[reportArgumentType]


def test_an_undo_cannot_need_what_is_hidden() -> None:
    @inverse(unique("back"))
    def back(token: str) -> None: ...

    def login(user: str, token: str) -> str:
        return user

    by_index = compensable(unique("login"), hide=("token",))(login)
    with pytest.raises(DeclarationError, match="token"):
        by_index.undo(lambda call: back.bind(call.args["token"]))
    with pytest.raises(DeclarationError, match="token"):
        by_index.undo(lambda call: back.bind(call.args.get("token", "")))
    with pytest.raises(DeclarationError, match="token"):
        compensable(unique("login"), hide=("token",), undo=lambda call: back.bind(call.args["token"]))(login)


@pytest.mark.parametrize("option", ["hide", "identity"])
def test_options_that_name_no_parameter_are_refused(option: str) -> None:
    def login(user: str) -> str:
        return user

    options: dict[str, Any] = {option: ("tokn",)}
    with pytest.raises(DeclarationError, match="tokn"):
        compensable(unique("login"), **options)(login)


def test_a_hidden_parameter_may_be_of_any_type() -> None:
    def login(user: str, client: Custom) -> str:
        return user

    assert compensable(unique("login"), hide=("client",))(login).reversibility == "compensable"


def test_a_static_method_is_an_action() -> None:
    class Shop:
        @compensable(unique("sell"))
        @staticmethod
        def sell(item: str) -> str:
            return item

    assert Shop.sell.reversibility == "compensable"


def test_an_action_keeps_its_functions_face() -> None:
    @compensable(unique("sell"), version=3)
    def sell(item: str, amount: int = 1) -> str:
        """Sell it."""
        return item

    assert (sell.__name__, sell.__doc__, sell.version) == ("sell", "Sell it.", 3)
    assert sell.__module__ == __name__
    assert not hasattr(sell, "func")
    assert not hasattr(sell, "__wrapped__")
    assert list(sell.__signature__.parameters) == ["item", "amount"]  # pyright: ignore[reportAttributeAccessIssue]


def test_a_compensation_is_checked_when_it_is_bound() -> None:
    @inverse(unique("back"))
    def back(charge_id: str, amount: int) -> None: ...

    assert back.bind("ch_1", amount=5).args == {"charge_id": "ch_1", "amount": 5}
    bind: Any = back.bind
    for args, kwargs in (((), {}), (("a",), {}), (("a", 1, 2), {}), (("a", "many"), {}), (("a", 1), {"b": 2})):
        with pytest.raises(TypeError):
            bind(*args, **kwargs)
    with pytest.raises((TypeError, ValueError)):
        bind("a", float("nan"))
    with pytest.raises((TypeError, ValueError)):
        back.bind("a", 2**70)


def test_declaration_errors_are_saga_errors() -> None:
    assert issubclass(DeclarationError, SagaError)
