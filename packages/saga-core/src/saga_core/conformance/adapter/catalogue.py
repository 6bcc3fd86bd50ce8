"""All scenarios, each in the forms in which it says something of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saga_core.conformance.adapter import deaths, interruptions, nesting, runs
from saga_core.conformance.adapter.scenario import Scenario, Stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from saga_core.conformance.adapter.script import Form

_BOTH: tuple[Form, ...] = ("sync", "async")

_ACTS: tuple[tuple[Callable[[Stage], None], tuple[Form, ...]], ...] = (
    (runs.a_run_that_answers_keeps_its_effects, _BOTH),
    (runs.a_run_that_fails_is_undone_newest_first, _BOTH),
    (runs.a_tool_error_that_the_model_repairs_undoes_nothing, _BOTH),
    (runs.a_refused_call_has_no_effect_and_its_reason_reaches_the_model, _BOTH),
    (runs.calls_of_one_turn_are_undone_in_reverse_order_of_their_outcomes, _BOTH),
    (runs.equal_calls_are_effects_of_their_own, _BOTH),
    (runs.a_failed_run_leaves_alone_what_an_earlier_one_kept, _BOTH),
    (interruptions.a_thread_that_lands_after_its_run_timed_out_is_undone, ("async",)),
    (interruptions.an_effect_that_is_cancelled_before_its_answer_is_undone, ("async",)),
    (interruptions.calls_of_one_turn_are_all_undone_when_the_run_is_cancelled, ("async",)),
    (interruptions.a_stream_that_is_broken_off_is_undone_and_starts_nothing_more, ("stream",)),
    (nesting.a_run_that_answered_is_undone_when_the_scope_around_it_fails, _BOTH),
    (nesting.a_run_that_answered_is_kept_with_the_scope_around_it, _BOTH),
    (nesting.a_failed_run_undoes_its_own_part_of_the_scope_around_it, _BOTH),
    (deaths.a_run_killed_before_its_second_effect_landed_is_undone_once_by_recovery, ("sync",)),
    (deaths.a_run_killed_after_its_second_effect_landed_is_undone_once_by_recovery, ("async",)),
)

SCENARIOS: tuple[Scenario, ...] = tuple(
    Scenario(f"{act.__name__.replace('_', ' ')}, {form}", form, act) for act, forms in _ACTS for form in forms
)
"""Play each whose form the harness has."""
