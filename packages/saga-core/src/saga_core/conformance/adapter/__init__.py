"""What an adapter of an agent framework must do, as scenarios that are played on it."""

from saga_core.conformance.adapter.catalogue import SCENARIOS
from saga_core.conformance.adapter.scenario import Scenario
from saga_core.conformance.adapter.script import Form, Harness, Played, Script, ToolCall, Turn

__all__ = ["SCENARIOS", "Form", "Harness", "Played", "Scenario", "Script", "ToolCall", "Turn"]
