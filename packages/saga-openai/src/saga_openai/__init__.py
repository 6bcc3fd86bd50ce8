"""Undo for the OpenAI Agents SDK, over saga_core."""

from saga_openai.outcome import report_of
from saga_openai.runner import SagaRunner
from saga_openai.tool import saga_tools

__all__ = ["SagaRunner", "report_of", "saga_tools"]
