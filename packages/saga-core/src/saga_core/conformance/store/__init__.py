"""What a store of logs must do, as scenarios that are played on it."""

from saga_core.conformance.store.catalogue import SCENARIOS
from saga_core.conformance.store.harness import Ability, Harness
from saga_core.conformance.store.scenario import Scenario

__all__ = ["SCENARIOS", "Ability", "Harness", "Scenario"]
