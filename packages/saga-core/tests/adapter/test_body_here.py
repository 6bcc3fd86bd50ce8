"""A tool's body in a scope that the user opened, without a session of the adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from saga_core import compensable, inverse, saga_scope
from saga_core.adapter import Session

if TYPE_CHECKING:
    from pathlib import Path

_WORLD: list[str] = []


@inverse("body_here.take_back")
def take_back(item: str) -> None:
    _WORLD.remove(item)


@compensable("body_here.put", undo=lambda call: take_back.bind(call.args["item"]))
def put(item: str) -> str:
    _WORLD.append(item)
    return item


@pytest.fixture(autouse=True)
def world() -> list[str]:
    _WORLD.clear()
    return _WORLD


def in_body(place: str, item: str) -> None:
    body = Session.body_here(place)
    assert body is not None
    with body:
        put(item)


def test_a_body_that_is_run_again_does_not_repeat_its_effect(world: list[str], tmp_path: Path) -> None:
    with saga_scope(store=f"file:{tmp_path}"):
        in_body("task-1", "a")
        in_body("task-1", "a")
        in_body("task-2", "a")
    assert world == ["a", "a"]


def test_the_innermost_scope_takes_the_effects(world: list[str], tmp_path: Path) -> None:
    with saga_scope(store=f"file:{tmp_path}"):
        in_body("task-1", "a")
        with pytest.raises(ValueError, match="inner"), saga_scope():
            in_body("task-2", "b")
            raise ValueError("inner")
        assert world == ["a"]


def test_outside_a_scope_there_is_none() -> None:
    assert Session.body_here("task-1") is None


def test_an_empty_place_is_refused(tmp_path: Path) -> None:
    with saga_scope(store=f"file:{tmp_path}"), pytest.raises(ValueError, match="cannot be empty"):
        Session.body_here("")
