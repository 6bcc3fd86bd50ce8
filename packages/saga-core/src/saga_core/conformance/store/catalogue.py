"""All scenarios, each with what it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saga_core.conformance.store import histories, keys, losses, owners, places, readers, rivals, syncs
from saga_core.conformance.store.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from saga_core.conformance.store.harness import Ability
    from saga_core.conformance.store.stage import Stage

_NOTHING: frozenset[Ability] = frozenset()
_PROCESSES: frozenset[Ability] = frozenset({"processes"})
_POWER: frozenset[Ability] = frozenset({"power"})
_ERASURE: frozenset[Ability] = frozenset({"erasure"})

_ACTS: tuple[tuple[Callable[[Stage], None], AbstractSet[Ability]], ...] = (
    (histories.every_kind_of_record_comes_back_as_it_was_written, _NOTHING),
    (histories.records_of_several_megabytes_come_back_as_they_were_written, _NOTHING),
    (histories.records_of_sagas_written_in_turn_stay_apart, _NOTHING),
    (histories.positions_grow_with_each_record, _NOTHING),
    (histories.the_next_owner_reads_everything_and_goes_on_behind_it, _NOTHING),
    (histories.a_saga_that_never_was_is_unknown, _NOTHING),
    (histories.a_saga_is_created_once, _NOTHING),
    (readers.a_record_is_seen_by_everybody_when_append_has_returned, _NOTHING),
    (readers.a_reader_beside_a_writer_sees_the_first_of_his_records_whole, _NOTHING),
    (owners.an_owned_log_is_handed_to_nobody_else, _NOTHING),
    (owners.a_log_that_was_given_up_takes_no_record, _NOTHING),
    (owners.giving_a_log_up_again_takes_it_from_nobody, _NOTHING),
    (rivals.of_many_threads_that_claim_a_log_one_gets_it, _NOTHING),
    (rivals.of_many_processes_that_claim_a_log_one_gets_it, _PROCESSES),
    (rivals.a_killed_owners_log_is_free_and_holds_what_he_was_told_it_does, _PROCESSES),
    (owners.taking_one_saga_over_changes_no_other, _NOTHING),
    (places.a_settled_saga_is_read_and_never_claimed, _NOTHING),
    (places.open_sagas_come_oldest_first_and_settled_ones_newest_first, _NOTHING),
    (places.a_parked_saga_is_listed_where_it_waits_until_somebody_goes_on, _NOTHING),
    (places.tidying_takes_nothing_away, _NOTHING),
    (places.a_saga_that_is_put_from_place_to_place_is_never_out_of_sight, _NOTHING),
    (places.an_erased_saga_is_unknown_but_for_its_tombstone, _ERASURE),
    (syncs.what_was_synced_is_durable, _NOTHING),
    (syncs.what_many_threads_sync_at_once_is_durable_for_each, _NOTHING),
    (syncs.sync_later_answers_once_for_each_of_several_logs_in_their_order, _NOTHING),
    (syncs.sync_later_answers_each_of_many_threads, _NOTHING),
    (syncs.sync_soon_needs_nobody_who_waits, _NOTHING),
    (losses.what_was_synced_survives_a_loss_of_power, _POWER),
    (losses.what_was_synced_survives_wherever_its_saga_was_put, _POWER),
    (losses.what_was_synced_survives_a_loss_of_power_behind_the_end_of_its_process, _POWER),
    (losses.a_key_that_was_taken_is_taken_after_a_loss_of_power, _POWER),
    (keys.a_generation_of_a_key_is_given_once_and_in_order, _NOTHING),
    (keys.keys_that_look_alike_are_different_keys, _NOTHING),
    (keys.of_many_threads_that_take_a_generation_one_gets_it, _NOTHING),
    (keys.of_many_processes_that_take_a_generation_one_gets_it, _PROCESSES),
)

SCENARIOS: tuple[Scenario, ...] = tuple(Scenario(act.__name__.replace("_", " "), needs, act) for act, needs in _ACTS)
"""Play each whose needs are among the abilities of the harness."""
