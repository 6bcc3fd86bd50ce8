"""A session is found again by its key: suspended, committed, or from another thread."""

from __future__ import annotations

import gc
import threading
from typing import TYPE_CHECKING

import pytest

from saga_core import SagaBusy, SagaClosed, Store, open_store, saga_scope
from saga_core.adapter import Session
from saga_core.errors import ScopeMisuse

from ..engine.world import World, left_open, unique  # noqa: TID252

if TYPE_CHECKING:
    from .conftest import Door


def test_a_suspended_session_goes_on_at_its_places(door: Door, world: World) -> None:
    session = door.begin(key="order")
    session.run_began()
    made = door.charge(session, "call-1", "a")
    door.do(session, "suspend", "the customer is asked")
    assert session.report.state == "suspended"
    assert left_open(door.store) == [session.saga.id]
    again = door.begin(key="order")
    assert again.saga.id == session.saga.id
    assert (session.found, again.found) == (None, "suspended")
    assert again.recorded("call-1", door.action) == ("applied", made)
    assert door.charge(again, "call-1", "a") == made
    door.charge(again, "call-2", "b")
    door.do(again, "end", ValueError())
    assert world.undone == ["b", "a"]
    assert world.standing == []


def test_a_session_without_a_key_and_a_savepoint_are_not_suspended(door: Door, world: World) -> None:
    session = door.begin()
    session.run_began()
    door.charge(session, "call-1", "a")
    for one in (session, session.savepoint("part")):
        with pytest.raises(ScopeMisuse):
            door.do(one, "suspend", "waits")
        assert not one.is_ended
    door.do(session, "end")
    assert world.standing == []


def test_a_key_in_use_is_busy(door: Door, world: World) -> None:
    session = door.begin(key="order")
    with pytest.raises(SagaBusy):
        door.begin(key="order")
    door.charge(session, "call-1", "a")
    door.do(session, "end")
    assert world.standing == ["a"]


def test_a_replay_answers_what_is_recorded_and_does_nothing_new(door: Door, world: World) -> None:
    session = door.begin(key="order")
    made = door.charge(session, "call-1", "a")
    door.do(session, "end")
    with pytest.raises(SagaClosed):
        door.begin(key="order")
    replay = door.begin(key="order", if_settled="return")
    replay.run_began()
    assert door.charge(replay, "call-1", "a") == made
    with pytest.raises(SagaClosed):
        door.charge(replay, "call-2", "b")
    with replay.savepoint("part", place="new").body("call-1") as saga:
        assert saga.name == "door"
    door.do(replay, "end", ValueError("the replay failed"))
    assert world.sent == ["charge a"]
    assert replay.report.state == "committed"


def test_a_thread_that_lost_its_context_joins_by_the_key(door: Door, world: World) -> None:
    key = unique("order")
    session = door.begin(key=key)

    def tool() -> None:
        assert Session.join(key) is session
        door.charge(session, "call-1", "a")

    thread = threading.Thread(target=tool)
    thread.start()
    thread.join(30)
    assert world.standing == ["a"]
    assert Session.join("another") is None
    door.do(session, "end", ValueError())
    assert Session.join(key) is None
    assert world.standing == []


def test_a_key_of_two_stores_joins_neither(world: World, store: Store) -> None:
    key = unique("order")
    one = Session.open_sync(store=store, key=key)
    two = Session.open_sync(store=open_store("memory:"), key=key)
    assert Session.join(key) is None
    two.end_sync()
    assert Session.join(key) is one
    one.end_sync()


def test_a_session_that_was_left_behind_does_not_hide_the_newest_one(store: Store, world: World) -> None:
    key = unique("order")
    Session.open_sync(store=store, key=key).end_sync()
    left = Session.open_sync(store=store, key=key, if_settled="return")
    session = Session.open_sync(store=store, key=key, if_settled="new")
    assert Session.join(key) is session
    session.end_sync()
    assert Session.join(key) is left


def test_a_dropped_session_is_not_joined(store: Store, world: World) -> None:
    key = unique("order")
    session = Session.open_sync(store=store, key=key)
    del session
    gc.collect()
    assert Session.join(key) is None


def test_a_savepoint_is_not_joined_by_the_key_of_the_scope_around_it(store: Store, world: World) -> None:
    key = unique("order")
    with saga_scope(store=store, key=key):
        session = Session.open_sync()
        assert session.saga.key == key
        assert Session.join(key) is None
        session.end_sync()


def test_a_session_lists_the_places_of_its_own_steps_in_the_order_in_which_they_were_made(
    door: Door, world: World
) -> None:
    session = door.begin()
    for place, item in (("task.1/call", "a"), ("b", "b"), ("task.1/call", "a")):
        door.charge(session, place, item)
    with session.body("outer"):
        door.charge(session, "inner", "c")
    inner = session.savepoint("part")
    door.charge(inner, "d", "d")
    assert session.places == ["task.1/call", "b", "outer", "d"]
    assert inner.places == ["d"]
    door.do(session, "end")
    assert world.standing == ["a", "b", "c", "d"]
