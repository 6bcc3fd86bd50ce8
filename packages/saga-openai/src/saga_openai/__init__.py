"""Undo for the OpenAI Agents SDK, over saga_core.

This version exports nothing: the adapter is not part of it. An action of saga_core can be called from a tool's body.
"""

__all__: list[str] = []
