"""Scenarios of runs inside a scope that the user opened: a run is a savepoint of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from saga_core import saga_scope
from saga_core.conformance.adapter.actions import charge, reserve
from saga_core.conformance.adapter.scenario import ModelFailed, call, expect_unchanged
from saga_core.conformance.adapter.script import Script
from saga_core.conformance.expectation import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from saga_core.conformance.adapter.scenario import Stage
    from saga_core.conformance.adapter.script import Turn

_TOOLS = (charge, reserve)
_GOOD: list[Turn] = [[call(charge, "a", amount=5)], [call(reserve, "b")], "all done"]


class BlockFailed(Exception):
    """What the user's own code raises after the run."""


def a_run_that_answered_is_undone_when_the_scope_around_it_fails(stage: Stage) -> None:
    """The run ends well and the block around it does not."""
    error = BlockFailed("the rest went wrong")

    def fail() -> None:
        expect(stage.ledger.standing == ["a", "b"], f"both should stand in the block: {stage.ledger.standing}")
        raise error

    try:
        _around(stage, _GOOD, fail)
    except BlockFailed as raised:
        expect_unchanged(error, raised)
    else:
        raise AssertionError("the block's error should come out of the scope")
    stage.stand()
    stage.are_undone("b", "a")
    stage.ended("rolled_back")


def a_run_that_answered_is_kept_with_the_scope_around_it(stage: Stage) -> None:
    """All is one saga, committed at its end and not before."""

    def look() -> None:
        expect([view.state for view in stage.sagas()] == ["running"], "nothing should be committed inside the block")

    _around(stage, _GOOD, look)
    stage.stand("a", "b")
    stage.are_undone()
    stage.ended("committed")
    recorded = [step.action for step in stage.sagas()[0].steps.values()]
    expect(recorded == [charge.name, reserve.name], f"the run's steps should be the scope's; there it has {recorded}")


def a_failed_run_undoes_its_own_part_of_the_scope_around_it(stage: Stage) -> None:
    """The block had an effect before the run, catches the run's error, and goes on."""
    error = ModelFailed("no answer")
    turns: list[Turn] = [[call(charge, "a", amount=5)], [call(reserve, "b")], error]

    def keep() -> None:
        stage.stand("before")

    _around(stage, turns, keep, before="before", error=error)
    stage.have_landed("before", "a", "b")
    stage.stand("before")
    stage.are_undone("b", "a")
    stage.ended("committed")


def _around(
    stage: Stage,
    turns: list[Turn],
    after: Callable[[], None],
    *,
    before: str | None = None,
    error: ModelFailed | None = None,
) -> None:
    """Play inside a scope, between an effect of the block's own and what the block does after the run."""
    script = Script(turns)

    def check(raised: ModelFailed) -> None:
        if error is None:
            raise raised
        expect(raised is error, f"the run should raise {error!r}, the very object; it raised {raised!r}")

    def plain() -> None:
        with saga_scope("around", store=stage.store):
            if before is not None:
                reserve(before)
            try:
                stage.harness.play(script, _TOOLS, None, None)
            except ModelFailed as raised:
                check(raised)
            after()

    async def on_loop() -> None:
        async with saga_scope("around", store=stage.store):
            if before is not None:
                await asyncio.to_thread(reserve, before)
            try:
                await stage.harness.play_async(script, _TOOLS, None, None)
            except ModelFailed as raised:
                check(raised)
            after()

    if stage.form == "sync":
        plain()
    else:
        asyncio.run(on_loop())
