"""What enters the log: refused before the effect where it cannot be recorded, and restored as what it was."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest

from saga_core import Attempt, Call, Compensation, Saga, Store, codec, compensable, current_step, inverse
from saga_core.errors import BadArguments

from .world import World, declare, in_plain_scope, in_scope, unique


class Opaque:
    """A thing that no record holds; its text is a secret."""

    def __repr__(self) -> str:
        return "hunter2"


class Broken:
    """A thing whose own way to JSON raises."""

    def model_dump(self, **_: object) -> object:
        raise KeyError("hunter2")


class Endless:
    """A thing whose way to JSON never ends, as that of a mock."""

    def model_dump(self, **_: object) -> object:
        return self


def cycle() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def nest(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


class Colour(Enum):
    RED = "red"


class Order(TypedDict):
    sku: str
    price: Decimal


@dataclass
class Address:
    street: str
    since: date


class Parcel(msgspec.Struct):
    to: Address
    weight: int


class Model(pydantic.BaseModel):
    at: datetime
    price: Decimal


UNFIT = {
    "an object": Opaque(),
    "an object inside": {"a": [1, Opaque()]},
    "a set of objects": {Opaque()},
    "not a number": math.nan,
    "infinite inside": [1.0, -math.inf],
    "an integer of 65 bits": 2**64,
    "a number as a key": {1: "a"},
    "a tuple as a key": {(1, 2): "a"},
    "a nested number as a key": [{"a": {2.5: 1}}],
    "too large": "x" * (codec.MAX_VALUE + 1),
    "a lone surrogate": "\ud800",
    "a function": len,
    "a class": Opaque,
    "a generator": (i for i in ()),
    "a cycle": cycle(),
    "very deep": nest(100_000),
    "a model that raises": Broken(),
    "a model without end": Endless(),
}


@pytest.mark.parametrize("unfit", UNFIT.values(), ids=UNFIT)
def test_an_argument_that_cannot_be_recorded_is_refused_before_the_effect(
    store: Store, world: World, unfit: object
) -> None:
    tools = declare(world)

    def body(saga: Saga) -> None:
        with pytest.raises(BadArguments) as caught:
            tools.charge_now("hotel", unfit)
        assert caught.value.world == "nothing was called"
        assert "hunter2" not in str(caught.value)
        assert len(str(caught.value)) < 1000
        tools.charge_now("fine")

    ended = in_plain_scope(store, body)
    assert ended.error is None
    assert world.sent == ["charge fine"]
    assert len(ended.saga.report.steps) == 1


@pytest.mark.parametrize("unfit", UNFIT.values(), ids=UNFIT)
def test_a_result_that_cannot_be_recorded_is_returned_all_the_same_and_becomes_a_case(
    store: Store, world: World, unfit: object
) -> None:
    tools = declare(world)

    @compensable(unique("charge"), undo=lambda _: tools.refund.bind("never"))
    def charge(item: str) -> Any:
        world.charge(item, current_step().key)
        return unfit

    def body(saga: Saga) -> None:
        assert charge("odd") is unfit
        tools.charge_now("fine")
        raise ValueError

    ended = in_plain_scope(store, body)
    assert world.standing == ["odd"]
    report = ended.saga.report
    assert (report.state, report.is_clean, len(report.cases)) == ("needs_human", False, 1)
    assert "hunter2" not in str(report)
    assert ended.states == ["undo_failed", "undone"]


@pytest.mark.parametrize("unfit", UNFIT.values(), ids=UNFIT)
def test_an_undo_whose_arguments_cannot_be_recorded_becomes_a_case(store: Store, world: World, unfit: object) -> None:
    @inverse(unique("refund"))
    async def refund(what: Any) -> None:
        raise AssertionError("called without a record")

    tools = declare(world, undo=lambda _: refund.bind(unfit))

    async def body(saga: Saga) -> None:
        assert await tools.charge("odd") == {"id": "ch_1", "item": "odd"}
        raise ValueError

    ended = in_scope(store, body)
    assert world.standing == ["odd"]
    assert (ended.saga.report.state, len(ended.saga.report.cases)) == ("needs_human", 1)


def test_a_success_with_an_underivable_undo_is_clean_for_the_commit_keeps_it(store: Store, world: World) -> None:
    tools = declare(world, undo=lambda _: 1 // 0)
    ended = in_plain_scope(store, lambda _: tools.charge_now("odd"))
    assert world.standing == ["odd"]
    assert (ended.saga.report.state, ended.saga.report.is_clean) == ("committed", True)


@pytest.mark.parametrize(
    "answer", [None, "refund", {"inverse": "refund"}, Opaque()], ids=lambda answer: type(answer).__name__
)
def test_an_undo_that_returns_no_compensation_becomes_a_case(store: Store, world: World, answer: object) -> None:
    tools = declare(world, undo=lambda _: answer)

    def body(saga: Saga) -> None:
        tools.charge_now("odd")
        raise ValueError

    ended = in_plain_scope(store, body)
    assert ended.states == ["undo_failed"]
    assert ended.saga.report.state == "needs_human"
    assert world.standing == ["odd"]


@pytest.mark.parametrize("failure", [ZeroDivisionError(), KeyError("id"), AssertionError(), RecursionError()], ids=repr)
def test_an_undo_that_raises_neither_loses_the_result_nor_goes_unseen(
    store: Store, world: World, failure: Exception
) -> None:
    def undo(call: Call[Any]) -> Compensation:
        raise failure

    tools = declare(world, undo=undo)

    async def body(saga: Saga) -> None:
        assert (await tools.charge("odd"))["id"] == "ch_1"
        await tools.charge("other")
        raise ValueError

    ended = in_scope(store, body)
    assert ended.states == ["undo_failed", "undo_failed"]
    assert (ended.saga.report.state, len(ended.saga.report.cases)) == ("needs_human", 2)
    assert type(failure).__name__ in str(ended.saga.report)


@pytest.mark.parametrize("depth", [50, 300, 900, 990, 1100, 3000])
def test_a_deeply_nested_value_is_recorded_or_refused_and_nothing_between(
    store: Store, world: World, depth: int
) -> None:
    tools = declare(world)
    refused: list[BadArguments] = []

    @compensable(unique("act"), undo=lambda call: tools.refund.bind(call.result[0]))
    def act(_: None) -> list[Any]:
        return [world.charge("x", current_step().key), nest(depth)]

    def body(saga: Saga) -> None:
        try:
            tools.charge_now("argument", nest(depth))
        except BadArguments as refusal:
            refused.append(refusal)
        assert act(None)[0].startswith("ch_")
        raise ValueError

    ended = in_plain_scope(store, body)
    assert type(ended.error) is ValueError
    assert ended.states[: 1 - len(refused)] == ["undone"][: 1 - len(refused)]
    assert ended.states[-1] in {"undone", "undo_failed"}
    assert world.standing == (["x"] if ended.states[-1] == "undo_failed" else [])


VALUES: dict[str, tuple[Any, Any]] = {
    "datetime": (datetime, datetime(2026, 3, 1, 12, 30, 0, 123456, UTC)),
    "naive datetime": (datetime, datetime(2026, 3, 1, 12, 30)),  # noqa: DTZ001 -- as users write it
    "date": (date, date(2026, 2, 28)),
    "timedelta": (timedelta, timedelta(days=2, microseconds=5)),
    "decimal": (Decimal, Decimal("10.10")),
    "uuid": (UUID, UUID("12345678-1234-5678-1234-567812345678")),
    "bytes": (bytes, b"\x00\xff"),
    "tuple": (tuple[int, str], (1, "a")),
    "set": (set[int], {1, 2, 3}),
    "enum": (Colour, Colour.RED),
    "literal": (Literal["a", "b"], "b"),
    "union": (int | str | None, None),
    "typed dict": (Order, {"sku": "a", "price": Decimal("1.50")}),
    "dataclass": (Address, Address("High Street", date(2020, 1, 1))),
    "msgspec": (Parcel, Parcel(Address("High Street", date(2020, 1, 1)), 5)),
    "pydantic": (Model, Model(at=datetime(2026, 3, 1, tzinfo=UTC), price=Decimal("1.50"))),
    "list of pydantic": (list[Model], [Model(at=datetime(2026, 3, 1, tzinfo=UTC), price=Decimal("1.50"))]),
    "dict of dataclass": (dict[str, Address], {"home": Address("High Street", date(2020, 1, 1))}),
    "float": (float, 1e308),
    "large int": (int, 2**63 - 1),
    "small int": (int, -(2**63)),
    "free": (Any, {"a": [1, None, True, "x", 1.5]}),
    "text": (str, "naïve 🎉 \x00 \n"),
}


@pytest.mark.parametrize(("annotation", "value"), VALUES.values(), ids=VALUES)
def test_undo_probe_and_capture_see_values_as_what_they_were(store: Store, annotation: Any, value: Any) -> None:
    seen: dict[str, Any] = {}

    @inverse(unique("back"))
    def back() -> None:
        pass

    def act(given: Any) -> Any:
        return given

    act.__annotations__ = {"given": annotation, "return": annotation}
    action = compensable(unique("act"))(act)

    @action.undo
    def undo(call: Call[Any]) -> Compensation:  # pyright: ignore[reportUnusedFunction]
        seen["undo argument"] = call.args["given"]
        seen["result"] = call.result
        return back.bind()

    @action.capture
    def capture(attempt: Attempt) -> None:  # pyright: ignore[reportUnusedFunction]
        seen["capture argument"] = attempt.args["given"]

    def body(saga: Saga) -> None:
        seen["returned"] = action.at("here")(value)
        seen["recalled"] = action.at("here")(value)
        raise ValueError

    ended = in_plain_scope(store, body)
    assert ended.states == ["undone"]
    assert seen == dict.fromkeys(("undo argument", "result", "capture argument", "returned", "recalled"), value)
    assert all(type(found) is type(value) for found in seen.values())


@pytest.mark.parametrize(("annotation", "value"), VALUES.values(), ids=VALUES)
def test_an_inverse_gets_its_arguments_as_what_they_were(store: Store, annotation: Any, value: Any) -> None:
    seen: list[Any] = []

    async def back(given: Any) -> None:
        seen.append(given)

    back.__annotations__ = {"given": annotation, "return": None}
    handler = inverse(unique("back"))(back)

    @compensable(unique("act"), undo=lambda _: handler.bind(value))
    def act() -> None:
        pass

    def body(saga: Saga) -> None:
        act()
        raise ValueError

    assert in_plain_scope(store, body).states == ["undone"]
    assert seen == [value]
    assert type(seen[0]) is type(value)


def test_what_undo_sees_is_the_record_and_not_the_callers_object(store: Store, world: World) -> None:
    tools = declare(world)
    seen: list[Any] = []

    @compensable(unique("act"))
    def act(order: dict[str, Any]) -> dict[str, Any]:
        order["sku"] = "changed by the effect"
        return {"id": world.charge("x", "")}

    @act.undo
    def undo(call: Call[dict[str, Any]]) -> Compensation:  # pyright: ignore[reportUnusedFunction]
        seen.append(call.args["order"])
        return tools.refund.bind(call.result["id"])

    def body(saga: Saga) -> None:
        act({"sku": "original"})["id"] = "changed by the caller"
        raise ValueError

    in_plain_scope(store, body)
    assert seen == [{"sku": "original"}]
    assert world.standing == []


def test_defaults_are_recorded_and_wrong_calls_fail_as_python_does(store: Store, world: World) -> None:
    seen: list[Any] = []

    def undo(call: Call[dict[str, Any]]) -> Compensation:
        seen.append(dict(call.args))
        return tools.refund.bind(call.result["id"])

    tools = declare(world, undo=undo)

    def body(saga: Saga) -> None:
        tools.charge_now("positional", 7)
        tools.charge_now(item="by name")
        for wrong in ({}, {"item": "a", "extra": 1}, {"amount": 1}, {"thing": "a"}, {"thing": "a", "amount": 1}):
            with pytest.raises(TypeError):
                tools.charge_now(**wrong)

    ended = in_plain_scope(store, body)
    assert seen == [{"item": "positional", "amount": 7}, {"item": "by name", "amount": 100}]
    assert len(ended.states) == 2


def test_a_hidden_argument_is_passed_and_not_recorded(file_store: Store, world: World) -> None:
    tools = declare(world)
    seen: list[Any] = []

    @compensable(unique("login"), hide=("secret",), undo=lambda call: tools.refund.bind(call.result["id"]))
    def login(item: str, secret: Opaque) -> dict[str, Any]:
        seen.append(secret)
        return {"id": world.charge(item, current_step().key)}

    secret = Opaque()

    def body(saga: Saga) -> None:
        login("a", secret)
        login("a", secret=secret)

    ended = in_plain_scope(file_store, body)
    assert ended.error is None
    assert seen == [secret, secret]
    assert len(ended.states) == 2


def test_arguments_by_any_name_are_recorded(store: Store, world: World) -> None:
    tools = declare(world)
    seen: list[Any] = []

    @compensable(unique("patch"))
    def patch(item: str, **fields: object) -> str:
        return world.charge(item, current_step().key)

    @patch.undo
    def undo(call: Call[str]) -> Compensation:  # pyright: ignore[reportUnusedFunction]
        seen.append(dict(call.args))
        return tools.refund.bind(call.result)

    def body(saga: Saga) -> None:
        patch("a", colour="red", size=3)
        patch("b")
        raise ValueError

    assert in_plain_scope(store, body).states == ["undone", "undone"]
    assert seen == [{"item": "a", "colour": "red", "size": 3}, {"item": "b"}]


def test_a_large_value_is_recorded_and_undone(store: Store, world: World) -> None:
    tools = declare(world)
    seen: list[int] = []

    @compensable(unique("upload"))
    def upload(data: bytes) -> dict[str, Any]:
        return {"id": world.charge("upload", current_step().key), "copy": data}

    @upload.undo
    def undo(call: Any) -> Compensation:  # pyright: ignore[reportUnusedFunction]
        seen.append(len(call.args["data"]))
        return tools.refund.bind(call.result["id"])

    def body(saga: Saga) -> None:
        assert len(upload(b"x" * 5_000_000)["copy"]) == 5_000_000
        raise ZeroDivisionError

    ended = in_plain_scope(store, body)
    assert ended.states == ["undone"]
    assert seen == [5_000_000]
