"""Real declarations for each kind of action: what saga_core's plan finds in its registry."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from saga_core import Landed, NotLanded, Unknown, compensable, inverse, irreversible

from .programs import KINDS

if TYPE_CHECKING:
    from saga_core import Attempt, Call, Compensation, Inverse

    from .record import Kind

LANDS_WITHIN = timedelta(seconds=10)


def _never(name: str) -> None:
    raise AssertionError(f"{name}: the model only asks what would be done")


def _ask(attempt: Attempt) -> Landed[None] | NotLanded | Unknown:
    _never(attempt.action)
    return Unknown("")


def _ask_about_undo(name: str) -> Landed[None] | NotLanded:
    _never(name)
    return NotLanded()


def _declare(kind: Kind) -> Inverse[[str]]:
    name = f"model.{kind.settling}.{kind.inverse}"
    undo = inverse(f"{name}.undo", keyed=kind.inverse == "keyed")(_never)
    if kind.inverse == "asked":
        undo.probe(_ask_about_undo)

    def bind(call: Call[None]) -> Compensation:
        return undo.bind(call.action)

    act = compensable(name, lands_within=LANDS_WITHIN)(_never)
    act.undo(bind)
    if kind.settling in {"probe", "mute"}:
        act.probe(_ask)
    held = irreversible(f"{name}.held", hold=True, lands_within=LANDS_WITHIN, replay=kind.settling == "keyed")(_never)
    if kind.settling in {"probe", "mute"}:
        held.probe(_ask)
    return undo


UNDOS = {kind: _declare(kind) for kind in KINDS}
"""The inverse of each kind."""
