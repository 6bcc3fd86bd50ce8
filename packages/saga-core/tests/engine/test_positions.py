"""A position is the identity of a call: what is recorded there answers."""

from __future__ import annotations

import pytest

from saga_core import (
    Saga,
    StepInDoubt,
    StepMismatch,
    Store,
    compensable,
    current_step,
)
from saga_core.errors import DeclarationError

from .world import (
    Declined,
    Lost,
    World,
    declare,
    decline,
    in_plain_scope,
    in_scope,
    lose,
)


def test_a_named_position_in_doubt_is_not_sent_again(store: Store, world: World) -> None:
    tools = declare(world)
    world.after["hotel"] += [lose]

    def body(saga: Saga) -> None:
        with pytest.raises(Lost):
            tools.charge_now.at("line-1")("hotel")
        with pytest.raises(StepInDoubt):
            tools.charge_now.at("line-1")("hotel")

    in_plain_scope(store, body)
    assert world.landed("hotel") == 1


def test_a_position_called_again_returns_what_is_recorded(store: Store, world: World) -> None:
    tools = declare(world)

    async def body(saga: Saga) -> None:
        first = await tools.charge.at("line-1")("hotel")
        assert await tools.charge.at("line-1")("hotel") == first
        assert await tools.charge.at("line-1")(item="hotel", amount=100) == first
        assert await tools.charge.at("line-2")("hotel") != first

    ended = in_scope(store, body)
    assert world.sent == ["charge hotel", "charge hotel"]
    assert ended.states == ["applied", "applied"]


def test_a_position_called_with_other_arguments_is_refused(store: Store, world: World) -> None:
    tools = declare(world)

    def body(saga: Saga) -> None:
        tools.charge_now.at("line-1")("hotel", 1)
        for item, amount in (("hotel", 2), ("flight", 1)):
            with pytest.raises(StepMismatch, match="line-1"):
                tools.charge_now.at("line-1")(item, amount)

    ended = in_plain_scope(store, body)
    assert world.sent == ["charge hotel"]
    assert ended.states == ["applied"]


def test_only_the_identity_decides_whether_two_calls_are_the_same(store: Store, world: World) -> None:
    tools = declare(world, identity=("item",))

    def body(saga: Saga) -> None:
        first = tools.charge_now.at("line-1")("hotel", 1)
        assert tools.charge_now.at("line-1")("hotel", 2) == first
        with pytest.raises(StepMismatch):
            tools.charge_now.at("line-1")("flight", 1)

    in_plain_scope(store, body)
    assert world.sent == ["charge hotel"]


def test_a_position_that_did_not_land_runs_again_under_a_new_key(store: Store, world: World) -> None:
    tools = declare(world, not_landed=Declined)
    keys: list[tuple[int, str]] = []
    world.before["hotel"] += [lambda: keys.append((current_step().attempt, current_step().key)), decline]

    def declined() -> None:
        keys.append((current_step().attempt, current_step().key))
        raise Declined

    world.before["hotel"] = [declined, lambda: keys.append((current_step().attempt, current_step().key))]

    def body(saga: Saga) -> None:
        with pytest.raises(Declined):
            tools.charge_now.at("line-1")("hotel")
        tools.charge_now.at("line-1")("hotel")
        raise ValueError

    ended = in_plain_scope(store, body)
    assert [attempt for attempt, _ in keys] == [1, 2]
    assert keys[0][1] != keys[1][1]
    assert ended.states == ["not_landed", "undone"]


@pytest.mark.parametrize("name", ["pay@x", "pay#1", "pay/x", "pay x", ""])
def test_two_actions_cannot_meet_at_one_position(name: str) -> None:
    """A label is free text; what separates it from the action in a position may not stand in the action's name."""
    with pytest.raises(DeclarationError, match="registered name"):
        compensable(name)
