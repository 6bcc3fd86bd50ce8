"""Undo for LangGraph and LangChain agents, over saga_core."""

from saga_langgraph.graph import with_saga
from saga_langgraph.middleware import SagaMiddleware
from saga_langgraph.node import saga_node
from saga_langgraph.tool import saga_tools

__all__ = ["SagaMiddleware", "saga_node", "saga_tools", "with_saga"]
